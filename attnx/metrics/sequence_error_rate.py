"""Sequence error rate: the measure of :mod:`attnx.metrics.word_error_rate`, for sequences of any kind."""

from __future__ import annotations

from attnx.metrics.word_error_rate import WordErrorRate
from attnx.registry import register


@register("metric", "sequence_error_rate")
def sequence_error_rate() -> WordErrorRate:
    """Sequences whose prediction equals none of their references, in percent of all sequences.

    Formula: ``100 * wrong / sequences``
    Source: Yao and Zweig 2015, section 4 (of words, symbol by symbol), https://arxiv.org/abs/1506.00196

    What ``word_error_rate`` computes, by a name that does not say what a sequence is.

    >>> metric = sequence_error_rate()
    >>> metric.update([["tap"], ["tap", "tap"]], [[["tap"]], [["tap", "shake"]]])
    >>> metric.compute().item()
    50.0
    """
    return WordErrorRate()
