"""A claim: what is trained and measured for it, and what was published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import yaml

from attnx import registry
from attnx.reports.metric_names import TEST
from attnx.reports.sweep.metrics import run_value
from attnx.reports.sweep.run_record import RunRecord
from studies.job import BASE, Job, plan_job
from studies.results import Results

BASELINES: Final[dict[str, str]] = registry.declarations("task", "forecasting")["baselines"]
"""The forecasts without a model that a run of `task=forecasting` measures beside its own, in the same metrics."""


@dataclass(frozen=True)
class Claim:
    """One entry of claims.yaml, whose comment explains the fields."""

    name: str
    says: str
    metric: str
    base: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    seeds: Sequence[int] = (1,)
    runs: str = ""
    take: Literal["mean", "best"] = "mean"
    evaluate: Sequence[str] = ()
    ensemble: bool = False
    published: str = ""
    aim: float | None = None
    closed: str = ""

    @property
    def jobs(self) -> list[Job]:
        """The runs that are trained for it; none if another claim's are used."""
        return [] if self.runs else [plan_job(self.name, self.experiment, (), seed) for seed in self.seeds]

    def finished_runs(self, results: Results) -> list[RunRecord]:
        """Its runs that have its metric, by seed."""
        runs = (results.runs.get(job) for job in self.jobs)
        return [run for run in runs if run is not None and self.metric in run.results]

    def baselines(self, runs: Sequence[RunRecord]) -> dict[str, float]:
        """The metric of each simple forecast of the same windows, which no seed changes; none of other tasks."""
        metric = self.metric.removeprefix(TEST)
        measured = {name: run.results.get(f"{TEST}{name}_{metric}") for run in runs[:1] for name in BASELINES}
        return {name: value for name, value in measured.items() if value is not None}

    def is_decided(self, results: Results) -> bool:
        """Whether later starts cannot be chosen: it takes the best by validation, and one has no error left there."""
        errors = [validation(run) for run in self.finished_runs(results) if not run.maximize]
        return self.take == "best" and 0 in errors

    @property
    def experiment(self) -> dict[str, Any]:
        """The configuration of its runs."""
        return {BASE: self.base, **self.config}


def validation(run: RunRecord) -> float:
    """The best validation value of a finished run; less is better."""
    value = run_value(run, run.monitor)
    assert value is not None, "a finished run was validated"
    return -value if run.maximize else value


def read_claims(path: Path) -> dict[str, Claim]:
    """The claims by name."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name: Claim(name=name, **entry) for name, entry in content.items()}
