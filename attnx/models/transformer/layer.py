"""Layers of a transformer: self-attention, optional cross-attention and a feed-forward map, for one step or many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from torch import Tensor, nn

from attnx.attention import Memory
from attnx.attention.memory import append_positions
from attnx.attention.multi_head import MultiHeadAttention
from attnx.nn.feed_forward import FeedForward
from attnx.nn.residual import Norm, Residual

Site = Literal["self", "cross"]
"""The attention of a layer whose weights are returned."""


class SequenceChunk(NamedTuple):
    """Consecutive positions of a sequence that go through the layers together."""

    steps: Tensor  # (t,) or (b, t) int64, the step of each position, as scopes count them
    # of queries and keys, from :meth:`attnx.nn.position_encoding.PositionEncoding.rotary`, or None
    rotation: Tensor | None
    mask: Tensor | None = None  # (b, t) bool, False at padding; None if there is none
    is_bidirectional: bool = False  # whether a position attends to later ones; else attention is causal


class StackOutput(NamedTuple):
    """The output of a stack of layers."""

    states: Tensor  # (b, t, hidden_size)
    memories: tuple[Memory, ...]  # the memory of self-attention in each layer, with the chunk appended
    weights: list[Tensor]  # of each layer (b, h, t, m), if requested


class TransformerLayer(nn.Module):
    """Self-attention, optional cross-attention and a feed-forward map, each with a residual connection.

    Formula: ``y = residual(x, attend(x, x)), z = residual(y, attend(y, source)), out = residual(z, f(z))``
    Source: Vaswani et al. 2017, section 3.1, https://arxiv.org/abs/1706.03762
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

    def make_memory(self, states: Tensor, chunk: SequenceChunk) -> Memory:
        """The memory of self-attention after a chunk (b, t, hidden_size) that starts the sequence."""
        return self._append_chunk(None, self.self_residual.pre(states), chunk)

    def forward(
        self,
        states: Tensor,
        memory: Memory | None,
        source: Memory | None,
        chunk: SequenceChunk,
        site: Site | None = None,
    ) -> tuple[Tensor, Memory, Tensor | None]:
        """Send a chunk (b, t, hidden_size) through the layer.

        Args:
            states: the chunk.
            memory: earlier positions as self-attention reads them; None if the chunk starts the sequence.
            source: as cross-attention reads it; None without.
            chunk: where the chunk is.
            site: the attention whose weights to return.

        Returns:
            the next layer's states, the memory with the chunk, and the weights (b, h, t, m) of the site.
        """
        inputs = self.self_residual.pre(states)
        memory = self._append_chunk(memory, inputs, chunk)
        is_causal = not chunk.is_bidirectional and inputs.shape[1] > 1  # a single position is the last one
        attention = self.self_attention(
            inputs,
            memory._replace(is_causal=is_causal),
            steps=chunk.steps,
            need_weights=site == "self",
            rotation=chunk.rotation,
        )
        states, weights = self.self_residual.post(states, attention.context), attention.weights
        if self.cross_attention is not None and self.cross_residual is not None:
            assert source is not None
            queries, needs_weights = self.cross_residual.pre(states), site == "cross"
            attention = self.cross_attention(queries, source, steps=chunk.steps, need_weights=needs_weights)
            states = self.cross_residual.post(states, attention.context)
            weights = attention.weights if needs_weights else weights
        outputs = self.feed_forward(self.feed_forward_residual.pre(states))
        return self.feed_forward_residual.post(states, outputs), memory, weights

    def _append_chunk(self, memory: Memory | None, inputs: Tensor, chunk: SequenceChunk) -> Memory:
        positions = self.self_attention.make_memory(inputs, chunk.mask, rotation=chunk.rotation)
        return positions if memory is None else append_positions(memory, positions)


class TransformerStack(nn.Module):
    """Layers on top of each other, lowest first, with a final layer normalization if ``norm=pre``."""

    def __init__(self, layers: Iterable[TransformerLayer], hidden_size: int, norm: Norm) -> None:
        super().__init__()
        self.layers: Sequence[TransformerLayer] = nn.ModuleList(layers)  # type: ignore[assignment]
        self.norm = nn.LayerNorm(hidden_size) if norm == "pre" else nn.Identity()

    def forward(
        self,
        states: Tensor,
        chunk: SequenceChunk,
        self_memories: Sequence[Memory] = (),
        cross_memories: Sequence[Memory] = (),
        site: Site | None = None,
    ) -> StackOutput:
        """Send a chunk (b, t, hidden_size) through the layers.

        ``self_memories`` and ``cross_memories`` have one entry per layer: earlier positions as self-attention reads
        them, and the source as cross-attention does; none if left out. ``site`` is the one whose weights to return.
        """
        updated: list[Memory] = []
        weights: list[Tensor] = []
        for index, layer in enumerate(self.layers):
            earlier = self_memories[index] if self_memories else None
            source = cross_memories[index] if cross_memories else None
            states, memory, layer_weights = layer(states, earlier, source, chunk, site)
            updated.append(memory)
            weights += [] if layer_weights is None else [layer_weights]
        return StackOutput(self.norm(states), tuple(updated), weights)

    def make_memory(self, states: Tensor, chunk: SequenceChunk) -> tuple[Memory, ...]:
        """The memory of self-attention in each layer after a chunk (b, t, hidden_size) that starts the sequence."""
        memories = []
        for layer in self.layers[:-1]:
            states, memory, _ = layer(states, None, None, chunk)
            memories.append(memory)
        return (*memories, self.layers[-1].make_memory(states, chunk))  # whose output is not needed

    def empty_memories(self, rows: int, like: Tensor) -> tuple[Memory, ...]:
        """A memory of no positions for each layer."""
        states = like.new_zeros(rows, 0, like.shape[-1])
        return tuple(layer.self_attention.make_memory(states) for layer in self.layers)
