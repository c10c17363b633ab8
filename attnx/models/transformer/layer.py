"""Layers of a transformer: self-attention, optional cross-attention and a feed-forward map, for one step or many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, cast

from torch import Tensor, nn

from attnx.attention import Memory
from attnx.attention.hops import Hops
from attnx.attention.memory import append_positions
from attnx.attention.multi_head import MultiHeadAttention
from attnx.mixers.contracts import Mixer
from attnx.nn.sublayers import FeedForward, Residual

LayerAttention = MultiHeadAttention | Hops
"""What a layer attends by."""
LayerMemory = Memory | tuple[Tensor, ...] | None
"""What a layer keeps of earlier positions: a memory for attention, the state of a mixer, or nothing."""
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
    memories: tuple[LayerMemory, ...]  # what each layer keeps, the chunk included
    weights: list[Tensor]  # of each layer that attends (b, h, t, m), if requested


class TransformerLayer(nn.Module):
    """Self-attention or a mixer, and if given cross-attention and a feed-forward map, each with a residual connection.

    Formula: ``y = residual(x, attend(x, x)), z = residual(y, attend(y, source)), out = residual(z, f(z))``
    Source: Vaswani et al. 2017, section 3.1, https://arxiv.org/abs/1706.03762
    """

    def __init__(
        self,
        self_attention: LayerAttention | None,
        cross_attention: LayerAttention | None,
        feed_forward: FeedForward | None,
        build_residual: Callable[[], Residual],
        mixer: Mixer[Any] | None = None,
    ) -> None:
        super().__init__()
        self.mixer = mixer
        self.self_attention, self.cross_attention, self.feed_forward = self_attention, cross_attention, feed_forward
        is_alone = self_attention is None and mixer is None  # the feed-forward map
        self.self_residual = None if is_alone else build_residual()
        self.cross_residual = None if cross_attention is None else build_residual()
        self.feed_forward_residual = None if feed_forward is None else build_residual()

    def empty_memory(self, rows: int, like: Tensor) -> LayerMemory:
        """What the layer keeps before the first position."""
        if self.mixer is not None:
            state: tuple[Tensor, ...] = self.mixer.init_state(rows, like)
            return state
        states = like.new_zeros(rows, 0, like.shape[-1])
        return None if self.self_attention is None else self.self_attention.make_memory(states)

    def make_memory(self, states: Tensor, chunk: SequenceChunk) -> LayerMemory:
        """What the layer keeps after a chunk (b, t, hidden_size) that starts the sequence."""
        if self.self_residual is None:
            return None
        inputs = self.self_residual.pre(states)
        if self.self_attention is not None:
            return _append_chunk(self.self_attention, None, inputs, chunk)
        return self._mix(inputs, None, chunk, False)[1]

    def forward(
        self,
        states: Tensor,
        memory: LayerMemory,
        source: Memory | None,
        chunk: SequenceChunk,
        site: Site | None = None,
    ) -> tuple[Tensor, LayerMemory, Tensor | None]:
        """Send a chunk (b, t, hidden_size) through the layer.

        Args:
            states: the chunk.
            memory: what the layer keeps of earlier positions; None if the chunk starts the sequence.
            source: as cross-attention reads it; None without.
            chunk: where the chunk is.
            site: the attention whose weights to return.

        Returns:
            the next layer's states, the memory with the chunk, and the weights (b, h, t, m) of the site.
        """
        weights = None
        if self.self_residual is not None:
            mixed, memory, weights = self._mix(self.self_residual.pre(states), memory, chunk, site == "self")
            states = self.self_residual.post(states, mixed)
        if self.cross_attention is not None and self.cross_residual is not None:
            assert source is not None
            queries, needs_weights = self.cross_residual.pre(states), site == "cross"
            attention = self.cross_attention(queries, source, steps=chunk.steps, need_weights=needs_weights)
            states = self.cross_residual.post(states, attention.context)
            weights = attention.weights if needs_weights else weights
        if self.feed_forward is not None and self.feed_forward_residual is not None:
            outputs = self.feed_forward(self.feed_forward_residual.pre(states))
            states = self.feed_forward_residual.post(states, outputs)
        return states, memory, weights

    def _mix(
        self, inputs: Tensor, memory: LayerMemory, chunk: SequenceChunk, need_weights: bool
    ) -> tuple[Tensor, LayerMemory, Tensor | None]:
        """What each position reads of earlier ones (b, t, hidden_size), the memory with the chunk, and the weights."""
        if self.mixer is not None:
            mixed, state = self.mixer(inputs, chunk.mask, memory)
            return mixed, state, None
        assert self.self_attention is not None
        joined = _append_chunk(self.self_attention, cast("Memory | None", memory), inputs, chunk)
        is_causal = not chunk.is_bidirectional and inputs.shape[1] > 1  # a single position is the last one
        attention = self.self_attention(
            inputs,
            joined._replace(is_causal=is_causal),
            steps=chunk.steps,
            need_weights=need_weights,
            rotation=chunk.rotation,
        )
        return attention.context, joined, attention.weights


def _append_chunk(attention: LayerAttention, memory: Memory | None, inputs: Tensor, chunk: SequenceChunk) -> Memory:
    positions = attention.make_memory(inputs, chunk.mask, rotation=chunk.rotation)
    return positions if memory is None else append_positions(memory, positions)


class TransformerStack(nn.Module):
    """Layers on top of each other, lowest first, and a final normalization, which ``norm=pre`` needs."""

    def __init__(self, layers: Iterable[TransformerLayer], norm: nn.Module) -> None:
        super().__init__()
        self.layers: Sequence[TransformerLayer] = nn.ModuleList(layers)  # type: ignore[assignment]
        self.norm = norm

    def forward(
        self,
        states: Tensor,
        chunk: SequenceChunk,
        self_memories: Sequence[LayerMemory] = (),
        cross_memories: Sequence[Memory] = (),
        site: Site | None = None,
    ) -> StackOutput:
        """Send a chunk (b, t, hidden_size) through the layers.

        ``self_memories`` and ``cross_memories`` have one entry per layer: what it keeps of earlier positions, and the
        source as cross-attention reads it; none if left out. ``site`` is the one whose weights to return.
        """
        updated: list[LayerMemory] = []
        weights: list[Tensor] = []
        for index, layer in enumerate(self.layers):
            earlier = self_memories[index] if self_memories else None
            source = cross_memories[index] if cross_memories else None
            states, memory, layer_weights = layer(states, earlier, source, chunk, site)
            updated.append(memory)
            weights += [] if layer_weights is None else [layer_weights]
        return StackOutput(self.norm(states), tuple(updated), weights)

    def make_memory(self, states: Tensor, chunk: SequenceChunk) -> tuple[LayerMemory, ...]:
        """What each layer keeps after a chunk (b, t, hidden_size) that starts the sequence."""
        memories = []
        for layer in self.layers[:-1]:
            states, memory, _ = layer(states, None, None, chunk)
            memories.append(memory)
        return (*memories, self.layers[-1].make_memory(states, chunk))  # whose output is not needed
