"""Constraints on outputs: minimum and maximum length, a prefix, repeated n-grams, a filter of next tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnx.data.vocabulary import BOS, EOS, PAD
from attnx.decoding.contracts import NextTokenFilter, StepModel
from attnx.decoding.hypotheses import NEG_INF
from attnx.errors import UserError
from attnx.nn.targets.symbols import Symbols

MAX_STEPS = 2**31
"""More steps than any output has; a larger product would leave the range of int64."""
LOWEST_SCORE = -1e30
"""The score of a forbidden symbol that must be written: sums of it are finite in single precision."""


@dataclass(frozen=True)
class DecodingConstraints:
    """Constraints that every search obeys."""

    max_length_ratio: float  # maximum steps of a row per step of its source
    max_length_extra: int  # steps added to that maximum
    min_length: int = 0  # minimum number of symbols, EOS not counted
    no_repeat_ngram_size: int = 0  # length of the symbol sequences that never come twice; 0 for any
    prefix: Tensor | None = None  # (b, p) the first symbols of each row, padded with PAD; or None
    token_filter: NextTokenFilter | None = None  # filters the next tokens; or None
    steps: int | None = None  # how many steps every row has; None where the length is open

    def check(self, model: StepModel) -> None:
        """Raise a UserError if the constraints contradict each other, or are about symbols and the target is not."""
        names = [f"decoding.{name}" for name in ("min_length", "no_repeat_ngram_size") if getattr(self, name)]
        names += [name for name in ("prefix", "token_filter") if getattr(self, name) is not None]
        if names and not isinstance(model.target, Symbols):
            raise UserError(f"{names[0]} is a constraint on symbols, but the target is made of numbers; leave it out")
        if self.prefix is not None:
            ends = (self.prefix == PAD) | (self.prefix == EOS)
            if bool((self.prefix == BOS).any() | (ends[:, :-1] & (self.prefix[:, 1:] != PAD)).any()):
                raise UserError("a prefix holds symbols, perhaps EOS after them, and then only PAD")

    def limit(self, source_mask: Tensor) -> Tensor:
        """(b, s) bool, the source mask -> (b,) the maximum steps of each row, which no other row changes."""
        if self.steps is not None:
            return source_mask.new_full((len(source_mask),), self.steps, dtype=torch.int64)
        # Rounded down, and a product that is whole but for its last digits is whole: 0.58 * 50 is 29.
        by_source = (source_mask.sum(-1).double() * self.max_length_ratio + 1e-6).clamp(max=MAX_STEPS).long()
        limit = (by_source + self.max_length_extra).clamp(min=self.min_length + 1)
        if self.prefix is not None:
            limit = torch.maximum(limit, (self.prefix != PAD).sum(-1) + 1)
        return limit

    def apply_(self, scores: Tensor, sequences: Tensor, rows: Tensor) -> None:
        """Write -inf over the scores (r, symbols) of forbidden symbols; EOS stays where all else is forbidden.

        Args:
            scores: log-probabilities, changed in place.
            sequences: (r, t) the symbols so far.
            rows: (r,) the row of the batch that each belongs to.
        """
        scores[:, :EOS] = NEG_INF  # PAD and BOS
        step, eos_score = sequences.shape[1], None
        if self.min_length or self.no_repeat_ngram_size or self.token_filter is not None:
            eos_score = scores[:, EOS].clone()
        forced = forced_score = None
        if self.prefix is not None and step < self.prefix.shape[1]:
            forced = self.prefix[rows, step, None]
            # The score stays finite even if the model forbids the symbol, so that the row goes on.
            forced_score = scores.gather(1, forced)
            finite_score = forced_score.clamp(min=_lowest_score(scores.dtype))
            forced_score = torch.where(forced == PAD, forced_score, finite_score)
        if step < self.min_length:
            scores[:, EOS] = NEG_INF
        if 0 < self.no_repeat_ngram_size <= step:
            scores.scatter_(1, repeated_ngram_ends(sequences, self.no_repeat_ngram_size), NEG_INF)
        if self.token_filter is not None:
            scores.masked_fill_(~self.token_filter(sequences, rows), NEG_INF)
        if eos_score is not None:
            is_stuck = (scores == NEG_INF).all(-1)
            # If the model forbids EOS, too, the row is all but impossible; but it ends.
            eos_score = eos_score.clamp(min=_lowest_score(eos_score.dtype))
            scores[:, EOS] = torch.where(is_stuck, eos_score, scores[:, EOS])
        if forced is not None and forced_score is not None:
            scores.masked_fill_(forced != PAD, NEG_INF).scatter_(1, forced, forced_score)


def _lowest_score(dtype: torch.dtype) -> float:
    """The score of a symbol that the model forbids: finite, and so is the sum of several of them."""
    return max(torch.finfo(dtype).min, LOWEST_SCORE)


def repeated_ngram_ends(sequences: Tensor, size: int) -> Tensor:
    """Symbols that would complete an n-gram of this size for the second time: (r, t) -> (r, n), else PAD.

    >>> repeated_ngram_ends(torch.tensor([[5, 7, 11, 5, 13, 5], [5, 7, 11, 5, 13, 17]]), 2)
    tensor([[ 7,  0,  0, 13,  0],
            [ 0,  0,  0,  0,  0]])
    """
    ngrams = sequences.unfold(1, size, 1)
    is_repeated = (ngrams[..., :-1] == sequences[:, None, sequences.shape[1] - size + 1 :]).all(-1)
    return torch.where(is_repeated, ngrams[..., -1], PAD)


def require_symbols(model: StepModel, search: str) -> None:
    """Raise a UserError if a search of this name meets a target of numbers."""
    if not isinstance(model.target, Symbols):
        raise UserError(
            f"decoding={search} chooses among symbols, but the target is made of numbers; use decoding=greedy"
        )
