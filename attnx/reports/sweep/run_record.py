"""What is known of one run in a comparison, from its folder or from a row of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attnx.reports.sweep.evaluated_examples import LengthErrors, TestedExamples
from attnx.runs.metrics_csv import Curve
from attnx.runs.results_json import Interval
from attnx.runs.status import RunStatus

STEPS = "steps"  # the result: how many a run trained for
DATA = "training data"  # the choice that runs with different training data differ in
EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class RunOutputs:
    """What the comparison reads of a run's outputs.

    Attributes:
        test: the digest of the test examples; "" if they were not saved.
        tested: the test examples, if they were saved in the run's folder.
        length_errors: the errors by source length; empty if outputs are numbers.
    """

    test: str = ""
    tested: TestedExamples | None = None
    length_errors: Mapping[int, LengthErrors] = field(default_factory=dict)


@dataclass
class RunRecord:
    """One run, however it ended: its results and curves, as far as they are finite, and facts of run.json.

    Attributes:
        label: its overrides that differ in the sweep, or its name.
        choices: its configuration by dotted keys, without seed, names and loggers.
        intervals: the 95 % interval of each metric that has one.
        budget: ``time`` if its clock ended it, ``steps`` if not; "" if unknown.
        commit: of the code, with a plus if files were changed; "" if unknown.
        data: the fingerprint of the training data; "" if unknown.
        error: one line, if it failed or cannot be read.
        lacks: choices that it is known not to have, since their cells are empty in its table of runs.
    """

    path: Path
    label: str
    status: RunStatus
    seed: int | None = None
    choices: dict[str, Any] = field(default_factory=dict)
    results: dict[str, float] = field(default_factory=dict)
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    curves: dict[str, Curve] = field(default_factory=dict)
    monitor: str = ""
    maximize: bool = False
    created: str = ""
    budget: str = ""
    commit: str = ""
    data: str = ""
    outputs: RunOutputs = field(default_factory=RunOutputs)
    log: Path | None = None
    error: str = ""
    lacks: tuple[str, ...] = ()

    @property
    def created_at(self) -> datetime | None:
        """When it was created, to compare with runs of other time zones; None if that is unknown."""
        try:
            return datetime.fromisoformat(self.created).astimezone()
        except ValueError:
            return None


def steps_range(runs: Sequence[RunRecord]) -> str:
    """The training steps of runs as text: one number, or the least and the most."""
    counts = sorted({int(run.results[STEPS]) for run in runs if STEPS in run.results})
    return " to ".join(f"{count:,}" for count in dict.fromkeys([*counts[:1], *counts[-1:]]))
