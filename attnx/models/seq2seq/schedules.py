"""The three schedules of a teacher-forced pass. All that a plan admits give the same numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from attnx.attention import QueryContext
from attnx.attention.memory import stack_step_weights
from attnx.nn.recurrent import top_hidden

if TYPE_CHECKING:
    from attnx.attention import AttentionOutput
    from attnx.models.seq2seq.model import DecoderState, Seq2seq


class DropoutMasks(NamedTuple):
    """Dropout masks for all steps, drawn before a schedule runs; None where nothing is dropped."""

    tokens: Tensor | None  # (b, t, e)
    layers: tuple[Tensor | None, ...]  # (b, t, d) for the input of each decoder layer but the first
    weights: Tensor | None  # (b, t, m); (b, h, t, m) with several heads
    readouts: Tensor | None  # (b, t, r)

    def at_step(self, step: int) -> DropoutMasks:
        """The masks of one step; those of the weights keep a query axis of 1. Readouts are masked after all steps."""
        return DropoutMasks(
            tokens=None if self.tokens is None else self.tokens[:, step],
            layers=tuple(None if mask is None else mask[:, step] for mask in self.layers),
            weights=None if self.weights is None else self.weights[..., step : step + 1, :],
            readouts=None,
        )


NO_DROPOUT_MASKS = DropoutMasks(None, (), None, None)


class TeacherForcedInputs(NamedTuple):
    """The inputs of a schedule."""

    tokens: Tensor  # (b, t, e) the embedded target, after dropout
    start: DecoderState  # the state before the first step
    masks: DropoutMasks  # of all steps
    scheduled_sampling: float  # chance to read the model's own last output instead; steps only
    need_weights: bool  # whether the weights are requested


class DecoderOutputs(NamedTuple):
    """The outputs of all steps."""

    states: Tensor  # (b, t, d)
    contexts: Tensor  # (b, t, v)
    tokens: Tensor  # (b, t, e) the tokens read; under scheduled sampling some are the model's own
    readouts: Tensor | None  # (b, t, r), where the schedule had to compute them; else None
    weights: Tensor | None  # (b, t, m) if requested; (b, h, t, m) with several heads
    penalty: Tensor | None = None  # (b, t) what attention adds to the loss, or None
    log_prob: Tensor | None = None  # (b, t) of sampled positions, or None


def run_then_attend(model: Seq2seq, inputs: TeacherForcedInputs) -> DecoderOutputs:
    """Run the recurrence over all steps, then attend once: no context enters the recurrence."""
    tokens, start, masks = inputs.tokens, inputs.start, inputs.masks
    states = _run(model, inputs)
    query = model.query(query_context_after_run(tokens, states, start))
    steps = torch.arange(tokens.shape[1], device=tokens.device)
    memory = start.memory
    if model.state_projection is not None:
        memory = model.visible_memory(model.append_decoder_states(memory, states, steps), steps)
    attention = model.attention(query, memory, dropout_mask=masks.weights, need_weights=inputs.need_weights)
    return _parallel_outputs(states, tokens, attention)


def query_context_after_run(tokens: Tensor, states: Tensor, start: DecoderState) -> QueryContext:
    """What queries may read of all steps: tokens (b, t, e), and the top states (b, t, d) that followed ``start``."""
    prev_states = torch.cat([top_hidden(start.rnn_state)[:, None], states[:, :-1]], dim=1)  # (b, t, d)
    return QueryContext(tokens, prev_state=prev_states, state=states, tag=_tag_per_step(tokens, start))


def attend_then_run(model: Seq2seq, inputs: TeacherForcedInputs) -> DecoderOutputs:
    """Attend once for all steps, then run the recurrence: no query holds a state."""
    tokens, start, masks = inputs.tokens, inputs.start, inputs.masks
    query = model.query(QueryContext(tokens, tag=_tag_per_step(tokens, start)))
    attention = model.attention(query, start.memory, dropout_mask=masks.weights, need_weights=inputs.need_weights)
    contexts = [attention.context] if model.plan.feed == "now" else []
    return _parallel_outputs(_run(model, inputs, *contexts), tokens, attention)


def _parallel_outputs(states: Tensor, tokens: Tensor, attention: AttentionOutput) -> DecoderOutputs:
    """The outputs of a pass whose attention is one call."""
    return DecoderOutputs(
        states, attention.context, tokens, None, attention.weights, attention.penalty, attention.log_prob
    )


def _run(model: Seq2seq, inputs: TeacherForcedInputs, *contexts: Tensor) -> Tensor:
    """The top states (b, t, d) of the recurrence over tokens, tags and contexts."""
    start, steps = inputs.start, inputs.tokens.shape[1]
    tags = [] if start.tag_embedding is None else [start.tag_embedding[:, None].expand(-1, steps, -1)]
    return model.decoder.run(
        [inputs.tokens, *tags, *contexts], state=start.rnn_state, dropout_masks=inputs.masks.layers
    ).outputs[-1]


def _tag_per_step(tokens: Tensor, start: DecoderState) -> Tensor:
    return start.tag[:, None].expand(-1, tokens.shape[1])


def step_by_step(model: Seq2seq, inputs: TeacherForcedInputs) -> DecoderOutputs:
    """Take one step after another: attention depends on the state, and the state on the context."""
    tokens, state, scheduled_sampling = inputs.tokens, inputs.start, inputs.scheduled_sampling
    used: list[Tensor] = []
    states: list[DecoderState] = []
    outputs: list[AttentionOutput] = []
    for step, token in enumerate(tokens.unbind(1)):
        masks = inputs.masks.at_step(step)
        if scheduled_sampling and step:  # some tokens are drawn from the last output: Bengio et al. 2015, 1506.03099
            with torch.no_grad():
                drawn = model.target.sample(model.logits(used[-1], state, outputs[-1]))
            sampled = model.embedding(drawn)
            sampled = sampled if masks.tokens is None else sampled * masks.tokens
            is_sampled = torch.rand(len(token), 1, device=token.device) < scheduled_sampling
            token = torch.where(is_sampled, sampled, token)
        state, attention = model.forward_step(token, state, masks, inputs.need_weights)
        used.append(token)
        states.append(state)
        outputs.append(attention)
    weights = [attention.weights for attention in outputs if attention.weights is not None]
    penalties = [attention.penalty for attention in outputs if attention.penalty is not None]
    log_probs = [attention.log_prob for attention in outputs if attention.log_prob is not None]
    readouts = [state.input_feed for state in states if state.input_feed is not None]
    return DecoderOutputs(
        states=torch.stack([top_hidden(state.rnn_state) for state in states], dim=1),
        contexts=torch.stack([state.context for state in states], dim=1),
        tokens=torch.stack(used, dim=1),
        readouts=torch.stack(readouts, dim=1) if readouts else None,
        weights=stack_step_weights(weights) if weights else None,
        penalty=torch.cat(penalties, dim=1) if penalties else None,
        log_prob=torch.cat(log_probs, dim=1) if log_probs else None,
    )


SCHEDULES = {
    "run_then_attend": run_then_attend,
    "attend_then_run": attend_then_run,
    "step_by_step": step_by_step,
}
