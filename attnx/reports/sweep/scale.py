"""The scale on which a metric is compared: errors by their ratios, scores by their differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnx.reports.metric_names import MAX_PERCENT, is_error, is_percent
from attnx.reports.stats.multiple_comparisons import MeanDifference
from attnx.reports.sweep.metrics import Metric

MAX_LOGARITHM = 700.0  # of a number that can be written


class Scale(NamedTuple):
    """Where less is better: the logarithm of an error, or a score as it is.

    The variance of error rates and squared errors over seeds grows with their mean; that of their logarithms much less.
    An accuracy is compared by its error, what it lacks of 100 %. BLEU, chrF, correlations, losses, lengths of tours and
    times stay as they are.

    Attributes:
        sign: -1 if higher values are better.
        least: the error for which a smaller one counts, whose logarithm would be minus infinity; None without
            logarithms.
    """

    sign: int
    least: float | None = None

    def apply(self, values: ArrayLike) -> NDArray[np.float64]:
        """Values of the metric on the scale."""
        values = np.asarray(values, dtype=np.float64)
        if self.least is None:
            return self.sign * values
        return np.asarray(np.log(np.maximum(MAX_PERCENT - values if self.sign < 0 else values, self.least)))

    def invert(self, value: float) -> float:
        """The value of the metric at a place on the scale."""
        if self.least is None:
            return self.sign * value
        error = math.exp(min(value, MAX_LOGARITHM))
        return MAX_PERCENT - error if self.sign < 0 else error

    def difference(self, best: float, difference: MeanDifference) -> MeanDifference:
        """A difference from a place on the scale, in the units of the metric; above zero is worse."""
        gap, low, high = (self.sign * (self.invert(best + end) - self.invert(best)) for end in difference[:3])
        return MeanDifference(gap, low, high, difference.p, difference.test)


def choose_scale(metric: Metric, values: Sequence[float], examples: float) -> Scale:
    """The scale for the values of all runs of a metric, tested on so many examples.

    The least error is half an example, or half the least one that was measured.
    """
    sign = -1 if metric.is_higher_better else 1
    errors = [MAX_PERCENT - value if sign < 0 else value for value in values]
    if not is_error(metric.key) or min(errors, default=-1.0) < 0 or not any(errors):
        return Scale(sign)
    half_an_example = MAX_PERCENT / 2 / max(1.0, examples)
    measured = min(error for error in errors if error > 0) / 2
    return Scale(sign, min(measured, half_an_example) if is_percent(metric.key) else measured)
