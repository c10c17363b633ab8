"""Sampling, the decoding ``sampling``."""

from __future__ import annotations

import torch
from torch import Tensor

from attnx.data.special_tokens import EOS
from attnx.decoding.constraints import DecodingConstraints
from attnx.decoding.contracts import DecodeResult, NextTokenFilter, StepModel
from attnx.decoding.hypotheses import best
from attnx.decoding.row_rng import row_seeds, uniform
from attnx.decoding.stepwise import decode_stepwise
from attnx.errors import UserError
from attnx.nn.targets.contract import GreedyStep
from attnx.registry import Natural, Positive, Rate, register


@register("decoding", "sampling")
class Sampling:
    """Draw every symbol by its probability; ``nbest`` outputs, the likeliest first, some of which may be alike.

    Formula: ``y_t ~ p(y | y_<t, x)^(1 / temperature), of the top_k likeliest, of the fewest that have top_p together``
    Source: Holtzman et al. 2020 (top_p), https://arxiv.org/abs/1904.09751; Fan et al. 2018 (top_k), https://arxiv.org/abs/1805.04833

    ``top_k=0`` and ``top_p=1`` leave out none. What is drawn for a source depends on it and on ``seed`` alone: it is
    the same in every batch and every run. The other knobs are those of ``greedy``.
    """

    def __init__(
        self,
        temperature: Rate = 1.0,
        top_k: Natural = 0,
        top_p: Rate = 1.0,
        seed: Natural = 0,
        nbest: Positive = 1,
        max_length_ratio: Rate = 2.0,
        max_length_extra: Natural = 5,
        min_length: Natural = 0,
        no_repeat_ngram_size: Natural = 0,
    ) -> None:
        if top_p > 1:
            raise UserError(f"decoding.top_p={top_p} is a share of the probability; choose a number up to 1")
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p
        self.seed, self.nbest = seed, nbest
        self.rules = DecodingConstraints(max_length_ratio, max_length_extra, min_length, no_repeat_ngram_size)

    def check(self, model: StepModel) -> None:
        """As :meth:`Search.check`: only symbols can be drawn."""
        self.rules.check(model, "sampling")

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
        """As :class:`Search`; ``nbest`` hypotheses a row."""
        self.check(model)
        rules = self.rules.for_batch(model, prefix, choices)
        seeds = row_seeds(source, present, self.seed)

        def pick(predicted: Tensor, rows: Tensor, step: int) -> GreedyStep:
            uniforms = uniform(seeds[rows // self.nbest], rows % self.nbest, step)
            symbol = self.sample(predicted, uniforms)
            return GreedyStep(symbol, predicted.gather(1, symbol[:, None])[:, 0], symbol == EOS)

        start = model.init_state(source, present, tag)
        result = decode_stepwise(model, start, rules.limit(present), self.nbest, need_weights, rules, pick)
        return best(result, self.nbest)

    def sample(self, scores: Tensor, uniforms: Tensor) -> Tensor:
        """A symbol of each row (r,), from log-probabilities (r, symbols) and numbers from 0 to 1 (r,).

        >>> probabilities = torch.tensor([[0.125, 0.375, 0.5]])
        >>> Sampling(top_k=2).sample(probabilities.log().expand(3, -1), torch.tensor([0, 0.5, 0.6]))
        tensor([2, 2, 1])
        """
        is_truncated = 0 < self.top_k < scores.shape[1] or self.top_p < 1
        symbols = None
        if is_truncated:
            scores, symbols = scores.topk(min(self.top_k or scores.shape[1], scores.shape[1]))
        probabilities = torch.softmax(scores.double() / self.temperature, -1)
        if self.top_p < 1:
            probabilities = probabilities * (probabilities.cumsum(-1) - probabilities < self.top_p)
        cumulative = probabilities.cumsum(-1)
        index = torch.searchsorted(cumulative, (uniforms.double() * cumulative[:, -1])[:, None], right=True)
        return (index if symbols is None else symbols.gather(1, index))[:, 0]
