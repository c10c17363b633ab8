"""The model ``seq2seq``: an encoder, attention and a recurrent decoder, in plain PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from attnx import registry
from attnx.attention import Memory, Query, Read, Step
from attnx.attention.from_names import assemble
from attnx.attention.plan import Plan
from attnx.models.composition import compose
from attnx.models.schedules import SCHEDULES, Masks
from attnx.nn.bridges import BRIDGES
from attnx.nn.dropout import dropout_mask
from attnx.nn.recurrent import State
from attnx.nn.source import Source
from attnx.registry import Positive, Probability, Size, register


class DecoderState(NamedTuple):
    """Where a decoder stands; every tensor has the batch as its first axis, so that rows can be reordered.

    Attributes:
        memory: what may be read.
        cell: the recurrence's state, per layer.
        context: (b, v) the last context.
        fed: (b, f) what enters the recurrence at the next step besides the token; width 0 unless ``feed=next``.
        at: (b,) int64, how many steps were taken.
    """

    memory: Memory
    cell: State
    context: Tensor
    fed: Tensor
    at: Tensor


class Output(NamedTuple):
    """A teacher-forced pass: logits (b, t, symbols) and weights (b, t, m) if asked for."""

    logits: Tensor
    weights: Tensor | None


class Seq2seq(nn.Module):
    """Read a source into a memory, and write a target one symbol at a time while reading it.

    Training goes by the plan's schedule; :meth:`begin` and :meth:`step` generate, with the same numbers.

    Args:
        source: embeds and encodes.
        embedding: target symbols to vectors.
        bridge: where the decoder's state starts.
        attention: the query, and what reads the memory with it.
        decoder: the recurrence.
        readout: joins state, context and token.
        plan: schedule and feed.
        tied: the output layer is the target embedding.
        dropout: share of the target embeddings' and the readout's units dropped while training.
    """

    def __init__(
        self,
        source: Source,
        embedding: nn.Embedding,
        bridge: nn.Module,
        attention: tuple[Query, Any],
        decoder: Any,
        readout: Any,
        plan: Plan,
        tied: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.source, self.embedding = source, embedding
        self.bridge: Any = bridge
        self.query = attention[0]
        self.attention: Any = attention[1]
        self.decoder: Any = decoder
        self.readout: Any = readout
        self.plan, self.dropout = plan, dropout
        self.output = nn.Linear(int(readout.size), embedding.num_embeddings, bias=not tied)
        if tied:
            self.output.weight = embedding.weight

    def forward(
        self,
        source: Tensor,
        present: Tensor,
        inputs: Tensor,
        sampling: float = 0.0,
        need_weights: bool = False,
        schedule: str | None = None,
    ) -> Output:
        """Score a target that is known.

        Args:
            source: (b, s) symbols.
            present: (b, s) bool.
            inputs: (b, t) what the decoder reads: the target moved right by one, beginning with BOS.
            sampling: chance to read the model's own last output instead (scheduled sampling); steps only.
            need_weights: also return the attention weights.
            schedule: another schedule the plan admits, for tests and benchmarks.
        """
        start = self.begin(source, present)
        tokens = self.embedding(inputs)
        masks = self._draw_masks(tokens, start.memory)
        tokens = tokens if masks.tokens is None else tokens * masks.tokens
        run = SCHEDULES[schedule or self.plan.schedule]
        told = run(self, tokens, start, masks, sampling, need_weights)
        vectors = self.readout(told.states, told.contexts, told.tokens) if told.vectors is None else told.vectors
        return Output(self.output(vectors if masks.vectors is None else vectors * masks.vectors), told.weights)

    def begin(self, source: Tensor, present: Tensor) -> DecoderState:
        """(b, s) symbols and (b, s) bool -> the state before the first step."""
        read = self.source(source, present)
        memory = self.attention.remember(read.keys, read.present, read.values)
        rows = source.shape[0]
        fed = int(self.readout.size) if self.plan.feed == "next" else 0
        return DecoderState(
            memory=memory,
            cell=self.bridge(read.final, rows),
            context=memory.values.new_zeros(rows, memory.values.shape[-1]),
            fed=memory.values.new_zeros(rows, fed),
            at=torch.zeros(rows, dtype=torch.int64, device=source.device),
        )

    def step(
        self, tokens: Tensor, state: DecoderState, need_weights: bool = False
    ) -> tuple[Tensor, DecoderState, Read]:
        """Take one step: (b,) symbols -> log-probabilities (b, symbols), the state after, and what was read."""
        token = self.embedding(tokens)
        after, read = self.advance(token, state, need_weights=need_weights)
        return torch.log_softmax(self.output(self.vector(token, after)), dim=-1), after, read

    def advance(
        self, token: Tensor, state: DecoderState, masks: Masks | None = None, need_weights: bool = False
    ) -> tuple[DecoderState, Read]:
        """One step of the recurrence and one read (q = 1), from an embedded token (b, e); ``masks`` are this step's."""
        layers = () if masks is None else masks.layers
        known = Step(token[:, None], before=state.cell[-1][0][:, None], context=state.context[:, None])
        if self.plan.feed == "now":
            read = self._read(known, state, masks, need_weights)
            cell = self.decoder.recurrent.step(torch.cat([token, read.context[:, 0]], dim=-1), state.cell, layers)
        else:
            cell = self.decoder.recurrent.step(torch.cat([token, state.fed], dim=-1), state.cell, layers)
            read = self._read(known._replace(after=cell[-1][0][:, None]), state, masks, need_weights)
        after = state._replace(cell=cell, context=read.context[:, 0], at=state.at + 1)
        if self.plan.feed == "next":
            after = after._replace(fed=self.readout(cell[-1][0], after.context, token))
        return after, read

    def vector(self, token: Tensor, after: DecoderState) -> Tensor:
        """The readout (b, r) of the state after a step that read ``token``."""
        if self.plan.feed == "next":
            return after.fed
        vector: Tensor = self.readout(after.cell[-1][0], after.context, token)
        return vector

    def _read(self, step: Step, state: DecoderState, masks: Masks | None, need_weights: bool) -> Read:
        keep = None if masks is None else masks.weights
        read: Read = self.attention(
            self.query(step), state.memory, at=state.at[:, None], keep=keep, need_weights=need_weights
        )
        return read

    def _draw_masks(self, tokens: Tensor, memory: Memory) -> Masks:
        rows, steps = tokens.shape[:2]
        width = self.decoder.recurrent.size

        def draw(rate: float, size: int) -> Tensor | None:
            return dropout_mask(tokens, rate, self.training, rows, steps, size)

        return Masks(
            tokens=draw(self.dropout, tokens.shape[-1]),
            layers=tuple(draw(self.decoder.dropout, width) for _ in self.decoder.recurrent.layers[1:]),
            weights=draw(self.attention.dropout, memory.present.shape[-1]),
            vectors=draw(self.dropout, int(self.readout.size)),
        )


