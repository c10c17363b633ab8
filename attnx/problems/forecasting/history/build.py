"""Build a history model from its resolved configuration."""

from __future__ import annotations

from torch import nn

from attnx.models.resolve import DataSizes
from attnx.models.seq2seq.build import build_parts
from attnx.models.seq2seq.model import Seq2seq
from attnx.nn.targets.build import build_target

from .config import ResolvedHistoryConfig
from .model import History


def build_history(resolved: ResolvedHistoryConfig, sizes: DataSizes) -> History:
    """Build a history model for data of these sizes."""
    network, options = resolved.network, resolved.network.options
    target = build_target(resolved.config["task"], sizes.target_symbols, sizes.target_features)
    embedding = nn.Linear(sizes.source_features + 1, options.embedding_dim)
    parts = build_parts(network, None, target, tags=0, embedding=embedding)
    decoder = Seq2seq(parts, target, network.plan, network.sources, network.visible_state_offset, options.dropout)
    return History(decoder, num_known=sizes.source_features - sizes.target_features)
