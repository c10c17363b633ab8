"""Build a sequence-to-sequence model from its resolved configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from attnx import registry
from attnx.attention import Query
from attnx.attention.factory import ComposedAttention, build_attention
from attnx.errors import UserError
from attnx.models.resolve import DataSizes, check_tied_embeddings, part_declarations, require_tags
from attnx.models.seq2seq.checks import POSITIONS
from attnx.models.seq2seq.config import ResolvedSeq2seqConfig
from attnx.models.seq2seq.model import Seq2seq
from attnx.models.seq2seq.parts import DecoderStateProjection, Seq2seqParts
from attnx.nn.bridges import BRIDGES
from attnx.nn.contracts import TargetSpec
from attnx.nn.source_encoder import SourceEncoder
from attnx.nn.targets.build import build_target, step_spec


def build_seq2seq(resolved: ResolvedSeq2seqConfig, sizes: DataSizes) -> Seq2seq:
    """Build a model for data of these sizes; a UserError if the parts do not fit them."""
    options, config = resolved.options, resolved.config
    if resolved.needs_tags:
        require_tags(sizes.tags, "model.tag_inputs" if options.tag_inputs else "query=language_tag")
    check_tied_embeddings(options.tie_embeddings, sizes.target_features)
    if (sizes.source_features or sizes.target_features) and part_declarations(config, "output").get("needs_weights"):
        side = "source" if sizes.source_features else "target"
        raise UserError(f"output=copy copies symbols, but the {side} is made of features; use output=linear")
    source = _build_source(resolved, sizes)
    target = build_target(config.get("task", {}), sizes.target_symbols, sizes.target_features)
    parts = build_parts(resolved, source, target, sizes.tags)
    return Seq2seq(parts, target, resolved.plan, resolved.sources, resolved.visible_state_offset, options.dropout)


def _build_source(resolved: ResolvedSeq2seqConfig, sizes: DataSizes) -> SourceEncoder | None:
    """Build the source encoder with the layers that are used; None if the source is not read."""
    options, config, encoder = resolved.options, resolved.config, None
    size = options.embedding_dim
    embedding = step_spec(sizes.source_symbols, sizes.source_features).embedding(size)
    if not resolved.encoder_layers and "encoder" not in resolved.sources:
        return None
    if resolved.encoder_layers:
        layers = {"layers": resolved.encoder_layers} if "layers" in config["encoder"] else {}
        tag_size = options.tag_dim if "encoder" in (options.tag_inputs or []) else 0
        encoder = registry.build("encoder", {**config["encoder"], **layers}, input_size=size + tag_size)
    return SourceEncoder(
        embedding, encoder, size, resolved.keys_from, resolved.values_from, options.position_dim, options.dropout
    )


def build_parts(
    resolved: ResolvedSeq2seqConfig,
    source: SourceEncoder | None,
    target: TargetSpec,
    tags: int,
    embedding: nn.Module | None = None,
) -> Seq2seqParts:
    """Build the parts around a source encoder; at equal seeds their order decides their initial weights."""
    options, config = resolved.options, resolved.config
    tag_inputs, token_size = options.tag_inputs or [], options.embedding_dim
    state_size: int = config["decoder"]["hidden_size"]
    keys_size = options.position_dim if resolved.keys_from in POSITIONS else state_size
    values_size = state_size if resolved.sources else 0  # nothing is read
    if source is not None and "encoder" in resolved.sources:
        keys_size, values_size = source.keys_size, source.values_size
    sizes = {"state_size": state_size, "token_size": token_size, "context_size": values_size}
    # The readout is built before the decoder: with feed=next its output is an input of the decoder.
    width = {"hidden_size": token_size} if options.tie_embeddings else {}
    readout = registry.build("readout", {**config["readout"], **width}, **sizes)
    feed_size = {"now": values_size, "next": readout.size, "none": 0}[resolved.plan.feed]
    tag_size = options.tag_dim if "decoder" in tag_inputs else 0
    decoder = registry.build("decoder", config["decoder"], input_size=token_size + tag_size + feed_size)
    embedding = target.embedding(token_size) if embedding is None else embedding
    tag_embedding = nn.Embedding(tags, options.tag_dim) if tag_inputs else None
    bridge = BRIDGES[resolved.bridge](decoder, 0 if source is None else source.final_size)
    query, attention = Query([]), registry.build("attention", "none")
    if config["attention"]["name"] != "none":
        query, attention = build_query_and_attention(config, {**sizes, "tags": tags}, keys_size)
    projection = None
    if "decoder" in resolved.sources:
        projection = DecoderStateProjection(state_size, keys_size, values_size, resolved.keys_from)
    tied = embedding.weight if options.tie_embeddings else None
    output_sizes = {**sizes, "size": readout.size, "width": target.width}
    output = registry.build("output", config.get("output", "linear"), tied=tied, **output_sizes)
    return Seq2seqParts(
        embedding=embedding, bridge=bridge, query=query, attention=attention, decoder=decoder, readout=readout,
        output=output, source_encoder=source, state_projection=projection, tag_embedding=tag_embedding,
        encoder_tags="encoder" in tag_inputs, decoder_tags="decoder" in tag_inputs)  # fmt: skip


def build_query_and_attention(
    config: Mapping[str, Any], sizes: Mapping[str, int], keys_size: int
) -> tuple[Query, ComposedAttention]:
    """Build the query from inputs of these sizes, and attention to a memory; its values have the context's size."""
    query = Query(registry.build("query", choice, **sizes) for choice in config["query"].items())
    return query, build_attention(
        config["scorer"],
        config["scope"],
        config["normalizer"],
        query_size=query.size,
        memory_size=keys_size,
        values_size=sizes["context_size"],
        options=config["attention"],
    )
