"""Build a classifier from its resolved configuration."""

from __future__ import annotations

from attnx import registry
from attnx.attention import Query
from attnx.attention.factory import build_attention
from attnx.models.classifier.config import ResolvedClassifierConfig
from attnx.models.classifier.model import Classifier
from attnx.models.resolve import DataSizes, require_tags
from attnx.nn.source_encoder import SourceEncoder
from attnx.nn.targets.build import step_spec
from attnx.nn.targets.single_label import SingleLabelTarget


def build_classifier(resolved: ResolvedClassifierConfig, sizes: DataSizes) -> Classifier:
    """Build a classifier for data of these sizes.

    Raises:
        UserError: a query input needs tags, and the data have none.
    """
    options, config = resolved.options, resolved.config
    if resolved.needs_tags:
        require_tags(sizes.tags, "query=language_tag")
    size = options.embedding_dim
    embedding = step_spec(sizes.source_symbols, sizes.source_features).embedding(size)
    encoder = registry.build("encoder", config["encoder"], input_size=size)
    source = SourceEncoder(
        embedding, encoder, size, keys_from="states", values_from="states", positions=0, dropout=options.dropout
    )
    widths = {"state_size": encoder.size, "token_size": 0, "context_size": encoder.size, "tags": sizes.tags}
    query = Query(registry.build("query", choice, **widths) for choice in config["query"].items())
    attention = build_attention(
        config["scorer"],
        config["scope"],
        config["normalizer"],
        query_size=query.size,
        memory_size=encoder.size,
        values_size=encoder.size,
        options=config["attention"],
    )
    readout = registry.build("readout", config["readout"], **{**widths, "context_size": query.rows * encoder.size})
    target = SingleLabelTarget(sizes.target_symbols)
    return Classifier(source, query, attention, readout, target, options.dropout)
