"""The parts that a sequence-to-sequence model is built from, with the one that puts its states into the memory."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from attnx.attention import Query
from attnx.attention.factory import ComposedAttention
from attnx.attention.no_attention import NoAttention
from attnx.nn.contracts import Bridge, Decoder, OutputLayer, Readout
from attnx.nn.position_encoding import POSITIONS
from attnx.nn.source_encoder import SourceEncoder


class DecoderStateProjection(nn.Module):
    """Give the decoder's states, which attention may read beside the encoder's, the widths that the memory has.

    ``keys`` are ``one_hot`` or ``sinusoidal`` positions, or anything else for the states.
    """

    def __init__(self, state_size: int, keys_size: int, values_size: int, keys: str) -> None:
        super().__init__()
        self.positions, self.keys_size = POSITIONS.get(keys), keys_size
        # One map where keys and values have one width: as with the encoder's states, they are then the same.
        self.shared = self.positions is None and keys_size == values_size
        self.values = _fit(state_size, values_size)
        self.keys = _fit(state_size, keys_size) if self.positions is None and not self.shared else nn.Identity()

    def forward(self, states: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
        """(b, t, state_size) and their steps, (t,) or (b, t) -> keys (b, t, keys_size), values (b, t, values_size)."""
        values = self.values(states)
        if self.positions is not None:
            keys = self.positions(steps, self.keys_size).to(states.dtype)
            return keys.expand(*states.shape[:2], -1), values
        return (values if self.shared else self.keys(states)), values


def _fit(size: int, target_size: int) -> nn.Module:
    return nn.Identity() if size == target_size else nn.Linear(size, target_size, bias=False)


@dataclass(frozen=True, eq=False)
class Seq2seqParts:
    """The parts of a :class:`Seq2seq`."""

    embedding: nn.Module  # the target's steps to vectors
    bridge: Bridge  # the decoder's first state
    query: Query  # what attention is queried with
    attention: ComposedAttention | NoAttention  # attends to the memory
    decoder: Decoder  # the recurrence
    readout: Readout  # joins state, context and token
    output: OutputLayer  # from the readout to logits
    source_encoder: SourceEncoder | None = None  # embeds and encodes the source; None if the model has no source
    # projects decoder states into the memory; None if the memory holds none
    state_projection: DecoderStateProjection | None = None
    tag_embedding: nn.Embedding | None = None  # the rows' tags to vectors; None if neither uses them
    encoder_tags: bool = False  # the embedded tag enters the encoder
    decoder_tags: bool = False  # the embedded tag enters the decoder
