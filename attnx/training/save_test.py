"""Writes the results of a test into a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attnx.inference.baseline_differences import baseline_differences
from attnx.inference.metric_bootstrap import bootstrap_metrics
from attnx.inference.metric_intervals import measure_intervals
from attnx.inference.write_results import save_predictions, save_resampled, save_results
from attnx.tasks.contract import metric_signatures
from attnx.training.lightning_module import TrainingModule


def save_test(module: TrainingModule, folder: Path, results: Mapping[str, float]) -> None:
    """Write results.json, predictions.tsv (and .npz) and resampled.npz."""
    test = module.task, module.data.tags, module.predictions
    resampled = bootstrap_metrics(*test)
    save_results(
        folder,
        results,
        intervals=measure_intervals(*test, resampled),
        baselines=baseline_differences(module.task, results, resampled),
        signatures=metric_signatures(module.task, module.test_metrics),
    )
    save_predictions(folder, module.predictions)
    save_resampled(folder, resampled)
