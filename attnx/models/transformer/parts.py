"""The parts of a transformer's layers: what each attention is composed of, and what each layer holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attnx import registry
from attnx.models.resolve import scope_sources
from attnx.models.transformer.layer_choices import LayerChoice
from attnx.registry import PartSpec


@dataclass(frozen=True)
class AttentionSite:
    """The parts of a layer's self-attention, or of its cross-attention, by name, or by name and options."""

    scorer: PartSpec = "scaled"
    scope: PartSpec = "global"
    normalizer: PartSpec = "softmax"
    bias: PartSpec | None = None  # by position; that of ``TransformerParts.attention`` if left out

    def __str__(self) -> str:
        parts = {"scorer": self.scorer, "scope": self.scope, "normalizer": self.normalizer, "bias": self.bias}
        return " + ".join(registry.parse_spec(kind, part)[0] for kind, part in parts.items() if part is not None)

    @property
    def is_causal(self) -> bool:
        """Whether the scope is over the past alone, so that an encoder is causal too."""
        name, options = registry.parse_spec("scope", self.scope)
        return scope_sources({"name": name, **options}) == ["decoder"]


@dataclass(frozen=True)
class TransformerParts:
    """The parts of a transformer's layers, by name, or by name and options."""

    self_attention: AttentionSite = AttentionSite()  # the parts of self-attention
    cross_attention: AttentionSite | None = None  # the parts of cross-attention; those of self-attention if left out
    # what each layer's self-attention is, or the mixer in its place; repeated if there are more layers
    layer_choices: tuple[LayerChoice, ...] = (LayerChoice("attention", "standard"),)
    # the options of every attention, such as its ``heads``, which divide the model's width; each takes those it has
    attention: Mapping[str, Any] = field(default_factory=lambda: {"heads": 4})

    @property
    def heads(self) -> int:
        """The number of heads of every attention."""
        heads: int = self.attention.get("heads", 1)
        return heads
