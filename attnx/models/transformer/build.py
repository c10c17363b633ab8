"""Build a transformer from a configuration: ``model=transformer``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attnx.attention.options import AttentionOptions
from attnx.models.resolve import check_tied_embeddings, require_tags
from attnx.models.transformer.config import resolve_transformer
from attnx.models.transformer.model import DEFAULT_OPTIONS, Transformer
from attnx.models.transformer.options import TransformerOptions
from attnx.nn.targets.build import build_target, source_spec
from attnx.registry import Depth, PartSpec, PositiveInt, Probability, Size, Width, register


@register(
    "model",
    "transformer",
    resolver=".config.resolve_transformer",
    uses=("attention", "scorer", "scope", "query", "normalizer"),
    read_if={
        "encoder_layers": "form=encoder_decoder",
        "cross_scorer": "form=encoder_decoder",
        "cross_scope": "form=encoder_decoder",
        "cross_normalizer": "form=encoder_decoder",
        "cross_bias": "form=encoder_decoder",
        "max_positions": "position_encoding=learned",
    },
)
def build_transformer(
    config: Mapping[str, Any],
    source_symbols: Size,
    source_features: Size,
    target_symbols: Size,
    target_features: Size,
    tags: Size,
    form: Literal["encoder_decoder", "decoder_only"] = "encoder_decoder",
    hidden_size: Width = 256,
    layers: Depth = 3,
    encoder_layers: Depth | None = None,
    feedforward_size: Width | None = None,
    activation: Literal["relu", "gelu", "silu"] = "relu",
    norm: Literal["pre", "post"] = "pre",
    position_encoding: Literal["sinusoidal", "learned", "rotary", "none"] = "sinusoidal",
    max_positions: PositiveInt | None = None,
    self_scorer: PartSpec | None = None,
    cross_scorer: PartSpec | None = None,
    self_scope: PartSpec | None = None,
    cross_scope: PartSpec | None = None,
    self_normalizer: PartSpec | None = None,
    cross_normalizer: PartSpec | None = None,
    self_bias: PartSpec | None = None,
    cross_bias: PartSpec | None = None,
    tag_inputs: list[Literal["encoder", "decoder"]] | None = None,
    tie_embeddings: bool = False,
    dropout: Probability = 0.1,
) -> Transformer:
    """Layers of attention and feed-forward maps: an encoder and a decoder that reads it, or a decoder alone.

    Formula: ``p(y_t | y_<t, x) = softmax(O h_t), h = layers(e(y_<t) sqrt(d) + positions; layers(e(x) sqrt(d) +
        positions))``, or of numbers ``y_t = O h_t``
    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; decoder only, Liu et al. 2018,
        https://arxiv.org/abs/1801.10198

    ``form=decoder_only`` reads the source, a separator (BOS) and the target as one sequence; positions of the source
    attend to each other in both directions, with ``scope=history`` only to earlier ones. The decoder has ``layers``,
    the encoder ``encoder_layers`` or as many. ``feedforward_size`` defaults to 4 * ``hidden_size``. ``norm=pre``
    normalizes before each sublayer, ``post`` after each sum. ``position_encoding`` is added to the embeddings, or
    (``rotary``) rotates the queries and keys of self-attention, or there is ``none``; ``max_positions`` is the number
    of ``learned`` ones (512). ``self_scorer``, ``cross_scorer`` and the like choose a part for self- or cross-attention
    alone, by name or as ``{name: local, window: 5}``. ``tag_inputs`` names the streams to whose embeddings the row's
    tag (its language) is added. ``tie_embeddings`` makes the target embedding the weight of the output layer.
    """
    node: dict[str, Any] = {"form": form, "layers": layers, "encoder_layers": encoder_layers}
    node |= {"hidden_size": hidden_size, "position_encoding": position_encoding, "max_positions": max_positions}
    self_parts = {"self_scorer": self_scorer, "self_scope": self_scope, "self_normalizer": self_normalizer}
    cross_parts = {"cross_scorer": cross_scorer, "cross_scope": cross_scope, "cross_normalizer": cross_normalizer}
    biases = {"self_bias": self_bias, "cross_bias": cross_bias}
    node |= {**self_parts, **cross_parts, **biases, "tag_inputs": tag_inputs}
    resolved = resolve_transformer({**config, "model": node})
    if tag_inputs:
        require_tags(tags, "model.tag_inputs")
    check_tied_embeddings(tie_embeddings, target_features)
    options = TransformerOptions(
        hidden_size=hidden_size,
        position_encoding=position_encoding,
        heads=resolved.heads,
        feedforward_size=feedforward_size,
        activation=activation,
        norm=norm,
        max_positions=max_positions or DEFAULT_OPTIONS.max_positions,
        dropout=dropout,
        tag_inputs=tuple(tag_inputs or ()),
        self_attention=resolved.self_attention,
        cross_attention=resolved.cross_attention,
        attention=AttentionOptions(
            **{option: config["attention"][option] for option in ("dropout", "bias", "chunk_mib")}
        ),
    )
    source = source_spec(source_symbols, source_features)
    target = build_target(config.get("task", {}), target_symbols, target_features)
    has_source = "encoder" in resolved.sources
    encoder_layers = resolved.encoder_layers
    return Transformer(source if has_source else None, target, layers, encoder_layers, tags, tie_embeddings, options)
