"""The options of a transformer: sizes, and the parts of its attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from attnx import registry
from attnx.models.resolve import scope_sources
from attnx.registry import PartSpec


@dataclass(frozen=True)
class AttentionSite:
    """The parts of a layer's self-attention, or of its cross-attention, by name, or by name and options."""

    scorer: PartSpec = "scaled"
    scope: PartSpec = "global"
    normalizer: PartSpec = "softmax"

    def __str__(self) -> str:
        parts = {"scorer": self.scorer, "scope": self.scope, "normalizer": self.normalizer}
        return " + ".join(registry.parse_spec(kind, part)[0] for kind, part in parts.items())

    @property
    def is_causal(self) -> bool:
        """Whether the scope is over the past alone, so that an encoder is causal too."""
        name, knobs = registry.parse_spec("scope", self.scope)
        return scope_sources({"name": name, **knobs}) == ["decoder"]


@dataclass(frozen=True)
class TransformerOptions:
    """What all layers of a transformer share.

    Attributes:
        hidden_size: width of embeddings and states.
        heads: of every attention; they divide ``hidden_size``.
        feedforward_size: width inside the feed-forward layers; 4 * ``hidden_size`` if left out.
        activation: of the feed-forward layers.
        norm: normalize before each sublayer (``pre``) or after each sum (``post``).
        position_encoding: ``sinusoidal`` or ``learned`` vectors are added to the embeddings; ``rotary`` rotates the
            queries and keys of self-attention.
        max_positions: number of ``learned`` positions; later ones share the last.
        dropout: share of the embeddings and of each sublayer's outputs dropped while training.
        tag_inputs: the streams to whose embeddings the row's tag is added, ``encoder`` or ``decoder`` or both.
        self_attention: the parts of self-attention.
        cross_attention: the parts of cross-attention; those of self-attention if left out.
        attention: further options of :func:`attnx.attention.build`, such as ``dropout``.
    """

    hidden_size: int = 256
    heads: int = 4
    feedforward_size: int | None = None
    activation: Literal["relu", "gelu", "silu"] = "relu"
    norm: Literal["pre", "post"] = "pre"
    position_encoding: Literal["sinusoidal", "learned", "rotary"] = "sinusoidal"
    max_positions: int = 512
    dropout: float = 0.1
    tag_inputs: tuple[str, ...] = ()
    self_attention: AttentionSite = AttentionSite()
    cross_attention: AttentionSite | None = None
    attention: Mapping[str, Any] = field(default_factory=dict)
