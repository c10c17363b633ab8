"""Greedy search, the decoding ``greedy``."""

from __future__ import annotations

import torch
from torch import Tensor

from attnx.decoding.constraints import DecodingConstraints
from attnx.decoding.contracts import DecodeResult, NextTokenFilter, StepModel
from attnx.decoding.stepwise import decode_stepwise
from attnx.registry import Natural, Rate, register


@register("decoding", "greedy")
class Greedy:
    """Take the likeliest symbol at every step, or the row of numbers that the model gives.

    Formula: ``y_t = argmax_y p(y | y_<t, x)``
    Source: Sutskever et al. 2014, section 3.2 with beam 1, https://arxiv.org/abs/1409.3215

    A sequence ends at EOS (one of numbers with the row that is likelier the last one than not), or after
    ``max_length_ratio`` times its source's length plus ``max_length_extra`` steps. The limit is each one's own, so that
    the batch it happens to be in changes nothing. EOS comes after ``min_length`` symbols at the earliest, and no
    sequence of ``no_repeat_ngram_size`` symbols comes twice (0: any may).
    """

    def __init__(
        self,
        max_length_ratio: Rate = 2.0,
        max_length_extra: Natural = 5,
        min_length: Natural = 0,
        no_repeat_ngram_size: Natural = 0,
    ) -> None:
        self.rules = DecodingConstraints(max_length_ratio, max_length_extra, min_length, no_repeat_ngram_size)

    def check(self, model: StepModel) -> None:
        """As :meth:`Search.check`: rules about symbols need symbols."""
        self.rules.check(model)

    @torch.no_grad()
    def __call__(
        self,
        model: StepModel,
        source: Tensor,
        present: Tensor,
        tag: Tensor | None = None,
        need_weights: bool = False,
        prefix: Tensor | None = None,
        choices: NextTokenFilter | None = None,
    ) -> DecodeResult:
        """As :class:`Search`; one hypothesis a row."""
        rules = self.rules.for_batch(model, prefix, choices)
        start = model.init_state(source, present, tag)
        return decode_stepwise(
            model,
            start,
            rules.limit(present),
            1,
            need_weights,
            rules,
            lambda predicted, *_: model.target.greedy(predicted),
        )
