"""The model ``seq2seq``: builds an encoder-decoder from the names of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from torch import nn

from attnx import registry
from attnx.attention import Query
from attnx.attention.factory import build_attention
from attnx.data.special_tokens import PAD
from attnx.errors import UserError
from attnx.models.resolve import check_tied_embeddings, part_declarations, require_tags
from attnx.models.seq2seq.config import ResolvedSeq2seqConfig, resolve
from attnx.models.seq2seq.model import Seq2seq
from attnx.models.seq2seq.parts import Seq2seqParts
from attnx.nn.bridges import BRIDGES
from attnx.nn.decoder_memory import DecoderStateProjection
from attnx.nn.position_encoding import POSITIONS
from attnx.nn.source_encoder import SourceEncoder
from attnx.nn.targets.build import build_target
from attnx.registry import Positive, Probability, Size, register


@register("model", "seq2seq", config_module="attnx.models.seq2seq.config")
def seq2seq(
    config: Mapping[str, Any],
    source_symbols: Size,
    source_features: Size,
    target_symbols: Size,
    target_features: Size,
    tags: Size,
    embedding_dim: Positive = 64,
    feed: Literal["now", "next", "none"] | None = None,
    keys_from: str = "states",
    values_from: str | None = None,
    position_dim: Positive = 64,
    bridge: Literal["last", "zeros", "learned"] | None = None,
    tag_inputs: list[Literal["encoder", "decoder"]] | None = None,
    tag_dim: Positive = 20,
    tie_embeddings: bool = False,
    dropout: Probability = 0.0,
    scheduled_sampling: Probability = 0.0,
    source_vectors: str | None = None,
    target_vectors: str | None = None,
) -> Seq2seq:
    """Compose an attentional encoder-decoder.

    Formula: ``p(y_t | y_<t, x) = softmax(O r_t), r_t = readout(h_t, c_t, e(y_{t-1}))``, or of numbers ``y_t = O r_t``
    Source: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473; Luong et al. 2015, https://arxiv.org/abs/1508.04025

    ``feed`` says when the context reaches the recurrence: ``now`` at the same step, ``next`` (the readout) at the next
    one, ``none`` never; left unset it follows from the query. ``keys_from`` and ``values_from`` are ``states``,
    ``inputs`` (the embeddings; if both are, there is no encoder) or ``layer:N``; values default to the memory.
    ``keys_from`` may also be ``one_hot`` or ``sinusoidal``: then keys are positions, of width ``position_dim``.
    ``bridge`` defaults to ``last``, or ``learned`` without an encoder. ``tag_inputs`` names whose inputs are told the
    row's tag (its language) at every step, by an embedding of width ``tag_dim`` beside each. ``scheduled_sampling`` is
    the chance, reached by a linear rise over training, to feed the model's own output back. ``source_vectors`` and
    ``target_vectors`` are files of pretrained embeddings.
    """
    resolved = resolve(config)
    if resolved.tagged:
        require_tags(tags, "model.tag_inputs" if tag_inputs else "query=language_tag")
    check_tied_embeddings(tie_embeddings, target_features)
    if (source_features or target_features) and part_declarations(config, "output").get("copies"):
        side = "source" if source_features else "target"
        raise UserError(f"output=copy copies symbols, but the {side} is made of features; use output=linear")
    tagged = tag_inputs or []
    inputs: nn.Module
    if source_features:
        inputs = nn.Linear(source_features, embedding_dim)
    else:
        inputs = nn.Embedding(source_symbols, embedding_dim, padding_idx=PAD)
    source = _source(config, resolved, inputs, tag_dim if "encoder" in tagged else 0)
    state = config["decoder"]["hidden_size"]
    if source is not None and "encoder" in resolved.sources:
        keys_size, values_size = source.keys_size, source.values_size
    else:
        keys_size, values_size = position_dim if resolved.memory in POSITIONS else state, state
    # `hidden` is every decoder's state width: the readout is built first because feed=next puts it into the decoder.
    widths = {"state_size": state, "token_size": embedding_dim, "context_size": values_size}
    shape = {"hidden_size": embedding_dim} if tie_embeddings else {}
    readout = registry.build("readout", {**config["readout"], **shape}, **widths)
    fed = {"now": values_size, "next": readout.size, "none": 0}[resolved.plan.feed]
    tag_width = tag_dim if "decoder" in tagged else 0
    decoder = registry.build("decoder", config["decoder"], input_size=embedding_dim + tag_width + fed)
    target = build_target(config.get("task", {}), target_symbols, target_features)
    target_embedding = target.embedding(embedding_dim)
    tag_embedding = nn.Embedding(tags, tag_dim) if tagged else None
    bridge_module = BRIDGES[resolved.bridge](decoder, 0 if source is None else source.final_size)
    query, attention = _attention(config, (keys_size, values_size), {**widths, "tags": tags})
    projects = "decoder" in resolved.sources
    projection = DecoderStateProjection(state, keys_size, values_size, resolved.memory) if projects else None
    weight = target_embedding.weight if tie_embeddings else None
    output = registry.build(
        "output", config.get("output", "linear"), size=readout.size, width=target.width, tied=weight, **widths
    )
    parts = Seq2seqParts(
        embedding=target_embedding,
        bridge=bridge_module,
        query=query,
        attention=attention,
        decoder=decoder,
        readout=readout,
        output=output,
        source=source,
        state_projection=projection,
        tag_embedding=tag_embedding,
        encoder_tags="encoder" in tagged,
        decoder_tags="decoder" in tagged,
    )
    return Seq2seq(parts, target, resolved.plan, resolved.sources, resolved.newest, dropout)


def _source(
    config: Mapping[str, Any], resolved: ResolvedSeq2seqConfig, inputs: nn.Module, tag_size: int
) -> SourceEncoder | None:
    """Build what reads the source, as far as anything reads it."""
    model = config["model"]
    if not resolved.encoder and "encoder" not in resolved.sources:
        return None
    layers = {"layers": resolved.encoder} if "layers" in config["encoder"] else {}
    size = model["embedding_dim"]
    return SourceEncoder(
        embedding=inputs,
        encoder=registry.build("encoder", {**config["encoder"], **layers}, input_size=size + tag_size)
        if resolved.encoder
        else None,
        embedding_size=size,
        memory=resolved.memory,
        values=resolved.values,
        positions=model["position_dim"],
        dropout=model["dropout"],
    )


def _attention(config: Mapping[str, Any], sizes: tuple[int, int], widths: Mapping[str, int]) -> tuple[Query, Any]:
    """Build the query and what reads with it a memory whose keys and values have these sizes."""
    if config["attention"]["name"] == "none":
        return Query([]), registry.build("attention", "none")
    query = Query(registry.build("query", (name, knobs), **widths) for name, knobs in config["query"].items())
    knobs = config["attention"]
    return query, build_attention(config["scorer"], config["scope"], config["normalizer"], (query.size, *sizes), knobs)
