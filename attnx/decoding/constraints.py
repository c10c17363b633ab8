"""What may be written, whatever the search: how much at least and at most, how it begins, what never comes next."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnx.data.special_tokens import BOS, EOS, PAD
from attnx.decoding.contracts import NextTokenFilter, StepModel
from attnx.decoding.hypotheses import NEVER
from attnx.errors import UserError
from attnx.nn.targets.symbols import Symbols


@dataclass(frozen=True)
class DecodingConstraints:
    """The rules of one search.

    Args:
        max_length_ratio: how many times its source's length a row may have steps.
        max_length_extra: and how many steps besides.
        min_length: how many symbols it has at least, EOS not counted.
        no_repeat_ngram_size: of what length no sequence of symbols comes twice; 0 for none.
        prefix: (b, p) how each row begins, padded with PAD; None for no such thing.
        choices: what else says what may come next; None for nothing.
        steps: how many steps every row has, whatever else is said; None where that is not known before.
    """

    max_length_ratio: float
    max_length_extra: int
    min_length: int = 0
    no_repeat_ngram_size: int = 0
    prefix: Tensor | None = None
    choices: NextTokenFilter | None = None
    steps: int | None = None

    def check(self, model: StepModel, search: str | None = None) -> None:
        """Refuse what is about symbols where numbers are written: rules, or a search that has this name.

        Raises:
            UserError: there is something such.
        """
        if isinstance(model.target, Symbols):
            return
        if search:
            raise UserError(
                f"decoding={search} chooses among symbols, but the target is made of numbers; use decoding=greedy"
            )
        asked = [name for name in ("min_length", "no_repeat_ngram_size") if getattr(self, name)]
        asked += [name for name in ("prefix", "choices") if getattr(self, name) is not None]
        if asked:
            raise UserError(f"{asked[0]} is a rule about symbols, but the target is made of numbers; leave it out")

    def within(self, model: StepModel, prefix: Tensor | None, choices: NextTokenFilter | None) -> DecodingConstraints:
        """These rules for one batch.

        Raises:
            UserError: they are about symbols and the target is not, or a prefix has padding or an end inside.
        """
        rules = replace(self, prefix=prefix, choices=choices, steps=getattr(model.target, "steps", None))
        rules.check(model)
        if prefix is not None:
            ends = (prefix == PAD) | (prefix == EOS)
            if bool((prefix == BOS).any() | (ends[:, :-1] & (prefix[:, 1:] != PAD)).any()):
                raise UserError("a prefix holds symbols, perhaps EOS behind them, and then nothing but PAD")
        return rules

    def limit(self, present: Tensor) -> Tensor:
        """(b, s) bool, what of each source is there -> (b,) the most steps of each row, whatever batch it is in."""
        if self.steps is not None:
            return present.new_full((len(present),), self.steps, dtype=torch.int64)
        limit = ((present.sum(-1) * self.max_length_ratio).long() + self.max_length_extra).clamp(
            min=self.min_length + 1
        )
        if self.prefix is not None:
            limit = torch.maximum(limit, (self.prefix != PAD).sum(-1) + 1)
        return limit

    def narrow(self, scores: Tensor, written: Tensor, rows: Tensor) -> None:
        """Write -inf over the scores (r, symbols) of what may not come next; EOS may where nothing else does.

        Args:
            scores: log-probabilities.
            written: (r, t) what has been written.
            rows: (r,) the row of the batch that each belongs to.
        """
        scores[:, :EOS] = NEVER  # PAD and BOS
        step, end = written.shape[1], None
        if self.min_length or self.no_repeat_ngram_size or self.choices is not None:
            end = scores[:, EOS].clone()
        forced = kept = None
        if self.prefix is not None and step < self.prefix.shape[1]:
            forced = self.prefix[rows, step, None]
            kept = scores.gather(1, forced)
        if step < self.min_length:
            scores[:, EOS] = NEVER
        if 0 < self.no_repeat_ngram_size <= step:
            scores.scatter_(1, repeats(written, self.no_repeat_ngram_size), NEVER)
        if self.choices is not None:
            scores.masked_fill_(~self.choices(written, rows), NEVER)
        if end is not None:
            stuck = (scores == NEVER).all(-1)
            # Of a model that forbids the end, too, the row is all but impossible; but it ends.
            scores[:, EOS] = torch.where(stuck, end.clamp(min=torch.finfo(end.dtype).min), scores[:, EOS])
        if forced is not None and kept is not None:
            scores.masked_fill_(forced != PAD, NEVER).scatter_(1, forced, kept)


def repeats(written: Tensor, size: int) -> Tensor:
    """What would make the last ``size`` symbols of (r, t) a sequence that was there before: (r, n), or else PAD.

    >>> repeats(torch.tensor([[5, 7, 11, 5, 13, 5], [5, 7, 11, 5, 13, 17]]), 2)
    tensor([[ 7,  0,  0, 13,  0],
            [ 0,  0,  0,  0,  0]])
    """
    earlier = written.unfold(1, size, 1)
    again = (earlier[..., :-1] == written[:, None, written.shape[1] - size + 1 :]).all(-1)
    return torch.where(again, earlier[..., -1], PAD)
