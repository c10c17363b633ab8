"""The source encoder: embeds and encodes the source, and returns keys, values and the final state."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.data.vocabulary import SEP, STOP
from attnx.nn.contracts import Encoder, EncoderOutput, PairEncoder, SentenceEncoder
from attnx.nn.position_encoding import POSITIONS
from attnx.nn.recurrent import State, concat
from attnx.nn.spans import Spans

# What an encoder declares, and the argument in which it is passed where a symbol is.
MARKS = (("needs_sentences", "sentence_ends", STOP), ("needs_pairs", "separator_mask", SEP))


class EncodedSource(NamedTuple):
    """A batch of sources, encoded."""

    keys: Tensor  # (b, m, keys_size), what queries are compared with
    values: Tensor  # (b, m, values_size), what contexts are made of
    source_mask: Tensor  # (b, m) bool, which positions are there
    final: State  # the encoder's state after each layer; empty without an encoder
    spans: Spans | None = None  # which position stands for each step, unless each step has one


def zero_feature_padding(source: Tensor, source_mask: Tensor) -> Tensor:
    """Symbols (b, s) as they are; features (b, s, f), whose padding may be NaN, with zeros where the mask is False."""
    return source.masked_fill(~source_mask[..., None], 0.0) if source.is_floating_point() else source


class SourceEncoder(nn.Module):
    """Embed and encode the source.

    Args:
        embedding: symbols, or whatever the source's steps are, to vectors.
        encoder: vectors to states, or None to remember the embeddings themselves.
        embedding_size: width of the embeddings.
        keys_from: what the keys are: ``states``, ``inputs`` (the embeddings), ``layer:N``, ``one_hot`` or
            ``sinusoidal`` positions, or ``final`` (one position).
        values_from: what the values are, likewise.
        positions: width of the vectors of positions.
        dropout: share of the embeddings' units dropped while training.
    """

    def __init__(
        self,
        embedding: nn.Module,
        encoder: Encoder | SentenceEncoder | PairEncoder | None,
        embedding_size: int,
        keys_from: str,
        values_from: str,
        positions: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.embedding, self.encoder = embedding, encoder
        self.keys_from, self.values_from, self.dropout = keys_from, values_from, dropout
        self.final_size = 0 if encoder is None else encoder.size
        sizes = {"inputs": embedding_size, "one_hot": positions, "sinusoidal": positions}
        self.keys_size, self.values_size = (sizes.get(pick, self.final_size) for pick in (keys_from, values_from))

    def forward(
        self,
        source: Tensor,
        source_mask: Tensor,
        tag_embedding: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> EncodedSource:
        """Encode (b, s) symbols or (b, s, features), with their mask (b, s) bool.

        ``tag_embedding`` (b, g) enters the encoder at every step. ``lengths`` (b,) of the sources are on the CPU.
        """
        inputs = self.embedding(zero_feature_padding(source, source_mask))
        inputs = F.dropout(inputs, self.dropout, self.training)
        encoded = EncoderOutput([], ())
        if self.encoder is not None:
            tags = [] if tag_embedding is None else [tag_embedding[:, None].expand(-1, inputs.shape[1], -1)]
            marks = {name: source == symbol for flag, name, symbol in MARKS if getattr(self.encoder, flag, False)}
            encoded = self.encoder(concat([inputs, *tags]), source_mask, lengths, **marks)
        keys = self._pick(self.keys_from, inputs, encoded)
        spans = encoded.spans if self.keys_from == "states" else None
        if self.keys_from == "final":
            source_mask = torch.ones_like(source_mask[:, :1])
        elif spans is not None:
            source_mask = spans.mask
        values = keys if self.values_from == self.keys_from else self._pick(self.values_from, inputs, encoded)
        return EncodedSource(keys, values, source_mask, encoded.final, spans)

    def _pick(self, what: str, inputs: Tensor, encoded: EncoderOutput) -> Tensor:
        if what in POSITIONS:
            steps = torch.arange(inputs.shape[1], device=inputs.device)
            return POSITIONS[what](steps, self.keys_size).to(inputs.dtype).expand(inputs.shape[0], -1, -1)
        if what == "inputs":
            return inputs
        if what == "final":
            return encoded.final[-1][0][:, None]
        return encoded.layers[-1 if what == "states" else int(what.removeprefix("layer:"))]
