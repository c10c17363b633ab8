"""Build a transformer from its resolved configuration."""

from __future__ import annotations

from attnx.attention.options import AttentionOptions
from attnx.models.resolve import DataSizes, check_tied_embeddings, require_tags
from attnx.models.transformer.config import ResolvedTransformerConfig
from attnx.models.transformer.model import DEFAULT_OPTIONS, Transformer
from attnx.models.transformer.options import TransformerOptions
from attnx.nn.targets.build import build_target, step_spec


def build_transformer(resolved: ResolvedTransformerConfig, sizes: DataSizes) -> Transformer:
    """Build a transformer for data of these sizes.

    Raises:
        UserError: the options do not fit the data.
    """
    options, attention = resolved.options, resolved.config["attention"]
    if options.tag_inputs:
        require_tags(sizes.tags, "model.tag_inputs")
    check_tied_embeddings(options.tie_embeddings, sizes.target_features)
    layer_options = TransformerOptions(
        hidden_size=options.hidden_size,
        position_encoding=options.position_encoding,
        heads=resolved.heads,
        feedforward_size=options.feedforward_size,
        activation=options.activation,
        gated=options.gated,
        linear_bias=options.linear_bias,
        norm=options.norm,
        norm_type=options.norm_type,
        max_positions=options.max_positions or DEFAULT_OPTIONS.max_positions,
        rotary_base=options.rotary_base,
        prefix=options.prefix,
        dropout=options.dropout,
        tag_inputs=tuple(options.tag_inputs or ()),
        self_attention=resolved.self_attention,
        cross_attention=resolved.cross_attention,
        layer_choices=resolved.layer_choices,
        attention=AttentionOptions.of(attention) if resolved.sites else AttentionOptions(),
    )
    return Transformer(
        step_spec(sizes.source_symbols, sizes.source_features) if "encoder" in resolved.sources else None,
        build_target(resolved.config.get("task", {}), sizes.target_symbols, sizes.target_features),
        options.layers,
        resolved.encoder_layers,
        sizes.tags,
        options.tie_embeddings,
        layer_options,
    )
