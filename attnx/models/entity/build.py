"""Build a recurrent entity network from a configuration: ``model=entity``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from torch import nn

from attnx import registry
from attnx.attention.factory import build_attention
from attnx.models.entity.config import resolve_entity
from attnx.models.entity.memory import ChannelPReLU, EntityGate, EntityMemory
from attnx.models.entity.model import Entity
from attnx.models.entity.story_encoder import StoryEncoder
from attnx.nn.targets.single_label import SingleLabelTarget
from attnx.registry import PartSpec, PositiveInt, Probability, Size, Width, register


@register(
    "model",
    "entity",
    resolver=".config.resolve_entity",
    uses=("attention", "scorer", "scope", "normalizer"),
    reads=("entities",),
    leaves_unread=(
        "decoding.max_length_ratio",
        "decoding.max_length_extra",
        "decoding.min_length",
        "decoding.no_repeat_ngram_size",
        "decoding.length_penalty",
    ),
    has_symbol_weights=False,  # but slots
    can_export=False,
)
def build_entity(
    config: Mapping[str, Any],
    source_symbols: Size,
    target_symbols: Size,
    hidden_size: Width = 100,
    num_slots: PositiveInt | None = None,
    keys: Literal["free", "tied"] = "free",
    initial_state: Literal["keys", "learned"] = "keys",
    gate_scorer: PartSpec = "dot",
    gate_normalizer: PartSpec = "sigmoid",
    activation: Literal["prelu", "identity"] = "prelu",
    normalize: bool = True,
    max_words: PositiveInt = 16,
    dropout: Probability = 0.0,
) -> Entity:
    """A recurrent entity network: parallel slots track a story, and attention over them answers a question.

    Formula: ``p_j = normalize(score(q, h_j)), u = sum_j p_j h_j, y = R phi(q + H u)``; slots h_j of ``EntityMemory``
    Source: Henaff et al. 2017, section 2, https://arxiv.org/abs/1612.03969

    Scorer, normalizer and attention say how the question attends to the slots; ``gate_scorer`` and ``gate_normalizer``
    how each slot decides whether a sentence is for it. ``keys=free`` learns the keys of ``num_slots`` slots (20 if left
    out); ``tied`` takes the embeddings of the words in ``task.entities``, one each. A slot starts with its key or with
    a ``learned`` content. Embeddings, contents and keys have one ``hidden_size``. The first ``max_words`` positions of
    a sentence have a mask each. With ``normalize=false`` contents grow, and forget nothing.
    """
    options = {"num_slots": num_slots, "keys": keys, "gate_scorer": gate_scorer, "gate_normalizer": gate_normalizer}
    resolved = resolve_entity({**config, "model": options})
    stories = StoryEncoder(source_symbols, hidden_size, max_words, dropout)
    scorer = registry.build("scorer", gate_scorer, query_size=hidden_size, memory_size=hidden_size)
    memory = EntityMemory(
        hidden_size,
        resolved.num_slots,
        gate=EntityGate(scorer, registry.build("normalizer", gate_normalizer)),
        activation=ChannelPReLU(hidden_size) if activation == "prelu" else nn.Identity(),
        normalize=normalize,
        keys=keys,
        initial_state=initial_state,
    )
    sizes = (hidden_size, hidden_size, hidden_size)
    attention = build_attention(config["scorer"], config["scope"], config["normalizer"], sizes, config["attention"])
    return Entity(stories, memory, attention, SingleLabelTarget(target_symbols))
