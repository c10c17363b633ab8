"""One run in a comparison, from its folder or from a row of a table; and the runs that did not finish."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from attnx.files.parse_number import count_phrase, is_number
from attnx.files.printable import cell_text
from attnx.reports.metric_names import metric_base
from attnx.reports.run.evaluated_examples import EvaluatedExamples
from attnx.runs.info import RunStatus, parse_iso_time
from attnx.runs.results import Curve, Interval

STEPS = "steps"  # the result: how many a run trained for
SEED_OVERRIDE = re.compile(r"(^| )seed=\S+")  # in the label of a run
EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass
class RunRecord:
    """One run, however it ended: its results and curves, as far as they are finite, and facts of run.json."""

    path: Path
    label: str  #: its overrides that differ in the sweep, or its name
    status: RunStatus
    seed: int | None = None
    #: its configuration by dotted keys, without seed, names and loggers
    choices: dict[str, Any] = field(default_factory=dict)
    results: dict[str, float] = field(default_factory=dict)
    intervals: Mapping[str, Interval] = field(default_factory=dict)  #: the 95 % interval of each metric that has one
    curves: dict[str, Curve] = field(default_factory=dict)
    monitor: str = ""
    maximize: bool = False
    created: str = ""
    budget: str = ""  #: ``time`` if its clock ended it, ``steps`` if not; "" if unknown
    commit: str = ""  #: of the code, with a plus if files were changed; "" if unknown
    machine: str = ""  #: its processor and GPUs; "" if unknown
    data: str = ""  #: the fingerprint of the training data; "" if unknown
    examples: EvaluatedExamples = field(default_factory=EvaluatedExamples)  #: of its test, as far as they were saved
    log: Path | None = None
    error: str = ""  #: one line, if it failed or cannot be read
    #: choices that it is known not to have, since their cells are empty in its table of runs
    lacks: tuple[str, ...] = ()
    signatures: Mapping[str, str] = field(default_factory=dict)  #: exact definitions, by metric

    @property
    def test(self) -> str:
        """The digest of the test examples; "" if they were not saved."""
        return self.examples.digest

    def signature(self, key: str) -> str:
        """The exact definition of a metric; "" if it has one definition alone."""
        return self.signatures.get(metric_base(key, self.signatures), "")

    @property
    def created_at(self) -> datetime | None:
        """When it was created; None if that is unknown."""
        return parse_iso_time(self.created)

    @property
    def filtered_values(self) -> dict[str, Any]:
        """What filters may ask for: choices, as text in a table of runs, results, and some facts."""
        is_text = {key: isinstance(value, str) and is_number(value) for key, value in self.choices.items()}
        return {
            **{key: float(value) if is_text[key] else value for key, value in self.choices.items()},
            **self.results,
            "name": self.label,
            "path": str(self.path),
            "seed": self.seed,
            "status": self.status,
            "created": self.created_at,
            "duration": self.results.get("train_seconds"),
        }


def steps_range(runs: Sequence[RunRecord]) -> str:
    """The training steps of runs as text: one number, or the least and the most."""
    counts = sorted({int(run.results[STEPS]) for run in runs if STEPS in run.results})
    return " to ".join(f"{count:,}" for count in dict.fromkeys([*counts[:1], *counts[-1:]]))


class Failure(NamedTuple):
    """Runs that differ by their seed alone, and ended with the same status and the same error; ``name`` is a label."""

    name: str
    runs: list[RunRecord]

    @property
    def status(self) -> str:
        """How the runs ended, and with how many seeds, if there are several."""
        status = str(self.runs[0].status)
        if len(self.runs) == 1:
            return status
        return f"{status} with {count_phrase(len(self.runs), 'seed')} ({', '.join(str(run.seed) for run in self.runs)})"

    @property
    def error(self) -> str:
        """One line; "" if there was none."""
        return self.runs[0].error

    def describe(self) -> str:
        """Status, error and the first log, on one line."""
        reason = f": {cell_text(self.error)}" if self.error else ""
        logs = [f"; see `{run.log}`" for run in self.runs if run.log]
        return f"{cell_text(self.name)}: {self.status}{reason}{''.join(logs[:1])}"


def group_failures(records: Sequence[RunRecord]) -> list[Failure]:
    """Group the unfinished runs; those whose choices are unknown remain alone."""
    groups: dict[tuple[str, str, str], list[RunRecord]] = {}
    for run in records:
        if run.status != RunStatus.FINISHED:
            setting = repr(sorted(run.choices.items())) if run.choices else str(run.path)
            groups.setdefault((setting, run.status, run.error), []).append(run)
    failures = []
    for runs in groups.values():
        label = runs[0].label
        failures.append(Failure((SEED_OVERRIDE.sub("", label).strip() or label) if len(runs) > 1 else label, runs))
    return failures
