"""Beam search, the decoding ``beam``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from attnx.attention.memory import stack_step_weights
from attnx.data.vocabulary import EOS
from attnx.decoding.constraints import require_symbols
from attnx.decoding.contracts import DecodeResult, StepModel
from attnx.decoding.hypotheses import NEG_INF, empty_results, group_by_source, merge_best, trim
from attnx.decoding.search import ConstrainedSearch, SearchInputs
from attnx.errors import UserError
from attnx.registry import NonNegativeFloat, PositiveInt, register

MIN_COVERAGE = 1e-9
"""The least that a position counts as read: weights may be 0, and their logarithm is to be a number."""
MAX_ACTIVE_SHARE = 0.9
"""Finished rows are dropped once at most this share of the rows is active: to drop them costs a gather."""


class ActiveBeams(NamedTuple):
    """Hypotheses that are still written: w for each of a rows, a row's together."""

    rows: Tensor  # (a,) their rows in the batch
    state: object  # the model's, of a * w rows
    total: Tensor  # (a, w) log-probabilities; -inf where there is no hypothesis
    sequences: Tensor  # (a * w, t)
    weights: Tensor | None  # (a * w, t, m), or (a * w, h, t, m), their attention weights; None unless needed


@register("decoding", "beam", read_if={"length_penalty_alpha": "length_penalty=gnmt"})
@dataclass(frozen=True)
class Beam(ConstrainedSearch):
    """Write the ``beam_size`` likeliest beginnings side by side; the ``nbest`` best outputs are found.

    Formula: ``score(y) = log p(y | x) / penalty(|y|) + coverage * sum_s log(min(sum_t a_ts, 1))``
    Source: Wu et al. 2016, section 7 and equation 14, https://arxiv.org/abs/1609.08144

    At each step the likeliest ``beam_size`` of all continuations stay; those that end, at EOS or at their row's limit,
    make room. ``length_penalty`` says by what the log-probability is divided: ``none`` by nothing, ``gnmt`` by
    ``((5 + |y|) / 6)^length_penalty_alpha``, ``average`` by ``|y|``; ``coverage_penalty`` above 0 rewards outputs that
    have read the whole source. A source is finished when no running hypothesis can score above its ``nbest``-th
    finished one. The other options are as in ``greedy``, which a beam of 1 is
    but for ties: any of equal continuations may stay.
    """

    beam_size: PositiveInt = 5
    nbest: PositiveInt = 1
    length_penalty: Literal["none", "gnmt", "average"] = "none"
    length_penalty_alpha: NonNegativeFloat = 0.6
    coverage_penalty: NonNegativeFloat = 0.0

    def __post_init__(self) -> None:
        nbest, beam_size = self.nbest, self.beam_size
        if nbest > beam_size:
            raise UserError(f"decoding.nbest={nbest} is more than decoding.beam_size={beam_size}; choose a wider beam")

    def check(self, model: StepModel) -> None:
        """As :meth:`Search.check`: a beam is of symbols, and coverage is what weights that sum to 1 add up to."""
        require_symbols(model, "beam")
        if self.coverage_penalty and not (model.is_distribution and "encoder" in model.sources):
            raise UserError(
                "decoding.coverage_penalty adds up attention weights on the source that sum to 1 at each step, and "
                "this model has none; use normalizer=softmax over the encoder's states, or leave it out"
            )

    def search(self, inputs: SearchInputs) -> DecodeResult:
        """``nbest`` hypotheses a row, no two alike."""
        model, limit, result = inputs.model, inputs.limit, None
        max_penalty = length_penalty(self.length_penalty, self.length_penalty_alpha, limit)
        all_rows, total = torch.arange(len(limit), device=limit.device), torch.zeros(len(limit), 1).to(limit.device)
        beams = ActiveBeams(all_rows, inputs.state, total, all_rows.new_zeros(len(limit), 0), None)
        while len(beams.rows):
            beams = self._expand(beams, inputs)
            is_ended = (beams.sequences[:, -1] == EOS).view_as(beams.total)
            is_ended |= (limit[beams.rows] == beams.sequences.shape[1])[:, None]
            if result is None or bool(is_ended.any()):
                finished = self._score_finished(beams, is_ended, inputs)
                result = empty_results(len(limit), self.nbest, finished) if result is None else result
                result = merge_best(result, finished, beams.rows)
                beams = beams._replace(total=beams.total.masked_fill(is_ended, NEG_INF))
            # Upper bound of a hypothesis: log-probabilities only fall and the coverage term is at most 0, so it is the
            # log-probability divided by the largest length penalty, that of the row's limit. A hypothesis whose bound
            # is not above the worst kept result is dropped, and a row ends when all its hypotheses are dropped.
            can_win = beams.total / max_penalty[beams.rows, None] > result.score[beams.rows, -1:]
            beams = beams._replace(total=beams.total.masked_fill(~can_win, NEG_INF))
            beams = _drop_finished_rows(model, beams, can_win.any(1))
        assert result is not None, "a batch has rows, and a row at least one step"
        return trim(result if inputs.need_weights else result._replace(weights=None), "decoder" in model.sources)

    def _expand(self, beams: ActiveBeams, inputs: SearchInputs) -> ActiveBeams:
        """The likeliest continuations of all hypotheses by one step, ended ones among them."""
        model, (rows, _, total, sequences, weights) = inputs.model, beams
        width, needs_weights = total.shape[1], inputs.need_weights or self.coverage_penalty > 0
        tokens = sequences[:, -1] if sequences.shape[1] else model.target.start_input(len(rows), rows.device)
        predicted, state, attention = model.decode_step(tokens, beams.state, needs_weights)
        inputs.constraints.apply_(predicted, sequences, rows.repeat_interleave(width))
        symbols = predicted.shape[1]
        wide = torch.promote_types(predicted.dtype, total.dtype)  # sums of few digits would tie
        likely = predicted.view(len(rows), width, symbols).to(wide).add_(total[..., None]).flatten(1)
        total, index = likely.topk(min(self.beam_size, likely.shape[1]))
        parents = (index // symbols + width * torch.arange(len(rows), device=rows.device)[:, None]).flatten()
        if needs_weights and attention.weights is not None:
            steps = [attention.weights] if weights is None else [weights, attention.weights]
            weights = stack_step_weights(steps)[parents]
        sequences = torch.cat([sequences[parents], (index % symbols).view(-1, 1)], 1)
        # More hypotheses than before need copies of the encoded source; as many stay with theirs.
        select = model.reorder_beams if len(parents) == len(rows) * width else model.select_rows
        return ActiveBeams(rows, select(state, parents), total, sequences, weights)

    def _score_finished(self, beams: ActiveBeams, is_ended: Tensor, inputs: SearchInputs) -> DecodeResult:
        """The hypotheses by rows, scored where they have ended."""
        steps = torch.full_like(is_ended, beams.sequences.shape[1], dtype=torch.int64)
        score = beams.total / length_penalty(self.length_penalty, self.length_penalty_alpha, steps)
        if self.coverage_penalty:
            if beams.weights is None:
                raise UserError(
                    "decoding.coverage_penalty adds up attention weights, and the models of this ensemble attend to "
                    "different positions or with different heads, so that these have no mean; leave it out"
                )
            source_mask, shares = inputs.source_mask, inputs.model.source_shares(beams.state)
            covered = beams.weights[..., : source_mask.shape[1]].sum(-2)  # (a * w, s), or (a * w, h, s)
            covered = (covered.mean(1) if covered.dim() == 3 else covered).view(*is_ended.shape, -1)  # (a, w, s)
            shares = None if shares is None else shares.view_as(covered)
            score = score + self.coverage_penalty * score_coverage(covered, source_mask[beams.rows, None], shares)
        score = score.masked_fill(~is_ended, NEG_INF)
        flat = DecodeResult(beams.sequences, steps.flatten(), beams.total.flatten(), score.flatten(), beams.weights)
        return group_by_source(flat, is_ended.shape[1])


def _drop_finished_rows(model: StepModel, beams: ActiveBeams, is_active: Tensor) -> ActiveBeams:
    """Drop finished rows (a,) once they are a tenth. Until then they keep running; their results cannot improve."""
    active = is_active.nonzero()[:, 0]
    if not 0 < len(active) <= MAX_ACTIVE_SHARE * len(is_active):
        return beams if len(active) else beams._replace(rows=active)
    width = beams.total.shape[1]
    selected = (active[:, None] * width + torch.arange(width, device=active.device)).flatten()
    weights = None if beams.weights is None else beams.weights[selected]
    state = model.select_rows(beams.state, selected)
    return ActiveBeams(beams.rows[active], state, beams.total[active], beams.sequences[selected], weights)


def length_penalty(name: str, alpha: float, steps: Tensor) -> Tensor:
    """By what the log-probability of so many steps, EOS included, is divided; it never falls as steps grow.

    ``gnmt`` is equation 14 of Wu et al. 2016, https://arxiv.org/abs/1609.08144: ((5 + steps) / 6)^alpha.

    >>> length_penalty("gnmt", 0.5, torch.tensor([1, 19]))
    tensor([1., 2.])
    """
    if name == "none":
        return torch.ones_like(steps, dtype=torch.get_default_dtype())
    return ((5 + steps) / 6) ** alpha if name == "gnmt" else steps.to(torch.get_default_dtype())


def score_coverage(covered: Tensor, source_mask: Tensor, shares: Tensor | None = None) -> Tensor:
    """How much of the source was left unread, 0 or less: sum_s log(min(c_s, 1)), by the same equation.

    Args:
        covered: (..., s) the sum of the weights that each position had.
        source_mask: (..., s) bool, which positions there are.
        shares: (..., s), where a position that attention reads is several here, the share of each; it counts by that.
    """
    if shares is not None:
        covered = covered / shares.clamp(min=MIN_COVERAGE)  # (..., s), the sum of the weights of what attention reads
    terms = covered.clamp(MIN_COVERAGE, 1.0).log().masked_fill(~source_mask, 0.0)  # (..., s)
    return (terms if shares is None else shares * terms).sum(-1)