@register("model", "seq2seq")
def seq2seq(
    config: Mapping[str, Any],
    source_symbols: Size,
    target_symbols: Size,
    embedding: Positive = 64,
    feed: Literal["now", "next", "none"] | None = None,
    memory: str = "states",
    values: str | None = None,
    bridge: Literal["last", "zeros", "learned"] | None = None,
    tied: bool = False,
    dropout: Probability = 0.0,
    sampling: Probability = 0.0,
    source_vectors: str | None = None,
    target_vectors: str | None = None,
) -> Seq2seq:
    """Compose an attentional encoder-decoder.

    Formula: ``p(y_t | y_<t, x) = softmax(O r_t), r_t = readout(h_t, c_t, e(y_{t-1}))``
    Source: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473; Luong et al. 2015, https://arxiv.org/abs/1508.04025

    ``feed`` says when the context reaches the recurrence: ``now`` at the same step, ``next`` (the readout) at the next
    one, ``none`` never; left unset it follows from the query. ``memory`` and ``values`` are ``states``, ``inputs`` (the
    embeddings; if both are, there is no encoder) or ``layer:N``; values default to the memory. ``bridge`` defaults to
    ``last``, or ``learned`` without an encoder. ``sampling`` is the chance, reached by a linear rise over training, to
    feed the model's own output back. ``source_vectors`` and ``target_vectors`` are files of pretrained embeddings.
    """
    chosen = compose(config)
    layers = {"layers": chosen.encoder} if "layers" in config["encoder"] else {}
    encoder = (
        registry.build("encoder", {**config["encoder"], **layers}, input_size=embedding) if chosen.encoder else None
    )
    inputs = nn.Embedding(source_symbols, embedding, padding_idx=0)
    source = Source(inputs, encoder, chosen.memory, chosen.values, dropout)
    # `hidden` is every decoder's state width: the readout is built first because feed=next puts it into the decoder.
    widths = {"state_size": config["decoder"]["hidden"], "token_size": embedding, "context_size": source.values_size}
    shape = {"size": embedding} if tied else {}
    readout = registry.build("readout", {**config["readout"], **shape}, **widths)
    fed = {"now": source.values_size, "next": readout.size, "none": 0}[chosen.plan.feed]
    decoder = registry.build("decoder", config["decoder"], input_size=embedding + fed)
    return Seq2seq(
        source=source,
        embedding=nn.Embedding(target_symbols, embedding, padding_idx=0),
        bridge=BRIDGES[chosen.bridge](decoder.recurrent, source.final_size),
        attention=_attention(config, source.keys_size, widths),
        decoder=decoder,
        readout=readout,
        plan=chosen.plan,
        tied=tied,
        dropout=dropout,
    )


def _attention(config: Mapping[str, Any], memory_size: int, widths: Mapping[str, int]) -> tuple[Query, Any]:
    """Build the query and what reads with it."""
    if config["attention"]["name"] == "none":
        return Query([]), registry.build("attention", "none")
    query = Query(registry.build("query", (name, knobs), **widths) for name, knobs in config["query"].items())
    return query, assemble(
        config["scorer"], config["scope"], config["normaliser"], query.size, memory_size, config["attention"]
    )
