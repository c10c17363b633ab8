"""Build a classifier from a configuration: ``model=classifier``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnx import registry
from attnx.attention import Query
from attnx.attention.factory import build_attention
from attnx.models.classifier.config import resolve_classifier
from attnx.models.classifier.model import Classifier
from attnx.models.resolve import require_tags
from attnx.nn.source_encoder import SourceEncoder
from attnx.nn.targets.build import source_spec
from attnx.nn.targets.single_label import SingleLabelTarget
from attnx.registry import Probability, Size, Width, register


@register(
    "model",
    "classifier",
    resolver=".config.resolve_classifier",
    uses=("encoder", "readout", "attention", "scorer", "scope", "query", "normalizer"),
    reads=("rows", "penalty"),
    leaves_unread=(
        "decoding.max_length_ratio",
        "decoding.max_length_extra",
        "decoding.min_length",
        "decoding.no_repeat_ngram_size",
        "decoding.length_penalty",
    ),
    can_export=False,
)
def build_classifier(
    config: Mapping[str, Any],
    source_symbols: Size,
    source_features: Size,
    target_symbols: Size,
    tags: Size,
    embedding_dim: Width = 64,
    dropout: Probability = 0.0,
) -> Classifier:
    """Encode a source, attend to its states once, and label it.

    Formula: ``c = sum_s a_s h_s, a = normalize(score(q, h_s)), p(y | x) = softmax(O r), r = readout(h, c)``
    Source: Yang et al. 2016, section 2.2, https://aclanthology.org/N16-1174

    The query is learned (``query=self_attentive``), the encoder's last state (``current_state``), the embedded tag, or
    a set of them. Of a learned query with several rows each reads by itself, and their contexts are side by side. There
    is no decoder: the state h of the readout is the encoder's last one, too.
    """
    resolved = resolve_classifier({**config, "model": {"embedding_dim": embedding_dim, "dropout": dropout}})
    if resolved.needs_tags:
        require_tags(tags, "query=language_tag")
    size = embedding_dim
    embedding = source_spec(source_symbols, source_features).embedding(size)
    encoder = registry.build("encoder", config["encoder"], input_size=size)
    source = SourceEncoder(
        embedding, encoder, size, keys_from="states", values_from="states", positions=0, dropout=dropout
    )
    sizes = {"state_size": encoder.size, "token_size": 0, "context_size": encoder.size, "tags": tags}
    query = Query(registry.build("query", choice, **sizes) for choice in config["query"].items())
    widths = query.size, encoder.size, encoder.size
    attention = build_attention(config["scorer"], config["scope"], config["normalizer"], widths, config["attention"])
    readout = registry.build("readout", config["readout"], **{**sizes, "context_size": query.rows * encoder.size})
    target = SingleLabelTarget(target_symbols)
    return Classifier(source, query, attention, readout, target, dropout)
