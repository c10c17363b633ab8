"""The three schedules of a teacher-forced pass. All that a plan admits give the same numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from attnx.accel.rnn_inputs import embedded
from attnx.attention import QueryContext
from attnx.attention.memory import stack_step_weights
from attnx.models.seq2seq.compiled_step import stepping

if TYPE_CHECKING:
    from attnx.accel.embedding_lookup import Lookup
    from attnx.attention import AttentionOutput
    from attnx.models.seq2seq.model import Seq2seq
    from attnx.models.seq2seq.state import DecoderState


class Masks(NamedTuple):
    """Dropout masks for all steps, drawn before a schedule runs; None where nothing is dropped.

    Attributes:
        tokens: (b, t, e).
        layers: (b, t, d) for the input of each decoder layer but the first.
        weights: (b, t, m); (b, h, t, m) with several heads.
        vectors: (b, t, r).
    """

    tokens: Tensor | None
    layers: tuple[Tensor | None, ...]
    weights: Tensor | None
    vectors: Tensor | None

    def at(self, step: int) -> Masks:
        """The masks of one step; those of the weights keep a query axis of 1."""
        return Masks(
            tokens=None if self.tokens is None else self.tokens[:, step],
            layers=tuple(None if mask is None else mask[:, step] for mask in self.layers),
            weights=None if self.weights is None else self.weights[..., step : step + 1, :],
            vectors=None if self.vectors is None else self.vectors[:, step],
        )


class TeacherForcedInputs(NamedTuple):
    """What a schedule is given: a target that is known.

    Attributes:
        symbols: (b, t, ...) what the decoder reads, before it is embedded.
        tokens: (b, t, e) the same, embedded, what is dropped being dropped.
        start: the state before the first step.
        masks: of all steps.
        sampling: chance to read the model's own last output instead; steps only.
        need_weights: whether the weights are asked for.
    """

    symbols: Tensor
    tokens: Tensor
    start: DecoderState
    masks: Masks
    sampling: float
    need_weights: bool


class DecoderOutputs(NamedTuple):
    """What a schedule computed for all steps.

    Attributes:
        states: (b, t, d).
        contexts: (b, t, v).
        tokens: (b, t, e) the tokens read; under sampling some are the model's own.
        vectors: (b, t, r) readouts, where the schedule had to make them; else None.
        weights: (b, t, m) if asked for; (b, h, t, m) with several heads.
        penalty: (b, t) what the scorer adds to the loss, or None.
    """

    states: Tensor
    contexts: Tensor
    tokens: Tensor
    vectors: Tensor | None
    weights: Tensor | None
    penalty: Tensor | None = None


def run_then_attend(model: Seq2seq, taught: TeacherForcedInputs) -> DecoderOutputs:
    """One fused pass of the recurrence, then one read for all steps: no context enters the recurrence."""
    tokens, start, masks = taught.tokens, taught.start, taught.masks
    inputs = _inputs(model, taught)
    states = model.decoder.recurrent.run(inputs, state=start.cell, keep=masks.layers).outputs[-1]
    before = torch.cat([start.cell[-1][0][:, None], states[:, :-1]], dim=1)
    query = model.query(QueryContext(tokens, before=before, after=states, tag=_tags(tokens, start)))
    at = torch.arange(tokens.shape[1], device=tokens.device)
    memory = start.memory
    if model.own is not None:
        memory = model.there(model.with_own(memory, states, at), at)
    read = model.attention(query, memory, keep=masks.weights, need_weights=taught.need_weights)
    return DecoderOutputs(states, read.context, tokens, None, read.weights)


def attend_then_run(model: Seq2seq, taught: TeacherForcedInputs) -> DecoderOutputs:
    """One read for all steps, then one fused pass: the query is known before the recurrence runs."""
    tokens, start, masks = taught.tokens, taught.start, taught.masks
    query = model.query(QueryContext(tokens, tag=_tags(tokens, start)))
    read = model.attention(query, start.memory, keep=masks.weights, need_weights=taught.need_weights)
    fed = [read.context] if model.plan.feed == "now" else []
    inputs = _inputs(model, taught, *fed)
    states = model.decoder.recurrent.run(inputs, state=start.cell, keep=masks.layers).outputs[-1]
    return DecoderOutputs(states, read.context, tokens, None, read.weights)


def _inputs(model: Seq2seq, taught: TeacherForcedInputs, *fed: Tensor) -> Tensor | Lookup:
    """The tokens, and beside each what the decoder is told at every step, and what is fed."""
    told = taught.start.told[:, None].expand(-1, taught.tokens.shape[1], -1)
    beside = [*([told] if told.shape[2] else []), *fed]
    looks_up = model.decoder.recurrent.looks_up if taught.masks.tokens is None else None
    return embedded(model.embedding, taught.symbols, taught.tokens, beside, looks_up)


def _tags(tokens: Tensor, start: DecoderState) -> Tensor:
    return start.tag[:, None].expand(-1, tokens.shape[1])


def step_by_step(model: Seq2seq, taught: TeacherForcedInputs) -> DecoderOutputs:
    """Step after step: what is read depends on the state, and the state on what was read."""
    tokens, state, masks, sampling = taught.tokens, taught.start, taught.masks, taught.sampling
    used: list[Tensor] = []
    states: list[DecoderState] = []
    reads: list[AttentionOutput] = []
    with stepping(model) as advance:
        for step in range(tokens.shape[1]):
            token, now = tokens[:, step], masks.at(step)
            if sampling and step:
                token = _mixed(model, token, (used[-1], state, reads[-1]), now, sampling)
            # At first there are zeros without gradients: compiled, they would be a case of their own.
            state, read = (advance if step else model.advance)(token, state, now, taught.need_weights)
            used.append(token)
            states.append(state)
            reads.append(read)
    weights = [read.weights for read in reads if read.weights is not None]
    penalties = [read.penalty for read in reads if read.penalty is not None]
    return DecoderOutputs(
        states=torch.stack([state.cell[-1][0] for state in states], dim=1),
        contexts=torch.stack([state.context for state in states], dim=1),
        tokens=torch.stack(used, dim=1),
        vectors=torch.stack([state.fed for state in states], dim=1) if model.plan.feed == "next" else None,
        weights=stack_step_weights(weights) if weights else None,
        penalty=torch.cat(penalties, dim=1) if penalties else None,
    )


def _mixed(
    model: Seq2seq, token: Tensor, last: tuple[Tensor, DecoderState, AttentionOutput], masks: Masks, sampling: float
) -> Tensor:
    """Replace some tokens by ones drawn from the model's last output (Bengio et al. 2015, arXiv 1506.03099)."""
    with torch.no_grad():
        drawn = model.target.sample(model.outputs(*last))
    own = model.embedding(drawn)
    own = own if masks.tokens is None else own * masks.tokens
    coins = torch.rand(len(token), 1, device=token.device) < sampling
    return torch.where(coins, own, token)


SCHEDULES = {
    "run_then_attend": run_then_attend,
    "attend_then_run": attend_then_run,
    "step_by_step": step_by_step,
}
