"""A decoder for searches whose linear maps are merged: the embedding's into a table, the context's into the memory.

As ``W sum_m a_m v_m = sum_m a_m (W v_m)``, the memory's values are projected once by all linear maps that the context
enters. Attention weights stay what they are. Hypotheses of one source share its memory as queries of one row.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.accel.attention.kernels import has_hooks, is_plain
from attnx.accel.lstm.bindings import PackedWeights, lstm_step, pack_weights
from attnx.accel.modules import FastAttention, FastEmbedding, FastLinearOutput, FastMemoryCellLayer, fast_linear
from attnx.attention import AttentionOutput, Memory, QueryContext
from attnx.attention.no_attention import NoAttention
from attnx.decoding.contracts import StepModel
from attnx.decoding.ensemble import Ensemble
from attnx.models.seq2seq.model import DecoderState, Seq2seq
from attnx.models.sequence_model import index_select_tree
from attnx.nn.decoders.recurrent import RecurrentDecoder
from attnx.nn.readouts.joint import Joint
from attnx.nn.spans import Spans

MAX_ROWS_TO_PROJECT = 32
"""Maximum rows for which projecting the memory is faster even if each has its own source: reading weights dominates."""
MIN_WIDTH_PER_POSITION = 4
"""Minimum width/length ratio of the memory for projecting it to be faster."""
MAX_SYMBOLS_IN_TABLE = 256
"""Up to so many symbols have a table of their gates; of more, most would never be looked up."""
EXPECTED_STEPS = 8
"""Steps that a search is expected to take, where weights are packed for them."""


class FusedWeights(NamedTuple):
    """Merged linear maps of a search. The cell has g gates, the state d units, the readout r, the context v."""

    token_gates: Tensor  # (g, e) from an embedded token to the gates
    bias: Tensor  # (g) of the gates
    table: Tensor | None  # (symbols, g) the gates of every symbol, bias included; None if there are many, or none
    hidden_gates: Tensor  # (g, d) from the previous state to the gates
    context_gates: Tensor | None  # (g, v) from the context to the gates of ``feed=now``; else None
    # packed ``hidden_gates``, and ``context_gates`` beside them unless the memory is projected
    recurrent: PackedWeights
    readout: Tensor | None  # from the readout's other inputs to its units; None if the readout is the state
    readout_context: Tensor | None  # (r, v) from the context to the readout's units; None if it does not enter it
    is_projected: bool = False  # whether the memory's values are projected by ``readout_context`` and ``context_gates``


class FusedState(NamedTuple):
    """The state of a :class:`FusedDecoder`."""

    memory: Memory  # of each source, its values perhaps projected
    hidden: Tensor  # (b, d)
    cell: Tensor  # (b, d)
    tag_gates: Tensor | None  # (b, g) the tag embedding's share of the gates; None without
    tag: Tensor  # (b,) int64
    step: Tensor  # (b,) int64, how many steps were taken
    spans: Spans | None  # as in :class:`DecoderState`
    beams_per_source: int  # how many rows, which lie together, share a row of the memory
    weights: FusedWeights  # the merged maps


class FusedDecoder:
    """Decodes as a :class:`Seq2seq` that :meth:`is_supported`, faster and without gradients.

    It is a :class:`attnx.decoding.contracts.StepModel`.
    """

    def __init__(self, model: Seq2seq) -> None:
        self.model = model
        self.sources, self.target, self.is_distribution = model.sources, model.target, model.is_distribution

    @staticmethod
    def is_supported(model: Seq2seq) -> bool:
        """Whether context and readout only enter linear maps of an LSTM layer with a fast path, in evaluation mode."""
        if model.training or torch.is_autocast_enabled("cpu"):
            return False
        decoder, attention = model.decoder, model.attention
        if type(decoder) is not RecurrentDecoder:
            return False
        is_one_layer = type(decoder.layers[0]) is FastMemoryCellLayer and decoder.num_layers == 1
        is_history_free = type(attention) in (FastAttention, NoAttention) and not attention.needs_history
        reads_context = any(part.needs == "context" for part in model.query.inputs)
        has_decoder_memory = model.state_projection is not None
        return (
            _is_linear(model.readout)
            and is_one_layer
            and model.plan.feed != "next"
            and is_history_free
            and not (reads_context or has_decoder_memory or model.query.is_recurrent)
            and type(model.output) is FastLinearOutput
        )

    @torch.no_grad()
    def init_state(self, source: Tensor, source_mask: Tensor, tag: Tensor | None = None) -> FusedState:
        """As :meth:`Seq2seq.init_state`."""
        state = self.model.init_state(source, source_mask, tag)
        weights, tag_gates = merge_maps(self.model, state)
        tags = None if state.tag_embedding is None else F.linear(state.tag_embedding, tag_gates)
        hidden, cell = state.rnn_state[0]
        return self._project(
            FusedState(state.memory, hidden, cell, tags, state.tag, state.step, state.spans, 1, weights)
        )

    @torch.no_grad()
    def decode_step(
        self, inputs: Tensor, state: FusedState, need_weights: bool = False
    ) -> tuple[Tensor, FusedState, AttentionOutput]:
        """As :meth:`Seq2seq.decode_step`, without a context in the attention: it exists only projected, if at all."""
        model, weights, hidden = self.model, state.weights, state.hidden
        token = model.embedding(inputs)
        looked_up = None if weights.table is None else (weights.table, inputs.long())
        gates = [] if state.tag_gates is None else [state.tag_gates]
        gates += [F.linear(token, weights.token_gates, weights.bias)] if looked_up is None else []
        query, parts = QueryContext(token[:, None], prev_state=hidden[:, None], tag=state.tag[:, None]), [hidden]
        if model.plan.feed == "now":
            attention = self._attend(query, state, need_weights)
            context_term, context_gates = self._split_context(attention, weights, len(weights.bias))
            (gates if weights.is_projected else parts).append(context_gates)
            hidden, cell = lstm_step(state.cell, _sum(gates), looked_up, weights.recurrent, parts)
        else:
            hidden, cell = lstm_step(state.cell, _sum(gates), looked_up, weights.recurrent, parts)
            attention = self._attend(query._replace(state=hidden[:, None]), state, need_weights)
            context_term, _ = self._split_context(attention, weights, 0)
        readout = self._readout(hidden, token, context_term, weights)
        predicted = model.target.predict(cast("FastLinearOutput", model.output)(readout))
        attention = attention._replace(context=attention.context[..., :0])
        if attention.weights is not None and state.spans is not None:
            attention = attention._replace(weights=state.spans.upsample(attention.weights))
        return predicted, state._replace(hidden=hidden, cell=cell, step=state.step + 1), attention

    def select_rows(self, state: FusedState, rows: Tensor) -> FusedState:
        """As :meth:`SequenceModel.select_rows`; rows of one source that lie together share its memory."""
        sources = rows // state.beams_per_source
        counts = torch.unique_consecutive(sources, return_counts=True)[1]
        beams = int(counts[0]) if len(counts) and bool((counts == counts[0]).all()) else 1
        memory = index_select_tree(state.memory, sources[::beams])
        state = self.reorder_beams(state, rows)._replace(memory=memory, beams_per_source=beams)
        return self._project(state) if beams > 1 else state

    def source_shares(self, state: FusedState) -> Tensor | None:
        """As :meth:`Seq2seq.source_shares`."""
        return None if state.spans is None else state.spans.shares

    def reorder_beams(self, state: FusedState, rows: Tensor) -> FusedState:
        """As :meth:`Seq2seq.reorder_beams`."""
        return FusedState._make((state.memory, *index_select_tree(state[1:7], rows), *state[7:]))

    def _attend(self, query: QueryContext, state: FusedState, need_weights: bool) -> AttentionOutput:
        """Attend with the beams of a source as queries of one row: (b * beams, 1, d) -> (b, beams, d) and back."""
        beams = state.beams_per_source
        queries, steps = self.model.query(query), state.step.view(-1, beams)
        if beams > 1:
            queries = queries.view(len(steps), beams, queries.shape[-1])
        attention: AttentionOutput = self.model.attention(queries, state.memory, steps=steps, need_weights=need_weights)
        if beams == 1:
            return attention
        # (b, q, m) -> (b * q, 1, m), or (b, h, q, m) -> (b * q, h, 1, m)
        context, weights, scores = (
            None if part is None else part.movedim(-2, 1).flatten(0, 1).unsqueeze(-2) for part in attention[:3]
        )
        assert context is not None
        return AttentionOutput(context, weights, scores)

    def _split_context(
        self, attention: AttentionOutput, weights: FusedWeights, gates: int
    ) -> tuple[Tensor | None, Tensor]:
        """The context's term of the readout, if it has one, and its gates (of an unprojected context: the context)."""
        context = attention.context[:, 0]
        if weights.is_projected:
            units = context.shape[1] - gates
            return context[:, :units] if units else None, context[:, units:]
        return None if weights.readout_context is None else F.linear(context, weights.readout_context), context

    def _readout(self, hidden: Tensor, token: Tensor, context_term: Tensor | None, weights: FusedWeights) -> Tensor:
        if weights.readout is None:
            return hidden
        parts = {"state": hidden, "token": token}
        assert isinstance(self.model.readout, Joint)
        joined = torch.cat([parts[name] for name in self.model.readout.inputs if name != "context"], -1)
        if context_term is None:
            return (joined @ weights.readout.t()).tanh_()
        return torch.addmm(context_term, joined, weights.readout.t()).tanh_()

    def _project(self, state: FusedState) -> FusedState:
        """The state with its memory projected, where that is faster and not done yet."""
        weights, values = state.weights, state.memory.values
        maps = [weight for weight in (weights.readout_context, weights.context_gates) if weight is not None]
        units, (_, positions, width) = [len(weight) for weight in maps], values.shape
        is_often = state.beams_per_source > 1 or len(state.step) <= MAX_ROWS_TO_PROJECT or sum(units) <= width
        is_faster = maps and is_often and MIN_WIDTH_PER_POSITION * positions <= width
        if weights.is_projected or not is_faster:
            return state
        # (b, m, v) -> (b, m, all units): those of each map are written where they belong.
        projected = values.new_empty(*values.shape[:2], sum(units))
        for weight, columns in zip(maps, torch.split(projected.flatten(0, 1), units, 1), strict=True):
            fast_linear(values.flatten(0, 1), weight, out=columns)
        recurrent = weights.recurrent
        if weights.context_gates is not None:
            recurrent = pack_weights(weights.hidden_gates, EXPECTED_STEPS * len(state.step))
        memory = state.memory._replace(values=projected)
        return state._replace(memory=memory, weights=weights._replace(recurrent=recurrent, is_projected=True))


