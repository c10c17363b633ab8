"""The parts that a sequence-to-sequence model is built from."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from attnx.attention import Query
from attnx.attention.contracts import AttentionModule
from attnx.nn.bridges import Bridge
from attnx.nn.decoder_memory import DecoderStateProjection
from attnx.nn.decoders.contract import Decoder
from attnx.nn.outputs.contract import OutputLayer
from attnx.nn.readouts.contract import Readout
from attnx.nn.source_encoder import SourceEncoder


@dataclass(frozen=True, eq=False)
class Seq2seqParts:
    """The parts of a :class:`Seq2seq`.

    Attributes:
        embedding: the target's steps to vectors.
        bridge: the decoder's first state.
        query: what attention is queried with.
        attention: attends to the memory.
        decoder: the recurrence.
        readout: joins state, context and token.
        output: from the readout to logits.
        source: embeds and encodes the source; None if the model has no source.
        state_projection: projects decoder states into the memory; None if the memory holds none.
        encoder_tags: the embedded tag enters the encoder.
        decoder_tags: the embedded tag enters the decoder.
        tag_embedding: the rows' tags to vectors; None if neither uses them.
    """

    embedding: nn.Module
    bridge: Bridge
    query: Query
    attention: AttentionModule
    decoder: Decoder
    readout: Readout
    output: OutputLayer
    source: SourceEncoder | None = None
    state_projection: DecoderStateProjection | None = None
    tag_embedding: nn.Embedding | None = None
    encoder_tags: bool = False
    decoder_tags: bool = False
