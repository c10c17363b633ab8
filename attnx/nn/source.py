"""The source side: symbols in, and out what may be remembered and where a decoder may start."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnx.nn.dropout import dropout_mask
from attnx.nn.encoded import Encoded
from attnx.nn.recurrent import State


class Sourced(NamedTuple):
    """A batch of sources, encoded.

    Attributes:
        keys: (b, m, keys_size), what queries are compared with.
        values: (b, m, values_size), what contexts are made of.
        present: (b, m) bool.
        final: the encoder's state after each layer; empty without an encoder.
    """

    keys: Tensor
    values: Tensor
    present: Tensor
    final: State


class Source(nn.Module):
    """Embed and encode the source.

    Args:
        embedding: symbols to vectors.
        encoder: vectors to states, or None to remember the embeddings themselves.
        memory: what the keys are: ``states``, ``inputs`` (the embeddings), ``layer:N`` or ``final`` (one position).
        values: what the values are, likewise.
        dropout: share of the embeddings' units dropped while training.
    """

    def __init__(self, embedding: nn.Embedding, encoder: Any, memory: str, values: str, dropout: float) -> None:
        super().__init__()
        self.embedding, self.encoder = embedding, encoder
        self.memory, self.values, self.dropout = memory, values, dropout
        self.final_size = 0 if encoder is None else int(encoder.size)
        self.keys_size, self.values_size = self._size(memory), self._size(values)

    def _size(self, pick: str) -> int:
        return self.embedding.embedding_dim if pick == "inputs" else self.final_size

    def forward(self, source: Tensor, present: Tensor) -> Sourced:
        """(b, s) symbols and (b, s) bool."""
        inputs = self.embedding(source)
        mask = dropout_mask(inputs, self.dropout, self.training, *inputs.shape)
        inputs = inputs if mask is None else inputs * mask
        encoded = Encoded([], ()) if self.encoder is None else self.encoder(inputs, present)
        keys = _pick(self.memory, inputs, encoded)
        if self.memory == "final":
            present = torch.ones_like(present[:, :1])
        values = keys if self.values == self.memory else _pick(self.values, inputs, encoded)
        return Sourced(keys, values, present, encoded.final)


def _pick(what: str, inputs: Tensor, encoded: Encoded) -> Tensor:
    if what == "inputs":
        return inputs
    if what == "final":
        return encoded.final[-1][0][:, None]
    return encoded.layers[-1 if what == "states" else int(what.removeprefix("layer:"))]
