"""Symbol error rate: the measure of :mod:`attnx.metrics.phone_error_rate`, for symbols of any kind."""

from __future__ import annotations

from attnx.metrics.phone_error_rate import PhoneErrorRate
from attnx.registry import register


@register("metric", "symbol_error_rate")
def symbol_error_rate() -> PhoneErrorRate:
    """Edits per 100 reference symbols, in percent.

    Formula: ``100 * sum(edits) / sum(length) over all sequences``
    Source: Graves et al. 2006, section 2.1 (label error rate), https://doi.org/10.1145/1143844.1143891

    What ``phone_error_rate`` computes, by a name that does not say what the symbols are.

    >>> metric = symbol_error_rate()
    >>> metric.update([["tap", "tap"]], [[["tap", "shake", "tap"]]])
    >>> round(metric.compute().item(), 2)
    33.33
    """
    return PhoneErrorRate()
