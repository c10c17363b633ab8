"""How much a run differs from each baseline of its task, on the same examples and the same draws of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attnx.inference.metric_bootstrap import Numbers
from attnx.reports.stats.bootstrap import percentile_interval
from attnx.runs.results_json import BaselineDifference
from attnx.tasks.protocols import SequenceTask


def baseline_differences(
    task: SequenceTask, results: Mapping[str, float], drawn: Mapping[str, Numbers]
) -> dict[str, dict[str, BaselineDifference]]:
    """Each measure of a run minus each baseline's, by their names, with a 95 % interval by paired bootstrap.

    Args:
        task: whose ``baselines`` have their measures beside the run's, behind their names: ``test_naive_mse``.
        results: of the run's test.
        drawn: the measures of other draws of its examples; what is no number in some draw is left out.
    """
    found: dict[str, dict[str, BaselineDifference]] = {}
    for baseline in getattr(task, "baselines", ()):
        before = f"test_{baseline}_"
        for theirs in (name for name in drawn if name.startswith(before)):
            ours = f"test_{theirs.removeprefix(before)}"
            differences = drawn[ours] - drawn[theirs] if ours in drawn else np.array([np.nan])
            if np.isfinite(differences).all():
                edges = percentile_interval(differences)
                difference = BaselineDifference(results[ours] - results[theirs], *edges)
                found.setdefault(baseline, {})[ours] = difference
    return found
