"""Builds what a transformer is made of, from its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from torch import nn

from attnx.attention.factory import several
from attnx.data.special_tokens import PAD
from attnx.models.transformer.config import AttentionSite
from attnx.models.transformer.layer import TransformerLayer, TransformerStack
from attnx.nn.feed_forward import FeedForward
from attnx.nn.position_encoding import PositionEncoding

Config = Mapping[str, Any]
LONGEST = 512
Vectors = TypeVar("Vectors", nn.Embedding, nn.Linear, nn.Embedding | nn.Linear)


def layers_of(config: Config, own: AttentionSite, cross: AttentionSite | None, count: int) -> TransformerStack:
    """So many layers that attend to their stream, and to a source if there is a ``cross``."""
    model, knobs = config["model"], config["attention"]
    width, norm = model["hidden_size"], model["norm"]

    def heads(site: AttentionSite) -> Any:
        return several(site.scorer, site.scope, site.normalizer, (width, width, width), knobs)

    layers = [
        TransformerLayer(
            own=heads(own),
            cross=None if cross is None else heads(cross),
            feed_forward=FeedForward(width, model["feedforward_size"] or 4 * width, model["activation"]),
            width=width,
            norm=norm,
            dropout=model["dropout"],
        )
        for _ in range(count)
    ]
    return TransformerStack(layers, width, norm)


def places_of(config: Config) -> PositionEncoding:
    """A stream's positions."""
    model = config["model"]
    head = model["hidden_size"] // config["attention"]["heads"]
    return PositionEncoding(model["hidden_size"], model["position_encoding"], model["max_positions"] or LONGEST, head)


def vectors_of(embedding: Vectors) -> Vectors:
    """Start an embedding of symbols so that, times the root of its width, its units vary by 1."""
    if isinstance(embedding, nn.Embedding):
        nn.init.normal_(embedding.weight, std=embedding.embedding_dim**-0.5)
        nn.init.zeros_(embedding.weight[PAD])
    return embedding
