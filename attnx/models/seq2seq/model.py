"""An encoder, attention and a recurrent decoder; :mod:`attnx.models.seq2seq.build` builds it from names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnx.attention import AttentionOutput, Memory, Query, QueryContext
from attnx.attention.memory import (
    append_positions,
    concat_sources,
    empty_history,
    hide_future,
    pad_history_to_memory,
    update_history,
    zero_context,
)
from attnx.attention.planner import Plan
from attnx.models.seq2seq.compiled_step import CompileOptions
from attnx.models.seq2seq.config import ResolvedSeq2seqConfig
from attnx.models.seq2seq.folded import folded
from attnx.models.seq2seq.schedules import SCHEDULES, Masks, TeacherForcedInputs
from attnx.models.seq2seq.state import DecoderState, Output
from attnx.models.state_ops import fold_beams_into_queries, index_select_tree, unfold_beams
from attnx.nn.decoder_memory import DecoderStateProjection
from attnx.nn.dropout import dropout_mask
from attnx.nn.outputs.inputs import OutputInputs
from attnx.nn.pyramid_weights import shares, spread
from attnx.nn.recurrent import State
from attnx.nn.source_encoder import EncodedSource, Source
from attnx.nn.targets.contract import TargetSpec


class Seq2seq(nn.Module):
    """Read a source into a memory, and write a target one step at a time while reading it.

    Training goes by the plan's schedule; :meth:`init_state` and :meth:`decode_step` generate, with the same numbers.

    Args:
        source: embeds and encodes; None if nothing of the source is read.
        target: what a step of the target is.
        embedding: the target's steps to vectors.
        tags: the rows' tags to vectors that every input is told, and which inputs: ``encoder``, ``decoder``.
        bridge: where the decoder's state starts.
        attention: the query, and what reads the memory with it.
        own: makes the decoder's states fit into the memory; None if they are not in it.
        decoder: the recurrence.
        readout: joins state, context and token.
        output: from the readout, and what else was seen, to what is predicted.
        chosen: schedule, feed, and what the memory holds.
        dropout: share of the target embeddings' and the readout's units dropped while training.
    """

    def __init__(
        self,
        source: Source | None,
        target: TargetSpec,
        embedding: Any,
        tags: tuple[nn.Embedding | None, Sequence[str]],
        bridge: nn.Module,
        attention: tuple[Query, Any],
        own: DecoderStateProjection | None,
        decoder: Any,
        readout: Any,
        output: Any,
        chosen: ResolvedSeq2seqConfig,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.source, self.target, self.embedding = source, target, embedding
        self.tags, self.told = tags[0], tuple(tags[1])
        self.bridge: Any = bridge
        self.query = attention[0]
        self.attention: Any = attention[1]
        self.own = own
        self.decoder: Any = decoder
        self.readout: Any = readout
        self.plan: Plan = chosen.plan
        self.sources, self.newest = chosen.sources, chosen.newest
        self.dropout = dropout
        self.compiled: CompileOptions | None = None  # whether training compiles the steps of its loop
        self.output: Any = output
        self.pace = source.pace if source is not None and "encoder" in chosen.sources else 1

    @property
    def sums_to_one(self) -> bool:
        """Whether the weights of a read sum to 1, as far as its normalizer says so; False without any."""
        one = self.attention.each[0] if self.attention.heads > 1 else self.attention
        return bool(getattr(getattr(one, "normalizer", None), "sums_to_one", False))

    def forward(
        self,
        source: Tensor,
        present: Tensor,
        inputs: Tensor,
        tag: Tensor | None = None,
        sampling: float = 0.0,
        need_weights: bool = False,
        schedule: str | None = None,
    ) -> Output:
        """Score a target that is known.

        Args:
            source: (b, s) symbols, or (b, s, features).
            present: (b, s) bool.
            tag: (b,) int64, the number of each row's tag; 0 if left out.
            inputs: (b, t, ...) what the decoder reads: ``target.first``, then the target but for its last step.
            sampling: chance to read the model's own last output instead (scheduled sampling); steps only.
            need_weights: also return the attention weights.
            schedule: another schedule the plan admits, for tests and benchmarks.
        """
        start = self.init_state(source, present, tag)
        tokens = self.embedding(inputs)
        masks = self._draw_masks(tokens, start.memory)
        tokens = tokens if masks.tokens is None else tokens * masks.tokens
        run = SCHEDULES[schedule or self.plan.schedule]
        told = run(
            self, TeacherForcedInputs(inputs, tokens, start, masks, sampling, need_weights or self.output.copies)
        )
        vectors = self.readout(told.states, told.contexts, told.tokens) if told.vectors is None else told.vectors
        weights = self._over_steps(told.weights, start)
        given = OutputInputs(told.states, told.contexts, told.tokens, self._of_heads(weights), start.symbols)
        logits = self.output(vectors if masks.vectors is None else vectors * masks.vectors, given)
        return Output(logits, weights if need_weights else None, told.penalty)

    def init_state(self, source: Tensor, present: Tensor, tag: Tensor | None = None) -> DecoderState:
        """(b, s) symbols, (b, s) bool and (b,) tags -> the state before the first step."""
        rows = source.shape[0]
        if tag is None:
            tag = torch.zeros(rows, dtype=torch.int64, device=source.device)
        told = None if self.tags is None else self.tags(tag)
        read = None if self.source is None else self.source(source, present, told if "encoder" in self.told else None)
        memory = self._first_memory(read, rows)
        values = memory.values
        return DecoderState(
            memory=memory,
            cell=self.bridge(() if read is None else read.final, rows),
            context=zero_context(memory),
            fed=values.new_zeros(rows, int(self.readout.size) if self.plan.feed == "next" else 0),
            told=told if told is not None and "decoder" in self.told else values.new_zeros(rows, 0),
            tag=tag,
            at=torch.zeros(rows, dtype=torch.int64, device=source.device),
            past=empty_history(memory) if self.attention.needs_past else None,
            shares=shares(present, self.pace) if self.pace > 1 else None,
            symbols=self.output.symbols(source, present),
        )

    def _first_memory(self, read: EncodedSource | None, rows: int) -> Memory:
        """What may be read at the first step: none of the decoder's states yet."""
        memory: Memory | None = None
        if read is not None and "encoder" in self.sources:
            values = None if read.values is read.keys else read.values
            memory = self.attention.remember(read.keys, read.present, values)
        if self.own is not None:
            none = self.embedding.weight.new_zeros(rows, 0, self.decoder.recurrent.size)
            own = self._remembered(none, torch.arange(0, device=none.device))
            memory = own if memory is None else concat_sources(memory, own)
        assert memory is not None, "a memory has a source"
        return memory

    def with_own(self, memory: Memory, states: Tensor, at: Tensor) -> Memory:
        """Append the decoder's states (b, t, d) of the steps ``at``, (t,) or (b, t), to the memory."""
        return append_positions(memory, self._remembered(states, at))

    def there(self, memory: Memory, at: Tensor) -> Memory:
        """The memory as each query finds it at the steps ``at``: later states are not there yet."""
        return hide_future(memory, at + self.newest)

    def _remembered(self, states: Tensor, at: Tensor) -> Memory:
        assert self.own is not None
        keys, values = self.own(states, at)
        memory: Memory = self.attention.remember(keys, values=values)
        return memory

    def decode_step(
        self, inputs: Tensor, state: DecoderState, need_weights: bool = False
    ) -> tuple[Tensor, DecoderState, AttentionOutput]:
        """Take one step: (b, ...) the last one -> the next one as predicted, the state after, and what was read.

        Of symbols: ids (b,) -> log-probabilities (b, symbols).
        """
        if state.folded is None:
            token = self.embedding(inputs)
            after, read = self.advance(token, state, need_weights=need_weights or self.output.copies)
            outputs = self.outputs(token, after, read)
        else:
            vector, after, read = state.folded.step(self, inputs, state, need_weights)
            outputs = self.output(vector)
        return self.target.predict(outputs), after, read._replace(weights=self._over_steps(read.weights, after))

    def select_rows(self, state: DecoderState, rows: Tensor) -> DecoderState:
        """The state of these rows, int64, which may repeat; of rows that share a memory all or none."""
        memory = index_select_tree(state.memory, rows if state.shared == 1 else rows[:: state.shared] // state.shared)
        return DecoderState(memory, *index_select_tree(state[1:], rows))

    def reorder_beams(self, state: DecoderState, rows: Tensor) -> DecoderState:
        """The state of these rows, as many of each source and those of one together: they share what was encoded."""
        if self.own is not None or state.past is not None:  # then each has a memory, or has read it, in its own way
            return index_select_tree(state, rows)
        shared = len(rows) * state.shared // len(state.at)
        after = DecoderState(state.memory, *index_select_tree(state[1:], rows))
        return folded(self, after._replace(shared=shared, parents=rows))

    def advance(
        self, token: Tensor, state: DecoderState, masks: Masks | None = None, need_weights: bool = False
    ) -> tuple[DecoderState, AttentionOutput]:
        """One step of the recurrence and one read (q = 1), from an embedded token (b, e); ``masks`` are this step's."""
        layers = () if masks is None else masks.layers
        known = QueryContext(
            token[:, None],
            before=state.cell[-1][0][:, None],
            context=state.context[:, None],
            tag=state.tag[:, None],
        )
        inputs = [token, state.told]
        if self.plan.feed == "now":
            read = self.read(known, state, masks, need_weights)
            cell = self.decoder.recurrent.step(torch.cat([*inputs, read.context[:, 0]], dim=-1), state.cell, layers)
            after = self._grown(state, cell)
        else:
            cell = self.decoder.recurrent.step(torch.cat([*inputs, state.fed], dim=-1), state.cell, layers)
            after = self._grown(state, cell)
            read = self.read(known._replace(after=cell[-1][0][:, None]), after, masks, need_weights)
        past = None if state.past is None or read.weights is None else update_history(state.past, read.weights)
        after = after._replace(context=read.context[:, 0], at=state.at + 1, past=past)
        if self.plan.feed == "next":
            after = after._replace(fed=self.readout(cell[-1][0], after.context, token))
        return after, read

    def _grown(self, state: DecoderState, cell: State) -> DecoderState:
        """The state after the cell ran, its top state in the memory if it belongs there."""
        if self.own is not None:
            memory = self.with_own(state.memory, cell[-1][0][:, None], state.at[:, None])
            state = state._replace(memory=memory)
        return state._replace(cell=cell, parents=None)

    def outputs(self, token: Tensor, after: DecoderState, read: AttentionOutput) -> Tensor:
        """What the output layer gives (b, width) after a step that read ``token``."""
        state = after.cell[-1][0]
        vector = after.fed if self.plan.feed == "next" else self.readout(state, after.context, token)
        weights = self._of_heads(self._over_steps(read.weights, after))
        given = OutputInputs(
            state, after.context, token, None if weights is None else weights[..., 0, :], after.symbols
        )
        outputs: Tensor = self.output(vector, given)
        return outputs

    def _over_steps(self, weights: Tensor | None, state: DecoderState) -> Tensor | None:
        """Weights over the memory as weights over the source's steps; the decoder's own states stay as they are."""
        return weights if weights is None or state.shares is None else spread(weights, state.shares, self.pace)

    def _of_heads(self, weights: Tensor | None) -> Tensor | None:
        """(b, t, m) weights; of several heads their mean."""
        return weights.mean(1) if weights is not None and self.attention.heads > 1 else weights

    def read(
        self, step: QueryContext, state: DecoderState, masks: Masks | None = None, need_weights: bool = False
    ) -> AttentionOutput:
        """Read the memory at one step (q = 1)."""
        # Rows that share a memory are queries of one row.
        query, at = fold_beams_into_queries(self.query(step), state.shared), state.at.view(-1, state.shared)
        memory = state.memory if self.own is None else self.there(state.memory, at)
        keep = None if masks is None or masks.weights is None else masks.weights[..., : memory.keys.shape[-2]]
        past = None if state.past is None else pad_history_to_memory(state.past, memory)
        read: AttentionOutput = self.attention(
            query, memory, at=at, past=past, keep=keep, need_weights=need_weights or past is not None
        )
        return read if state.shared == 1 else unfold_beams(read)

    def _draw_masks(self, tokens: Tensor, memory: Memory) -> Masks:
        rows, steps, layers = *tokens.shape[:2], self.decoder.recurrent.layers[1:]

        def draw(rate: float, size: int) -> Tensor | None:
            return dropout_mask(tokens, rate, self.training, rows, steps, size)

        heads = [self.attention.heads] if self.attention.heads > 1 else []
        positions = memory.keys.shape[-2] + (0 if self.own is None else steps)
        weights = dropout_mask(tokens, self.attention.dropout, self.training, rows, *heads, steps, positions)
        return Masks(
            tokens=draw(self.dropout, tokens.shape[-1]),
            layers=tuple(draw(self.decoder.dropout, self.decoder.recurrent.size) for _ in layers),
            weights=weights,
            vectors=draw(self.dropout, int(self.readout.size)),
        )
