"""The parts that a sequence-to-sequence model is built from."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from attnx.attention import Query
from attnx.attention.factory import ComposedAttention
from attnx.attention.no_attention import NoAttention
from attnx.nn.contracts import Bridge, Decoder, OutputLayer, Readout
from attnx.nn.decoder_memory import DecoderStateProjection
from attnx.nn.source_encoder import SourceEncoder


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
