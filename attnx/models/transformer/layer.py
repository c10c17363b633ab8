"""Layers of a transformer: self-attention, optional cross-attention and a feed-forward map, for one step or many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnx.attention import AttentionOutput, Memory
from attnx.attention.memory import append_positions, hide_future
from attnx.attention.multi_head import MultiHeadAttention
from attnx.nn.feed_forward import FeedForward
from attnx.nn.residual import Norm, Residual


class SequenceChunk(NamedTuple):
    """Consecutive positions of a sequence that go through the layers together.

    Attributes:
        steps: (t,) or (b, t) int64, the step of each position, as scopes count them.
        rotation: of queries and keys, from :meth:`attnx.nn.position_encoding.PositionEncoding.rotary`, or None.
        mask: (b, t) bool, False at padding; None if there is none.
        is_bidirectional: whether a position attends to later ones; else attention is causal.
    """

    steps: Tensor
    rotation: Tensor | None
    mask: Tensor | None = None
    is_bidirectional: bool = False


class WeightsRequest(NamedTuple):
    """Which attention weights a pass returns.

    Attributes:
        needs_weights: the model's weights: of cross-attention, or of self-attention in a layer without it.
        needs_self_attention: the weights of self-attention.
    """

    needs_weights: bool = False
    needs_self_attention: bool = False


NO_WEIGHTS = WeightsRequest()


class LayerOutput(NamedTuple):
    """The output of one layer.

    Attributes:
        states: (b, t, hidden_size).
        weights: (b, h, t, m) the model's weights, if requested.
        self_weights: (b, h, t, m) the weights of self-attention, if requested.
    """

    states: Tensor
    weights: Tensor | None
    self_weights: Tensor | None


class StackOutput(NamedTuple):
    """The output of a stack of layers.

    Attributes:
        states: (b, t, hidden_size).
        memories: the memory of self-attention in each layer, with the chunk appended.
        weights: of each layer (b, h, t, m), the model's weights, if requested.
        self_weights: of each layer (b, h, t, m), the weights of self-attention, if requested.
    """

    states: Tensor
    memories: tuple[Memory, ...]
    weights: list[Tensor]
    self_weights: list[Tensor]


class TransformerLayer(nn.Module):
    """Self-attention, optional cross-attention and a feed-forward map, each with a residual connection.

    Formula: ``y = residual(x, attend(x, x)), z = residual(y, attend(y, source)), out = residual(z, f(z))``
    Source: Vaswani et al. 2017, section 3.1, https://arxiv.org/abs/1706.03762

    Args:
        self_attention: over the layer's own sequence.
        cross_attention: over the source; None without a source.
        feed_forward: f.
        hidden_size: width of the states.
        norm: before each sublayer (``pre``) or after each sum (``post``).
        dropout: share of each sublayer's outputs dropped while training.
    """

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention | None,
        feed_forward: FeedForward,
        hidden_size: int,
        norm: Norm,
        dropout: float,
    ) -> None:
        super().__init__()
        self.self_attention, self.cross_attention, self.feed_forward = self_attention, cross_attention, feed_forward
        self.self_residual = Residual(hidden_size, norm, dropout)
        self.cross_residual = None if cross_attention is None else Residual(hidden_size, norm, dropout)
        self.feed_forward_residual = Residual(hidden_size, norm, dropout)

    def make_memory(self, states: Tensor, memory: Memory | None, chunk: SequenceChunk) -> Memory:
        """Append the chunk's states to the memory of self-attention."""
        inputs = self.self_residual.pre(states)
        positions = self.self_attention.make_memory(inputs, chunk.mask, rotation=chunk.rotation)
        return positions if memory is None else append_positions(memory, positions)

    def forward(
        self,
        states: Tensor,
        memory: Memory,
        source: Memory | None,
        chunk: SequenceChunk,
        request: WeightsRequest = NO_WEIGHTS,
    ) -> LayerOutput:
        """Map states (b, t, hidden_size), which are in the memory already, to the layer's output."""
        needs_self_weights = request.needs_self_attention or (request.needs_weights and source is None)
        attention = self._attend_to_self(states, memory, chunk, needs_self_weights)
        states, weights = self.self_residual.post(states, attention.context), attention.weights
        self_weights = weights
        if self.cross_residual is not None:
            attention = self._attend_to_source(states, source, chunk, request.needs_weights)
            states, weights = self.cross_residual.post(states, attention.context), attention.weights
        outputs = self.feed_forward(self.feed_forward_residual.pre(states))
        return LayerOutput(self.feed_forward_residual.post(states, outputs), weights, self_weights)

    def _attend_to_self(
        self, states: Tensor, memory: Memory, chunk: SequenceChunk, need_weights: bool
    ) -> AttentionOutput:
        # A single position is the last one, so it attends to the whole memory.
        is_causal = not chunk.is_bidirectional and states.shape[1] > 1
        attention: AttentionOutput = self.self_attention(
            self.self_residual.pre(states),
            hide_future(memory, chunk.steps + 1) if is_causal else memory,
            steps=chunk.steps,
            need_weights=need_weights,
            rotation=chunk.rotation,
        )
        return attention

    def _attend_to_source(
        self, states: Tensor, source: Memory | None, chunk: SequenceChunk, need_weights: bool
    ) -> AttentionOutput:
        assert self.cross_attention is not None
        assert self.cross_residual is not None
        queries = self.cross_residual.pre(states)
        attention: AttentionOutput = self.cross_attention(queries, source, steps=chunk.steps, need_weights=need_weights)
        return attention


