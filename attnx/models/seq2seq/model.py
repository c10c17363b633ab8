"""An encoder, attention and a recurrent decoder; :mod:`attnx.models.seq2seq.build` builds it from names."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attnx.attention import AttentionHistory, AttentionOutput, Memory, QueryContext
from attnx.attention.memory import (
    append_positions,
    concat_sources,
    hide_future,
    pad_history_to_memory,
    update_history,
)
from attnx.models.planner import Plan
from attnx.models.seq2seq.parts import Seq2seqParts
from attnx.models.seq2seq.schedules import NO_DROPOUT_MASKS, SCHEDULES, DropoutMasks, TeacherForcedInputs
from attnx.models.sequence_model import Output, SequenceModel, index_select_tree
from attnx.nn.contracts import OutputInputs, TargetSpec
from attnx.nn.recurrent import State, dropout_mask, top_hidden
from attnx.nn.source_encoder import EncodedSource
from attnx.nn.spans import Spans


class DecoderState(NamedTuple):
    """The state of a decoder. Every tensor has the batch as its first axis, so that rows can be selected."""

    memory: Memory  # what attention may read; it grows where the decoder's own states are in it
    rnn_state: State  # of every layer of the recurrence
    context: Tensor  # (b, v) the last context
    # (b, f) the last readout, which enters the recurrence at the next step; None unless ``feed=next``
    input_feed: Tensor | None
    tag_embedding: Tensor | None  # (b, g) enters the recurrence at every step; None unless ``model.tag_inputs`` says so
    tag: Tensor  # (b,) int64, the index of each row's tag
    step: Tensor  # (b,) int64, how many steps were taken
    history: AttentionHistory | None  # for a scorer that reads earlier weights, and for recurrent parts
    spans: Spans | None = None  # the steps of the memory's encoder states; None if every step has a state
    # (b, s) int64, the target ids that the output layer may copy from the source; None if it copies none
    copy_ids: Tensor | None = None
    query_carries: tuple[Tensor, ...] = ()  # (b, c) of each query input that carries something

    def over_source_steps(self, weights: Tensor | None) -> Tensor | None:
        """Weights over the source's steps, of which an encoder may have made fewer states."""
        return weights if weights is None or self.spans is None else self.spans.upsample(weights)


