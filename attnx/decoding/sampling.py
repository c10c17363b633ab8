"""Sampling, the decoding ``sampling``, by random numbers that depend on the seed, a row's source and the step alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnx.data.vocabulary import EOS
from attnx.decoding.constraints import require_symbols
from attnx.decoding.contracts import DecodeResult, StepModel
from attnx.decoding.hypotheses import best
from attnx.decoding.search import ConstrainedSearch, SearchInputs, decode_stepwise
from attnx.errors import UserError
from attnx.nn.contracts import GreedyStep
from attnx.registry import NonNegativeInt, PositiveFloat, PositiveInt, register

# Odd numbers without pattern: the golden ratio's and those of splitmix64 (Steele et al. 2014), as int64.
STRIDE, FIRST_FACTOR, SECOND_FACTOR = -7046029254386353131, -4658895280553007687, -7723592293110705685


@register(
    "decoding",
    "sampling",
    read_if={"temperature": "top_k!=1", "top_p": "top_k!=1", "seed": "top_k!=1"},
)
@dataclass(frozen=True)
class Sampling(ConstrainedSearch):
    """Draw every symbol by its probability; ``nbest`` outputs, the likeliest first, some of which may be alike.

    Formula: ``y_t ~ p(y | y_<t, x)^(1 / temperature), of the top_k likeliest, of the fewest that have top_p together``
    Source: Holtzman et al. 2020 (top_p), https://arxiv.org/abs/1904.09751; Fan et al. 2018 (top_k), https://arxiv.org/abs/1805.04833

    ``top_k=0`` and ``top_p=1`` leave out none. What is drawn for a source depends on it and on ``seed`` alone: it is
    the same in every batch and every run. The other options are as in ``greedy``.
    """

    temperature: PositiveFloat = 1.0
    top_k: NonNegativeInt = 0
    top_p: PositiveFloat = 1.0
    seed: NonNegativeInt = 0
    nbest: PositiveInt = 1

    def __post_init__(self) -> None:
        if self.top_p > 1:
            raise UserError(f"decoding.top_p={self.top_p} is a share of the probability; choose a number up to 1")

    def check(self, model: StepModel) -> None:
        """As :meth:`Search.check`: only symbols can be drawn."""
        require_symbols(model, "sampling")

    def search(self, inputs: SearchInputs) -> DecodeResult:
        """``nbest`` hypotheses a row."""
        seeds = row_seeds(inputs.source, inputs.source_mask, self.seed)

        def pick(predicted: Tensor, rows: Tensor, step: int) -> GreedyStep:
            uniforms = uniform(seeds[rows // self.nbest], rows % self.nbest, step)
            symbol = self.sample(predicted, uniforms)
            return GreedyStep(symbol, predicted.gather(1, symbol[:, None])[:, 0], symbol == EOS)

        return best(decode_stepwise(inputs, self.nbest, pick), self.nbest)

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
        # The largest is 0, so that no temperature makes it infinite.
        logits = (scores - scores.amax(-1, keepdim=True)).double() / self.temperature
        probabilities = torch.softmax(logits, -1)
        if self.top_p < 1:
            probabilities = probabilities * (probabilities.cumsum(-1) - probabilities < self.top_p)
        cumulative = probabilities.cumsum(-1)
        index = torch.searchsorted(cumulative, (uniforms.double() * cumulative[:, -1])[:, None], right=True)
        return (index if symbols is None else symbols.gather(1, index))[:, 0]


def row_seeds(source: Tensor, source_mask: Tensor, seed: int) -> Tensor:
    """A seed (b,) int64 for each row: the same for the same source, however it is padded.

    The source is (b, s) symbols, or (b, s, features), its mask (b, s) bool.
    """
    if source.is_floating_point():
        source = source.float().contiguous().view(torch.int32)
    shape = source.shape[1:]
    position = torch.arange(1, shape.numel() + 1, device=source.device).view(shape)
    mixed = _mix(source.long() + STRIDE * position) * (source_mask if source.dim() == 2 else source_mask[..., None])
    return _mix(_mix(mixed.flatten(1).sum(1)) + seed)


def uniform(seeds: Tensor, copies: Tensor, step: int) -> Tensor:
    """(r,) in [0, 1), float64: a number for each seed, copy (r,) int64 and step."""
    bits = _mix(_mix(seeds + STRIDE * (copies + 1)) + step)
    return _shift_right(bits, 32).double() / 2**32


def _mix(bits: Tensor) -> Tensor:
    """The finalizer of splitmix64: every output bit depends on every input bit."""
    bits = (bits ^ _shift_right(bits, 30)) * FIRST_FACTOR
    bits = (bits ^ _shift_right(bits, 27)) * SECOND_FACTOR
    return bits ^ _shift_right(bits, 31)


def _shift_right(bits: Tensor, count: int) -> Tensor:
    """Shift right with zeros from the left: an int64 would keep its sign."""
    return (bits >> count) & ((1 << (64 - count)) - 1)
