"""Runs of a setting of studies/confirm, with the results that a test needs."""

from __future__ import annotations

from pathlib import Path

from attnx.reports.sweep.run_record import RunRecord
from attnx.runs.info import RunStatus

COSTS = {"train_cpu_seconds": 30.0, "parameters": 1000.0}


def runs(*rates: float | None) -> list[RunRecord]:
    """Runs with these error rates; None for one that failed."""
    return [
        RunRecord(
            path=Path(str(seed)),
            label="run",
            status=RunStatus.FAILED if rate is None else RunStatus.FINISHED,
            seed=seed,
            results={} if rate is None else {"test_per": rate, "test_examples": 1000.0, **COSTS},
            monitor="valid_per",
            maximize=False,
        )
        for seed, rate in enumerate(rates)
    ]
