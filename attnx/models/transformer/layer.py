"""Layers of a transformer: a stream reads itself, and perhaps a source, all of a stretch at once or step by step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnx.attention import Memory
from attnx.attention.heads import MultiHeadAttention
from attnx.attention.memory import append_positions, hide_future
from attnx.models.state_ops import fold_beams_into_queries, unfold_beams
from attnx.nn.feed_forward import FeedForward
from attnx.nn.residual import Norm, Residual


class SequenceChunk(NamedTuple):
    """A piece of a stream that goes through the layers together.

    Attributes:
        at: (t,) or (b, t) int64, the steps of its positions, as scopes count them.
        turn: how queries and keys are turned, from :meth:`attnx.nn.position_encoding.PositionEncoding.rotary`; or None.
        present: (b, t) bool, which of them are real; None if all are.
        ahead: whether a position may read those behind it.
        shared: how many rows, which lie together, share a row of the source.
    """

    at: Tensor
    turn: Tensor | None
    present: Tensor | None = None
    ahead: bool = False
    shared: int = 1


class StackOutput(NamedTuple):
    """What came of a stretch.

    Attributes:
        states: (b, t, width).
        memories: of each layer, its past with the stretch appended.
        weights: of each layer (b, h, t, m) if asked for: over the source, or without one over the stream.
        own: of each layer (b, h, t, m) over the stream, if asked for.
    """

    states: Tensor
    memories: tuple[Memory, ...]
    weights: list[Tensor]
    own: list[Tensor]


class WeightsRequest(NamedTuple):
    """Which weights are wanted of a layer.

    Attributes:
        handed: those that the model hands out: over the source, or without one over the stream.
        own: those over the stream, whatever else is read.
    """

    handed: bool = False
    own: bool = False


NOTHING = WeightsRequest()


class TransformerLayer(nn.Module):
    """Attention to the own stream, perhaps attention to a source, and a feed-forward map.

    Formula: ``y = around(x, attend(x, x)), z = around(y, attend(y, source)), out = around(z, f(z))``
    Source: Vaswani et al. 2017, section 3.1, https://arxiv.org/abs/1706.03762

    Args:
        own: attends to the own stream.
        cross: attends to the source; None where there is none.
        feed_forward: f.
        width: of the stream.
        norm: before each part or after each sum.
        dropout: share of each part's units dropped while training.
    """

    def __init__(
        self,
        own: MultiHeadAttention,
        cross: MultiHeadAttention | None,
        feed_forward: FeedForward,
        width: int,
        norm: Norm,
        dropout: float,
    ) -> None:
        super().__init__()
        self.own, self.cross, self.feed_forward = own, cross, feed_forward
        parts = 2 if cross is None else 3
        self.around = nn.ModuleList(Residual(width, norm, dropout) for _ in range(parts))

    def remember(self, states: Tensor, past: Memory | None, stretch: SequenceChunk) -> Memory:
        """The past with these positions appended."""
        new = self.own.remember(self._around[0].pre(states), stretch.present, turn=stretch.turn)
        return new if past is None else append_positions(past, new)

    def forward(
        self,
        states: Tensor,
        memory: Memory,
        source: Memory | None,
        stretch: SequenceChunk,
        wanted: WeightsRequest = NOTHING,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """States (b, t, width) and a memory that holds them -> the states after, and both weights if wanted."""
        first, *between, last = self._around
        # One position alone may read all that is there; of several each may read what a loop would have made by then.
        hidden = not stretch.ahead and states.shape[1] > 1
        read = self.own(
            first.pre(states),
            hide_future(memory, stretch.at + 1) if hidden else memory,
            at=stretch.at,
            need_weights=wanted.own or (wanted.handed and source is None),
            turn=stretch.turn,
        )
        own = read.weights
        states = first.post(states, read.context)
        if self.cross is not None:
            (around,) = between
            at = stretch.at if stretch.shared == 1 else stretch.at.view(-1, stretch.shared)
            queries = fold_beams_into_queries(around.pre(states), stretch.shared)
            read = self.cross(queries, source, at=at, need_weights=wanted.handed)
            read = read if stretch.shared == 1 else unfold_beams(read)
            states = around.post(states, read.context)
        return last.post(states, self.feed_forward(last.pre(states))), read.weights, own

    @property
    def _around(self) -> list[Residual]:
        return list(self.around)  # type: ignore[arg-type]


class TransformerStack(nn.Module):
    """Layers on top of each other; with ``norm=pre`` the last one's states are normalized, too.

    Args:
        layers: lowest first.
        width: of the stream.
        norm: as of the layers.
    """

    def __init__(self, layers: Iterable[TransformerLayer], width: int, norm: Norm) -> None:
        super().__init__()
        self.each = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(width) if norm == "pre" else nn.Identity()

    @property
    def layers(self) -> list[TransformerLayer]:
        """The layers, lowest first."""
        return list(self.each)  # type: ignore[arg-type]

    def forward(
        self,
        states: Tensor,
        stretch: SequenceChunk,
        pasts: Sequence[Memory | None] | None = None,
        sources: Sequence[Memory] | None = None,
        wanted: WeightsRequest = NOTHING,
    ) -> StackOutput:
        """Send a stretch (b, t, width) through: each layer appends it to its past, and reads that and its source."""
        memories, weights, owns = [], [], []
        for number, layer in enumerate(self.layers):
            memory = layer.remember(states, pasts[number] if pasts else None, stretch)
            states, read, own = layer(states, memory, sources[number] if sources else None, stretch, wanted)
            memories.append(memory)
            weights += [] if read is None else [read]
            owns += [] if own is None else [own]
        return StackOutput(self.norm(states), tuple(memories), weights, owns)

    def remember(self, states: Tensor, stretch: SequenceChunk) -> tuple[Memory, ...]:
        """What each layer remembers of a stretch (b, t, width) that nothing comes before, and nothing more."""
        memories = []
        for layer in self.layers:
            memories.append(layer.remember(states, None, stretch))
            if layer is not self.layers[-1]:  # of whose states nothing is made
                states, *_ = layer(states, memories[-1], None, stretch)
        return tuple(memories)

    def nothing(self, rows: int, like: Tensor) -> tuple[Memory, ...]:
        """The memory of each layer before anything is in it."""
        return tuple(layer.own.remember(like.new_zeros(rows, 0, like.shape[-1])) for layer in self.layers)


def joined(weights: Sequence[Tensor]) -> Tensor | None:
    """Weights (b, h, t, m) of every layer -> (b, layers h, t, m); None if there are none."""
    return torch.cat(list(weights), dim=1) if weights else None
