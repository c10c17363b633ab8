"""The options of a transformer: sizes, and the parts of its attention."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from attnx import registry
from attnx.attention.options import AttentionOptions
from attnx.models.resolve import scope_sources
from attnx.models.transformer.layer_choices import LayerChoice
from attnx.registry import PartSpec


@dataclass(frozen=True)
class AttentionSite:
    """The parts of a layer's self-attention, or of its cross-attention, by name, or by name and options."""

    scorer: PartSpec = "scaled"
    scope: PartSpec = "global"
    normalizer: PartSpec = "softmax"
    bias: PartSpec | None = None  # by position; as in ``TransformerOptions.attention`` if left out

    def __str__(self) -> str:
        parts = {"scorer": self.scorer, "scope": self.scope, "normalizer": self.normalizer, "bias": self.bias}
        return " + ".join(registry.parse_spec(kind, part)[0] for kind, part in parts.items() if part is not None)

    @property
    def is_causal(self) -> bool:
        """Whether the scope is over the past alone, so that an encoder is causal too."""
        name, options = registry.parse_spec("scope", self.scope)
        return scope_sources({"name": name, **options}) == ["decoder"]


@dataclass(frozen=True)
class TransformerOptions:
    """What all layers of a transformer share."""

    hidden_size: int = 256  # width of embeddings and states
    heads: int = 4  # of every attention; they divide ``hidden_size``
    # width inside the feed-forward layers, 0 for layers without; 4 * ``hidden_size``, gated 8/3, if left out
    feedforward_size: int | None = None
    activation: Literal["relu", "gelu", "silu"] = "relu"  # of the feed-forward layers
    gated: bool = False  # whether feed-forward layers multiply their activations by a third linear map
    linear_bias: bool = True  # whether feed-forward layers and the output layer have biases; attention has none
    norm: Literal["pre", "post"] = "pre"  # normalize before each sublayer (``pre``) or after each sum (``post``)
    norm_type: Literal["layer", "rms"] = "layer"  # by mean and variance, or by the root of the mean square
    # ``sinusoidal`` or ``learned`` vectors are added to the embeddings; ``rotary`` rotates the queries and keys of
    # self-attention; ``none`` leaves positions to a bias, or to the scope
    position_encoding: Literal["sinusoidal", "learned", "rotary", "none"] = "sinusoidal"
    max_positions: int = 512  # number of ``learned`` positions; later ones share the last
    rotary_base: float = 10_000.0  # of the angles of ``rotary``
    # whether positions of a source that the decoder reads attend to later ones, too
    prefix: Literal["bidirectional", "causal"] = "bidirectional"
    dropout: float = 0.1  # share of the embeddings and of each sublayer's outputs dropped while training
    # the streams to whose embeddings the row's tag is added, ``encoder`` or ``decoder`` or both
    tag_inputs: tuple[str, ...] = ()
    self_attention: AttentionSite = AttentionSite()  # the parts of self-attention
    cross_attention: AttentionSite | None = None  # the parts of cross-attention; those of self-attention if left out
    # what each layer's self-attention is, or the mixer in its place; repeated if there are more layers
    layer_choices: tuple[LayerChoice, ...] = (LayerChoice("attention", "standard"),)
    attention: AttentionOptions = field(default_factory=AttentionOptions)  # those of every head
