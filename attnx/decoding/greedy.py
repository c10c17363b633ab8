"""Greedy search, the decoding ``greedy``."""

from __future__ import annotations

from dataclasses import dataclass

from attnx.decoding.contracts import DecodeResult
from attnx.decoding.search import ConstrainedSearch, SearchInputs, decode_stepwise
from attnx.registry import register


@register("decoding", "greedy")
@dataclass(frozen=True)
class Greedy(ConstrainedSearch):
    """Take the likeliest symbol at every step, or the row of numbers that the model gives.

    Formula: ``y_t = argmax_y p(y | y_<t, x)``
    Source: Sutskever et al. 2014, section 3.2 with beam 1, https://arxiv.org/abs/1409.3215

    A sequence ends at EOS (one of numbers with the row that is likelier the last one than not), or after
    ``max_length_ratio`` times its source's length plus ``max_length_extra`` steps; what is unset follows from the
    lengths of the training data. The limit is each one's own, so that the batch it happens to be in changes nothing.
    EOS comes after ``min_length`` symbols at the earliest, and no sequence of ``no_repeat_ngram_size`` symbols comes
    twice (0: any may).
    """

    def search(self, inputs: SearchInputs) -> DecodeResult:
        """One hypothesis a row."""
        return decode_stepwise(inputs, 1, lambda predicted, *_: inputs.model.target.greedy(predicted))
