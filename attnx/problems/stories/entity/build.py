"""Build a recurrent entity network from its resolved configuration."""

from __future__ import annotations

from torch import nn

from attnx import registry
from attnx.attention.factory import build_attention
from attnx.models.resolve import DataSizes
from attnx.nn.targets.single_label import SingleLabelTarget

from .config import ResolvedEntityConfig
from .memory import ChannelPReLU, EntityGate, EntityMemory
from .model import Entity
from .story_encoder import StoryEncoder


def build_entity(resolved: ResolvedEntityConfig, sizes: DataSizes) -> Entity:
    """Build an entity network for data of these sizes."""
    options, config = resolved.options, resolved.config
    size = options.hidden_size
    stories = StoryEncoder(sizes.source_symbols, size, options.max_words, options.dropout)
    scorer = registry.build("scorer", options.gate_scorer, query_size=size, memory_size=size)
    memory = EntityMemory(
        size,
        resolved.num_slots,
        gate=EntityGate(scorer, registry.build("normalizer", options.gate_normalizer)),
        activation=ChannelPReLU(size) if options.activation == "prelu" else nn.Identity(),
        normalize=options.normalize,
        keys=options.keys,
        initial_state=options.initial_state,
    )
    attention = build_attention(
        config["scorer"],
        config["scope"],
        config["normalizer"],
        query_size=size,
        memory_size=size,
        values_size=size,
        options=config["attention"],
    )
    return Entity(stories, memory, attention, SingleLabelTarget(sizes.target_symbols))