class Seq2seq(SequenceModel[DecoderState]):
    """Encode a source into a memory, and decode a target one step at a time while attending to the memory.

    Training runs the plan's schedule; :meth:`init_state` and :meth:`decode_step` generate, with the same numbers.

    Args:
        parts: the modules.
        target: what a step of the target is.
        plan: the schedule, and when the context enters the recurrence.
        sources: what the memory holds, ``encoder`` or ``decoder`` or both, in this order.
        visible_state_offset: how many decoder states a query may attend to, less the index of its step: -1, 0 or 1.
        dropout: share of the target embeddings' and the readout's units dropped while training.
    """

    def __init__(
        self,
        parts: Seq2seqParts,
        target: TargetSpec,
        plan: Plan,
        sources: tuple[str, ...] = ("encoder",),
        visible_state_offset: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.source_encoder, self.target, self.embedding = parts.source_encoder, target, parts.embedding
        self.tag_embedding = parts.tag_embedding
        self.encoder_tags, self.decoder_tags = parts.encoder_tags, parts.decoder_tags
        self.bridge, self.query, self.attention = parts.bridge, parts.query, parts.attention
        self.state_projection = parts.state_projection
        self.decoder, self.readout, self.output = parts.decoder, parts.readout, parts.output
        self.marked_states = target.marked_states(parts.readout.size)
        self.plan, self.sources, self.visible_state_offset = plan, sources, visible_state_offset
        self.dropout, self.is_distribution = dropout, self.attention.is_distribution
        self.reads_are_independent = "run_then_attend" in plan.valid_schedules  # all states are known before

    def forward(
        self,
        source: Tensor,
        source_mask: Tensor,
        inputs: Tensor,
        tag: Tensor | None = None,
        need_weights: bool = False,
        source_lengths: Tensor | None = None,
        schedule: str | None = None,
        scheduled_sampling: float = 0.0,
        output_mask: Tensor | None = None,
    ) -> Output:
        """As :meth:`SequenceModel.forward`; ``schedule`` is another one that the plan admits, for tests.

        ``scheduled_sampling`` is the probability to feed the model's own last output back.
        """
        start = self.init_state(source, source_mask, tag, source_lengths)
        tokens = self.embedding(inputs)
        masks = self._draw_masks(tokens, start.memory)
        tokens = tokens if masks.tokens is None else tokens * masks.tokens
        run = SCHEDULES[schedule or self.plan.schedule]
        outputs = run(
            self,
            TeacherForcedInputs(tokens, start, masks, scheduled_sampling, need_weights or self.output.needs_weights),
        )
        readouts = outputs.readouts
        if readouts is None:
            readouts = self.readout(outputs.states, outputs.contexts, outputs.tokens)
        readouts = readouts if masks.readouts is None else readouts * masks.readouts
        weights = start.over_source_steps(outputs.weights)
        mean_weights = self._mean_over_heads(weights)
        inputs_read = OutputInputs(outputs.states, outputs.contexts, outputs.tokens, mean_weights, start.copy_ids)
        if output_mask is not None:
            readouts, inputs_read = self.marked_states(readouts, output_mask), inputs_read.at(output_mask)
        logits = self.output(readouts, inputs_read)
        return Output(logits, weights if need_weights else None, outputs.penalty, outputs.log_prob)

    def init_state(
        self,
        source: Tensor,
        source_mask: Tensor,
        tag: Tensor | None = None,
        source_lengths: Tensor | None = None,
    ) -> DecoderState:
        """(b, s) symbols, (b, s) bool and (b,) tags -> the first state; lengths as in :meth:`forward`."""
        rows = source.shape[0]
        if tag is None:
            tag = torch.zeros(rows, dtype=torch.int64, device=source.device)
        tags = None if self.tag_embedding is None else self.tag_embedding(tag)
        source_tags = tags if self.encoder_tags else None
        encoded: EncodedSource | None = None
        if self.source_encoder is not None:
            encoded = self.source_encoder(source, source_mask, source_tags, source_lengths)
        memory = self._init_memory(encoded, rows)
        is_fed = self.plan.feed == "next"
        return DecoderState(
            memory=memory,
            rnn_state=self.bridge(() if encoded is None else encoded.final, rows),
            context=memory.values.new_zeros(memory.values.shape[0], memory.values.shape[-1] * self.attention.num_heads),
            input_feed=memory.values.new_zeros(rows, self.readout.size) if is_fed else None,
            tag_embedding=tags if self.decoder_tags else None,
            tag=tag,
            step=torch.zeros(rows, dtype=torch.int64, device=source.device),
            history=self.attention.init_history(memory),
            spans=encoded.spans if encoded is not None and "encoder" in self.sources else None,
            copy_ids=self.output.copy_ids(source, source_mask),
            query_carries=self.query.init_carries(memory.values.new_zeros(rows)),
        )

    def _init_memory(self, encoded: EncodedSource | None, rows: int) -> Memory:
        """The memory before the first step: no decoder state is in it yet."""
        memory: Memory | None = None
        if encoded is not None and "encoder" in self.sources:
            values = None if encoded.values is encoded.keys else encoded.values
            memory = self.attention.make_memory(encoded.keys, encoded.source_mask, values)
        if self.state_projection is not None:
            no_states = next(self.embedding.parameters()).new_zeros(rows, 0, self.decoder.size)
            states = self._decoder_memory(no_states, torch.arange(0, device=no_states.device))
            memory = states if memory is None else concat_sources(memory, states)
        if memory is None:  # without source and attention: contexts of no numbers
            nothing = next(self.embedding.parameters()).new_zeros(rows, 1, 0)
            memory = self.attention.make_memory(nothing)
        return memory

    def append_decoder_states(self, memory: Memory, states: Tensor, steps: Tensor) -> Memory:
        """Append the decoder's states (b, t, d) of these steps, (t,) or (b, t), to the memory."""
        return append_positions(memory, self._decoder_memory(states, steps))

    def visible_memory(self, memory: Memory, steps: Tensor) -> Memory:
        """The memory with each query's future states hidden: at its step they do not exist yet."""
        return hide_future(memory, steps + self.visible_state_offset)

    def _decoder_memory(self, states: Tensor, steps: Tensor) -> Memory:
        assert self.state_projection is not None
        keys, values = self.state_projection(states, steps)
        return self.attention.make_memory(keys, values=values)

    def decode_step(
        self, inputs: Tensor, state: DecoderState, need_weights: bool = False
    ) -> tuple[Tensor, DecoderState, AttentionOutput]:
        """Take one step: (b, ...) the last output -> the prediction of the next, the next state, and the attention.

        Of symbols: ids (b,) -> log-probabilities (b, symbols).
        """
        token = self.embedding(inputs)
        state, attention = self.forward_step(token, state, need_weights=need_weights or self.output.needs_weights)
        predicted = self.target.predict(self.logits(token, state, attention))
        weights = state.over_source_steps(attention.weights)
        return predicted, state, attention._replace(weights=weights)

    def forward_step(
        self, token: Tensor, state: DecoderState, masks: DropoutMasks = NO_DROPOUT_MASKS, need_weights: bool = False
    ) -> tuple[DecoderState, AttentionOutput]:
        """One step of the recurrence and one of attention, from an embedded token (b, e); ``masks`` are this step's."""
        inputs = [token] if state.tag_embedding is None else [token, state.tag_embedding]
        query = QueryContext(
            token[:, None],
            prev_state=top_hidden(state.rnn_state)[:, None],
            context=state.context[:, None],
            tag=state.tag[:, None],
        )
        if self.plan.feed == "now":  # Bahdanau: the context enters the same step
            attention, carries = self.attend(query, state, masks, need_weights)
            state = self._rnn_step([*inputs, attention.context[:, 0]], state, masks)
        else:  # Luong: the last readout enters, or nothing
            inputs = inputs if state.input_feed is None else [*inputs, state.input_feed]
            state = self._rnn_step(inputs, state, masks)
            attention, carries = self.attend(
                query._replace(state=top_hidden(state.rnn_state)[:, None]), state, masks, need_weights
            )
        context, history = attention.context[:, 0], None
        if state.history is not None and attention.weights is not None:
            history = update_history(state.history, attention)
        feed = None if state.input_feed is None else self.readout(top_hidden(state.rnn_state), context, token)
        state = state._replace(
            context=context, input_feed=feed, step=state.step + 1, history=history, query_carries=carries
        )
        return state, attention

    def _rnn_step(self, inputs: list[Tensor], state: DecoderState, masks: DropoutMasks) -> DecoderState:
        """The state after the recurrence, its top state in the memory if the memory holds decoder states."""
        rnn_state = self.decoder.step(inputs, state.rnn_state, masks.layers)
        state = state._replace(rnn_state=rnn_state)
        if self.state_projection is None:
            return state
        memory = self.append_decoder_states(state.memory, top_hidden(state.rnn_state)[:, None], state.step[:, None])
        return state._replace(memory=memory)

    def attend(
        self, context: QueryContext, state: DecoderState, masks: DropoutMasks, need_weights: bool
    ) -> tuple[AttentionOutput, tuple[Tensor, ...]]:
        """Attend to the memory at one step (q = 1); also what query inputs carry on."""
        memory, history, steps = state.memory, state.history, state.step[:, None]
        if self.state_projection is not None:
            memory = self.visible_memory(memory, steps)
        if history is not None:
            history = pad_history_to_memory(history, memory)
        weights_mask = None if masks.weights is None else masks.weights[..., : memory.keys.shape[-2]]
        query, carries = self.query.advance(context, state.query_carries)
        attention = self.attention(
            query,
            memory,
            steps=steps,
            history=history,
            dropout_mask=weights_mask,
            need_weights=need_weights or history is not None,
        )
        return attention, carries

    def logits(self, token: Tensor, state: DecoderState, attention: AttentionOutput) -> Tensor:
        """The output layer's values (b, width) after a step that read ``token``."""
        readout = state.input_feed
        if readout is None:
            readout = self.readout(top_hidden(state.rnn_state), state.context, token)
        weights = self._mean_over_heads(state.over_source_steps(attention.weights))
        weights = None if weights is None else weights[..., 0, :]
        return self.output(
            readout, OutputInputs(top_hidden(state.rnn_state), state.context, token, weights, state.copy_ids)
        )

    def source_shares(self, state: DecoderState) -> Tensor | None:
        """As :meth:`StepModel.source_shares`, of an encoder that makes fewer states than there are steps."""
        return None if state.spans is None else state.spans.shares

    def reorder_beams(self, state: DecoderState, rows: Tensor) -> DecoderState:
        """As :meth:`select_rows`, of rows of the same source: what was encoded stays where it is."""
        if self.state_projection is not None:  # decoder states in the memory differ by row
            return index_select_tree(state, rows)
        return DecoderState._make((state.memory, *index_select_tree(state[1:], rows)))

    def _mean_over_heads(self, weights: Tensor | None) -> Tensor | None:
        """(b, t, m) weights; the mean over several heads."""
        return weights.mean(1) if weights is not None and self.attention.num_heads > 1 else weights

    def _draw_masks(self, tokens: Tensor, memory: Memory) -> DropoutMasks:
        rows, steps = tokens.shape[:2]

        def draw(rate: float, *shape: int) -> Tensor | None:
            return dropout_mask(tokens, rate, self.training, rows, *shape)

        heads = [self.attention.num_heads] if self.attention.num_heads > 1 else []
        positions = memory.keys.shape[-2] + (0 if self.state_projection is None else steps)
        weights = draw(self.attention.dropout, *heads, steps, positions)
        token_mask, decoder = draw(self.dropout, steps, tokens.shape[-1]), self.decoder
        layers = tuple(draw(decoder.dropout, steps, decoder.size) for _ in range(decoder.num_layers - 1))
        return DropoutMasks(token_mask, layers, weights, draw(self.dropout, steps, self.readout.size))
