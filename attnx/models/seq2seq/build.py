"""Build a sequence-to-sequence model from a configuration: ``model=seq2seq``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from torch import nn

from attnx import registry
from attnx.attention import Query
from attnx.attention.factory import ComposedAttention, build_attention
from attnx.attention.no_attention import NoAttention
from attnx.errors import UserError
from attnx.models.resolve import check_tied_embeddings, part_declarations, require_tags
from attnx.models.seq2seq.config import ResolvedSeq2seqConfig, resolve_seq2seq
from attnx.models.seq2seq.model import Seq2seq
from attnx.models.seq2seq.parts import Seq2seqParts
from attnx.nn.bridges import BRIDGES
from attnx.nn.contracts import TargetSpec
from attnx.nn.decoder_memory import DecoderStateProjection
from attnx.nn.position_encoding import POSITIONS
from attnx.nn.source_encoder import SourceEncoder
from attnx.nn.targets.build import build_target, source_spec
from attnx.registry import Probability, Size, Width, register


@register(
    "model",
    "seq2seq",
    resolver=".config.resolve_seq2seq",
    read_if={"position_dim": "keys_from=one_hot|sinusoidal", "tag_dim": "tag_inputs!=null"},
)
def build_seq2seq(
    config: Mapping[str, Any],
    source_symbols: Size,
    source_features: Size,
    target_symbols: Size,
    target_features: Size,
    tags: Size,
    embedding_dim: Width = 64,
    feed: Literal["now", "next", "none"] | None = None,
    keys_from: str = "states",
    values_from: str | None = None,
    position_dim: Width = 64,
    bridge: Literal["last", "zeros", "learned"] | None = None,
    tag_inputs: list[Literal["encoder", "decoder"]] | None = None,
    tag_dim: Width = 20,
    tie_embeddings: bool = False,
    dropout: Probability = 0.0,
    schedule: Literal["auto", "run_then_attend", "attend_then_run", "step_by_step"] = "auto",
    scheduled_sampling: Probability = 0.0,
    source_vectors: str | None = None,
    target_vectors: str | None = None,
) -> Seq2seq:
    """An encoder-decoder with attention.

    Formula: ``p(y_t | y_<t, x) = softmax(O r_t), r_t = readout(h_t, c_t, e(y_{t-1}))``, or of numbers ``y_t = O r_t``
    Source: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473; Luong et al. 2015, https://arxiv.org/abs/1508.04025

    ``feed`` says when the context reaches the recurrence: ``now`` at the same step, ``next`` (the readout) at the next
    one, ``none`` never; left unset it follows from the query. ``keys_from`` and ``values_from`` are ``states``,
    ``inputs`` (the embeddings; if both are, there is no encoder) or ``layer:N``; values default to the keys.
    ``keys_from`` may also be ``one_hot`` or ``sinusoidal``: then keys are positions, of width ``position_dim``.
    ``bridge`` defaults to ``last``, or ``learned`` without an encoder. ``tag_inputs`` names the parts whose inputs have
    the embedded tag of the row (its language), of width ``tag_dim``, at every step. ``schedule`` is the order of
    recurrence and attention, ``auto`` the first that the planner admits. ``scheduled_sampling`` is the probability,
    reached by a linear rise over training, to feed the model's own output back. ``source_vectors`` and
    ``target_vectors`` are files of pretrained embeddings.
    """
    sizes = {"embedding_dim": embedding_dim, "position_dim": position_dim, "tag_dim": tag_dim}
    memory = {"keys_from": keys_from, "values_from": values_from, "bridge": bridge, "feed": feed}
    inputs = {"tag_inputs": tag_inputs, "source_vectors": source_vectors, "target_vectors": target_vectors}
    training = {"dropout": dropout, "schedule": schedule, "scheduled_sampling": scheduled_sampling}
    config = {**config, "model": {**sizes, **memory, **inputs, **training, "tie_embeddings": tie_embeddings}}
    resolved = resolve_seq2seq(config)
    if resolved.needs_tags:
        require_tags(tags, "model.tag_inputs" if tag_inputs else "query=language_tag")
    check_tied_embeddings(tie_embeddings, target_features)
    if (source_features or target_features) and part_declarations(config, "output").get("needs_weights"):
        side = "source" if source_features else "target"
        raise UserError(f"output=copy copies symbols, but the {side} is made of features; use output=linear")
    source = _build_source(config, resolved, source_symbols, source_features)
    target = build_target(config.get("task", {}), target_symbols, target_features)
    parts = build_parts(config, resolved, source, target, tags)
    return Seq2seq(parts, target, resolved.plan, resolved.sources, resolved.visible_state_offset, dropout)


def _build_source(
    config: Mapping[str, Any], resolved: ResolvedSeq2seqConfig, symbols: int, features: int
) -> SourceEncoder | None:
    """Build the source encoder with the layers that are used; None if the source is not read."""
    model, encoder = config["model"], None
    size = model["embedding_dim"]
    embedding = source_spec(symbols, features).embedding(size)
    if not resolved.encoder_layers and "encoder" not in resolved.sources:
        return None
    if resolved.encoder_layers:
        layers = {"layers": resolved.encoder_layers} if "layers" in config["encoder"] else {}
        tag_size = model["tag_dim"] if "encoder" in (model["tag_inputs"] or []) else 0
        encoder = registry.build("encoder", {**config["encoder"], **layers}, input_size=size + tag_size)
    return SourceEncoder(
        embedding, encoder, size, resolved.keys_from, resolved.values_from, model["position_dim"], model["dropout"]
    )


def build_parts(
    config: Mapping[str, Any],
    resolved: ResolvedSeq2seqConfig,
    source: SourceEncoder | None,
    target: TargetSpec,
    tags: int,
    embedding: nn.Module | None = None,
) -> Seq2seqParts:
    """Build the parts around a source encoder; at equal seeds their order decides their initial weights."""
    model, state_size = config["model"], config["decoder"]["hidden_size"]
    tag_inputs, token_size = model["tag_inputs"] or [], model["embedding_dim"]
    keys_size, values_size = model["position_dim"] if resolved.keys_from in POSITIONS else state_size, state_size
    if source is not None and "encoder" in resolved.sources:
        keys_size, values_size = source.keys_size, source.values_size
    sizes = {"state_size": state_size, "token_size": token_size, "context_size": values_size}
    # The readout is built before the decoder: with feed=next its output is an input of the decoder.
    width = {"hidden_size": token_size} if model["tie_embeddings"] else {}
    readout = registry.build("readout", {**config["readout"], **width}, **sizes)
    feed_size = {"now": values_size, "next": readout.size, "none": 0}[resolved.plan.feed]
    tag_size = model["tag_dim"] if "decoder" in tag_inputs else 0
    decoder = registry.build("decoder", config["decoder"], input_size=token_size + tag_size + feed_size)
    embedding = target.embedding(token_size) if embedding is None else embedding
    tag_embedding = nn.Embedding(tags, model["tag_dim"]) if tag_inputs else None
    bridge = BRIDGES[resolved.bridge](decoder, 0 if source is None else source.final_size)
    query, attention = build_query_and_attention(config, {**sizes, "tags": tags}, keys_size)
    projection = None
    if "decoder" in resolved.sources:
        projection = DecoderStateProjection(state_size, keys_size, values_size, resolved.keys_from)
    tied = embedding.weight if model["tie_embeddings"] else None
    output_sizes = {**sizes, "size": readout.size, "width": target.width}
    output = registry.build("output", config.get("output", "linear"), tied=tied, **output_sizes)
    return Seq2seqParts(
        embedding=embedding, bridge=bridge, query=query, attention=attention, decoder=decoder, readout=readout,
        output=output, source_encoder=source, state_projection=projection, tag_embedding=tag_embedding,
        encoder_tags="encoder" in tag_inputs, decoder_tags="decoder" in tag_inputs)  # fmt: skip


def build_query_and_attention(
    config: Mapping[str, Any], sizes: Mapping[str, int], keys_size: int
) -> tuple[Query, ComposedAttention | NoAttention]:
    """Build the query from inputs of these sizes, and attention to a memory; its values have the context's size."""
    if config["attention"]["name"] == "none":
        return Query([]), registry.build("attention", "none")
    query = Query(registry.build("query", choice, **sizes) for choice in config["query"].items())
    widths = query.size, keys_size, sizes["context_size"]
    return query, build_attention(config["scorer"], config["scope"], config["normalizer"], widths, config["attention"])
