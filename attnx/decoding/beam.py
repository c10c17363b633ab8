"""The search ``beam``."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from attnx.attention.memory import stack_step_weights
from attnx.data.special_tokens import EOS
from attnx.decoding.constraints import DecodingConstraints
from attnx.decoding.contracts import DecodeResult, NextTokenFilter, StepModel
from attnx.decoding.hypotheses import NEVER, better, hypotheses, nothing, trimmed
from attnx.decoding.penalties import Length, length_penalty, score_coverage
from attnx.errors import UserError
from attnx.registry import Natural, NonNegative, Positive, Rate, register

WORTH = 0.9
"""The share of rows that at most go on when the others are left out."""


class ActiveBeams(NamedTuple):
    """What is still written: w hypotheses of each of a rows, those of a row together.

    Attributes:
        rows: (a,) their rows in the batch.
        state: the model's, of a * w rows.
        total: (a, w) log-probabilities; -inf where there is none.
        written: (a * w, t).
        weights: (a * w, t, m), or (a * w, h, t, m), what each has read; None if nobody asks.
    """

    rows: Tensor
    state: Any
    total: Tensor
    written: Tensor
    weights: Tensor | None


@register("decoding", "beam")
class Beam:
    """Write the ``beam_size`` likeliest beginnings side by side; the ``nbest`` best outputs are found.

    Formula: ``score(y) = log p(y | x) / penalty(|y|) + coverage * sum_s log(min(sum_t a_ts, 1))``
    Source: Wu et al. 2016, section 7 and equation 14, https://arxiv.org/abs/1609.08144

    At each step the likeliest ``beam_size`` of all continuations stay; those that end, at EOS or at their row's limit,
    make room. ``length_penalty`` says by what the log-probability is divided: ``none`` by nothing, ``gnmt`` by ((5 +
    |y|) / 6)^``length_penalty_alpha``, ``average`` by |y|; ``coverage_penalty`` above 0 rewards outputs that have read
    the whole source. A row is done as soon as none that runs can outdo its ``nbest``-th: to stop earlier would lose
    outputs, to go on would find none. The other knobs are those of ``greedy``, which a beam of 1 is.
    """

    def __init__(
        self,
        beam_size: Positive = 5,
        nbest: Positive = 1,
        length_penalty: Literal["none", "gnmt", "average"] = "none",
        length_penalty_alpha: NonNegative = 0.6,
        coverage_penalty: NonNegative = 0.0,
        max_length_ratio: Rate = 2.0,
        max_length_extra: Natural = 5,
        min_length: Natural = 0,
        no_repeat_ngram_size: Natural = 0,
    ) -> None:
        if nbest > beam_size:
            raise UserError(f"decoding.nbest={nbest} is more than decoding.beam_size={beam_size}; choose a wider beam")
        self.beam_size, self.nbest = beam_size, nbest
        self.length_penalty: Length = length_penalty
        self.length_penalty_alpha, self.coverage_penalty = length_penalty_alpha, coverage_penalty
        self.rules = DecodingConstraints(max_length_ratio, max_length_extra, min_length, no_repeat_ngram_size)

    def check(self, model: StepModel) -> None:
        """As :meth:`Search.check`: a beam is of symbols, and coverage is what weights that sum to 1 add up to."""
        self.rules.check(model, "beam")
        if self.coverage_penalty and not (model.sums_to_one and "encoder" in model.sources):
            raise UserError(
                "decoding.coverage_penalty adds up attention weights on the source that sum to 1 at each step, "
                "and this model "
                "has none; use normalizer=softmax over the encoder's states, or leave decoding.coverage_penalty out"
            )

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
        """As :class:`Search`; ``nbest`` hypotheses a row, no two alike."""
        self.check(model)
        rules = self.rules.within(model, prefix, choices)
        limit, reading = rules.limit(present), need_weights or self.coverage_penalty > 0
        kindest = length_penalty(self.length_penalty, self.length_penalty_alpha, limit)
        running, found = _started(model.init_state(source, present, tag), len(limit), source.device), None
        while len(running.rows):
            running = self._extended(model, running, rules, reading)
            ended = (running.written[:, -1] == EOS).view_as(running.total)
            ended |= (limit[running.rows] == running.written.shape[1])[:, None]
            if found is None or bool(ended.any()):
                more = self._judged(running, ended, present)
                found = better(nothing(len(limit), self.nbest, more) if found is None else found, more, running.rows)
                running = running._replace(total=running.total.masked_fill(ended, NEVER))
            # What can become of a hypothesis with log-probability T: T only falls and is 0 or less, so that the largest
            # penalty it may be divided by, that of its row's limit, is the kindest; that of coverage is at most 0. One
            # that cannot outdo the last of the best is given up, and a row is done when all its are.
            hopeful = running.total / kindest[running.rows, None] > found.score[running.rows, -1:]
            running = running._replace(total=running.total.masked_fill(~hopeful, NEVER))
            running = _going_on(model, running, hopeful.any(1))
        assert found is not None, "a batch has rows, and a row at least one step"
        return trimmed(found if need_weights else found._replace(weights=None), "decoder" in model.sources)

    def _extended(
        self, model: StepModel, running: ActiveBeams, rules: DecodingConstraints, reading: bool
    ) -> ActiveBeams:
        """The likeliest of all that the hypotheses can become in one step, ended ones among them."""
        rows, _, total, written, weights = running
        width = total.shape[1]
        inputs = written[:, -1] if written.shape[1] else model.target.start_input(len(rows), rows.device)
        predicted, state, read = model.decode_step(inputs, running.state, reading)
        rules.narrow(predicted, written, rows.repeat_interleave(width))
        symbols = predicted.shape[1]
        likely = predicted.view(len(rows), width, symbols).add_(total[..., None]).flatten(1)
        total, place = likely.topk(min(self.beam_size, likely.shape[1]))
        place, order = place.sort(1)  # those of one parent lie together, and what is the same is computed once
        total = total.gather(1, order)
        parents = (place // symbols + width * torch.arange(len(rows), device=rows.device)[:, None]).flatten()
        if reading and read.weights is not None:
            weights = stack_step_weights([read.weights] if weights is None else [weights, read.weights])[parents]
        written = torch.cat([written[parents], (place % symbols).view(-1, 1)], 1)
        return ActiveBeams(rows, model.reorder_beams(state, parents), total, written, weights)

    def _judged(self, running: ActiveBeams, ended: Tensor, present: Tensor) -> DecodeResult:
        """The running hypotheses by rows, scored where they have ended."""
        steps = torch.full_like(ended, running.written.shape[1], dtype=torch.int64)
        score = running.total / length_penalty(self.length_penalty, self.length_penalty_alpha, steps)
        if self.coverage_penalty:
            assert running.weights is not None
            there = present[running.rows, None]
            read = running.weights[..., : present.shape[1]].sum(-2)
            covered = (read.mean(1) if read.dim() == 3 else read).view(*ended.shape, -1)
            score = score + self.coverage_penalty * score_coverage(covered, there)
        score = score.masked_fill(~ended, NEVER)
        flat = running.written, steps.flatten(), running.total.flatten(), score.flatten(), running.weights
        return hypotheses(DecodeResult(*flat), ended.shape[1])


def _started(state: Any, rows: int, device: torch.device) -> ActiveBeams:
    """One hypothesis for each row, with nothing written."""
    every = torch.arange(rows, device=device)
    return ActiveBeams(every, state, torch.zeros(rows, 1, device=device), every.new_zeros(rows, 0), None)


def _going_on(model: StepModel, running: ActiveBeams, which: Tensor) -> ActiveBeams:
    """Without the rows that are done (a,), as soon as they are so many that to leave them out is less work than they.

    Until then they go on in vain: nothing that they find is better than what they have found.
    """
    left = which.nonzero()[:, 0]
    if not 0 < len(left) <= WORTH * len(which):
        return running if len(left) else running._replace(rows=left)
    width = running.total.shape[1]
    kept = (left[:, None] * width + torch.arange(width, device=left.device)).flatten()
    weights = None if running.weights is None else running.weights[kept]
    state = model.select_rows(running.state, kept)
    return ActiveBeams(running.rows[left], state, running.total[left], running.written[kept], weights)
