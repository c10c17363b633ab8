"""Build a pointer network from its resolved configuration."""

from __future__ import annotations

from attnx import registry
from attnx.attention import Attention
from attnx.models.resolve import DataSizes, require_tags
from attnx.models.seq2seq.build import build_query_and_attention
from attnx.nn.bridges import BRIDGES
from attnx.nn.source_encoder import SourceEncoder
from attnx.nn.targets.build import step_spec

from .config import ResolvedPointerConfig
from .constraints import PositionTarget
from .model import Pointer


def build_pointer(resolved: ResolvedPointerConfig, sizes: DataSizes) -> Pointer:
    """Build a pointer network for data of these sizes.

    Raises:
        UserError: a query input needs tags, and the data have none.
    """
    options, config = resolved.options, resolved.config
    if resolved.needs_tags:
        require_tags(sizes.tags, "query=language_tag")
    size = options.embedding_dim
    embedding = step_spec(sizes.source_symbols, sizes.source_features).embedding(size)
    encoder = registry.build("encoder", config["encoder"], input_size=size)
    source = SourceEncoder(embedding, encoder, size, keys_from="states", values_from="inputs", positions=0, dropout=0.0)
    decoder = registry.build("decoder", config["decoder"], input_size=size)
    first_state = BRIDGES[options.bridge](decoder, source.final_size)
    widths = {"state_size": decoder.size, "token_size": size, "context_size": size, "tags": sizes.tags}
    query, attention = build_query_and_attention(config, widths, source.keys_size)
    assert isinstance(attention, Attention)
    target = PositionTarget(sizes.target_symbols, options.constraint)
    return Pointer(source, target, first_state, query, attention, decoder, options.schedule)