class TransformerStack(nn.Module):
    """Layers on top of each other, with a final layer normalization if ``norm=pre``.

    Args:
        layers: lowest first.
        hidden_size: width of the states.
        norm: as in the layers.
    """

    def __init__(self, layers: Iterable[TransformerLayer], hidden_size: int, norm: Norm) -> None:
        super().__init__()
        self.layers: Sequence[TransformerLayer] = nn.ModuleList(layers)  # type: ignore[assignment]
        self.norm = nn.LayerNorm(hidden_size) if norm == "pre" else nn.Identity()

    def forward(
        self,
        states: Tensor,
        chunk: SequenceChunk,
        memories: Sequence[Memory] = (),
        sources: Sequence[Memory] = (),
        request: WeightsRequest = NO_WEIGHTS,
    ) -> StackOutput:
        """Send a chunk (b, t, hidden_size) through the layers.

        Args:
            states: the chunk's embeddings.
            chunk: its positions.
            memories: what self-attention remembers of earlier positions, one per layer; none if left out.
            sources: what cross-attention remembers of the source, one per layer; none if left out.
            request: the weights to return.
        """
        outputs: list[LayerOutput] = []
        updated: list[Memory] = []
        for index, layer in enumerate(self.layers):
            updated.append(layer.make_memory(states, memories[index] if memories else None, chunk))
            outputs.append(layer(states, updated[-1], sources[index] if sources else None, chunk, request))
            states = outputs[-1].states
        return StackOutput(
            self.norm(states),
            tuple(updated),
            [output.weights for output in outputs if output.weights is not None],
            [output.self_weights for output in outputs if output.self_weights is not None],
        )

    def make_memory(self, states: Tensor, chunk: SequenceChunk) -> tuple[Memory, ...]:
        """The memory of self-attention in each layer after a chunk (b, t, hidden_size) that starts the sequence."""
        memories = []
        for layer in self.layers:
            memories.append(layer.make_memory(states, None, chunk))
            if layer is not self.layers[-1]:  # the last layer's output is not needed
                states = layer(states, memories[-1], None, chunk).states
        return tuple(memories)

    def empty_memories(self, rows: int, like: Tensor) -> tuple[Memory, ...]:
        """A memory of no positions for each layer."""
        states = like.new_zeros(rows, 0, like.shape[-1])
        return tuple(layer.self_attention.make_memory(states) for layer in self.layers)


def concat_layer_weights(weights: Sequence[Tensor]) -> Tensor | None:
    """Weights (b, h, t, m) of every layer -> (b, layers h, t, m); None if there are none."""
    return torch.cat(list(weights), dim=1) if weights else None