def _is_linear(readout: object) -> bool:
    """Whether a readout is the state, or a tanh of a linear map of the state or the token, and perhaps the context."""
    if type(readout) is not Joint or has_hooks(readout):
        return False
    if is_plain(readout.join, nn.Identity):
        return readout.inputs == ("state",)
    layers, kinds = list(readout.join.children()), (nn.Linear, nn.Tanh)
    is_map = is_plain(readout.join, nn.Sequential) and len(layers) == len(kinds) and all(map(is_plain, layers, kinds))
    return is_map and layers[0].bias is None and readout.inputs != ("context",)


def merge_maps(model: Seq2seq, state: DecoderState) -> tuple[FusedWeights, Tensor]:
    """The merged maps, and (g, tag width) from the tag embedding to the gates."""
    decoder, readout, embedding = model.decoder, model.readout, model.embedding
    assert isinstance(decoder, RecurrentDecoder)
    assert isinstance(readout, Joint)
    layer = decoder.layers[0]
    is_now = model.plan.feed == "now"
    tag_width = 0 if state.tag_embedding is None else state.tag_embedding.shape[1]
    token_width = layer.input_size - tag_width - (state.context.shape[1] if is_now else 0)
    token_gates, tag_gates, context_gates = layer.weight_ih_l0.tensor_split(  # type: ignore[operator]
        (token_width, token_width + tag_width), 1
    )
    hidden_gates: Tensor = layer.weight_hh_l0  # type: ignore[assignment]
    bias: Tensor = layer.bias_ih_l0 + layer.bias_hh_l0  # type: ignore[operator]
    table = None
    if type(embedding) is FastEmbedding and not has_hooks(embedding) and embedding.max_norm is None:
        is_small = embedding.num_embeddings <= MAX_SYMBOLS_IN_TABLE
        table = F.linear(embedding.weight, token_gates, bias) if is_small else None
    joined: dict[str, Tensor] = {}  # the columns of the readout's weight by input
    if isinstance(readout.join, nn.Sequential):
        widths = {"state": decoder.size, "context": state.context.shape[1], "token": token_width}
        weight: Tensor = readout.join[0].weight  # type: ignore[assignment]
        columns = torch.split(weight, [widths[name] for name in readout.inputs], 1)
        joined = dict(zip(readout.inputs, columns, strict=True))
    readout_context = joined.pop("context", None)
    recurrent = torch.cat([hidden_gates, context_gates], 1) if is_now else hidden_gates
    weights = FusedWeights(
        token_gates=token_gates,
        bias=bias,
        table=table,
        hidden_gates=hidden_gates,
        context_gates=context_gates if is_now else None,
        recurrent=pack_weights(recurrent, EXPECTED_STEPS * len(state.step)),
        readout=torch.cat(list(joined.values()), 1) if joined else None,
        readout_context=readout_context,
    )
    return weights, tag_gates


def fused_decoder(model: StepModel) -> StepModel:
    """A fused decoder of a model, or of each member of an ensemble, where it is supported; else the model itself."""
    if isinstance(model, Ensemble):
        return model.with_members([fused_decoder(member) for member in model.members])
    return FusedDecoder(model) if isinstance(model, Seq2seq) and FusedDecoder.is_supported(model) else model


def _sum(terms: Sequence[Tensor]) -> Tensor | None:
    return functools.reduce(torch.add, terms) if terms else None
