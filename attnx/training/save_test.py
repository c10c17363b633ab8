"""Writes what a test found: its measures with their intervals, its predictions, and other draws of its examples."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attnx.inference.baseline_differences import baseline_differences
from attnx.inference.metric_bootstrap import bootstrap_metrics
from attnx.inference.metric_intervals import measure_intervals
from attnx.tasks.protocols import signatures_of
from attnx.training import run_folder
from attnx.training.lightning_module import TrainingModule


def save_test(experiment: TrainingModule, folder: Path, results: Mapping[str, float]) -> None:
    """Write results.json, predictions.tsv (and .npz) and bootstrap_metrics.npz into a run folder."""
    tested = experiment.task, experiment.data.tags, experiment.predictions
    drawn = bootstrap_metrics(*tested)
    run_folder.save_results(
        folder,
        results,
        intervals=measure_intervals(*tested, drawn),
        baselines=baseline_differences(experiment.task, results, drawn),
        signatures=signatures_of(experiment.task, experiment.test_metrics),
    )
    run_folder.save_predictions(folder, experiment.predictions)
    run_folder.save_resampled(folder, drawn)
