"""Differences between a run and the baselines of its task, with intervals by paired bootstrap."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attnx.inference.metric_bootstrap import Numbers
from attnx.reports.stats.bootstrap import percentile_interval
from attnx.runs.results_json import BaselineDifference
from attnx.tasks.contract import SequenceTask


def baseline_differences(
    task: SequenceTask, results: Mapping[str, float], resampled: Mapping[str, Numbers]
) -> dict[str, dict[str, BaselineDifference]]:
    """Each measure of a run minus each baseline's, by baseline and measure, with a 95 % interval by paired bootstrap.

    Args:
        task: its ``baselines`` have measures such as ``test_naive_mse``, the baseline's name in front.
        results: of the run's test.
        resampled: the measures of bootstrap samples; one that is not finite in some sample is left out.
    """
    differences: dict[str, dict[str, BaselineDifference]] = {}
    for baseline in getattr(task, "baselines", ()):
        prefix = f"test_{baseline}_"
        for baseline_measure in (name for name in resampled if name.startswith(prefix)):
            measure = f"test_{baseline_measure.removeprefix(prefix)}"
            samples = resampled[measure] - resampled[baseline_measure] if measure in resampled else np.array([np.nan])
            if np.isfinite(samples).all():
                difference = results[measure] - results[baseline_measure]
                result = BaselineDifference(difference, *percentile_interval(samples))
                differences.setdefault(baseline, {})[measure] = result
    return differences
