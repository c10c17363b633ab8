"""The configuration of a recurrent entity network: its options, and what it derives from them and its task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from attnx import registry
from attnx.attention.options import OTHER_STEPS, parts_in_force, resolve_part
from attnx.errors import UserError
from attnx.models.resolve import (
    Config,
    DataSizes,
    ModelConfig,
    ResolvedConfig,
    reject_bias,
    reject_parts,
    require_attention,
    require_task,
)
from attnx.registry import PartSpec, PositiveInt, Probability, Width, register

if TYPE_CHECKING:
    from .model import Entity

DEFAULT_NUM_SLOTS = 20
UNORDERED = "slots have no order, are read once, and add nothing to the loss"


@register(
    "model",
    "entity",
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
    needs_other_data=True,  # than symbols of any kind, or has other outputs
)
@dataclass(frozen=True)
class EntityConfig(ModelConfig):
    """A recurrent entity network: parallel slots track a story, and attention over them answers a question.

    Formula: ``p_j = normalize(score(q, h_j)), u = sum_j p_j h_j, y = R phi(q + H u)``; slots h_j of ``EntityMemory``
    Source: Henaff et al. 2017, section 2, https://arxiv.org/abs/1612.03969

    Scorer, normalizer and attention say how the question attends to the slots; ``gate_scorer`` and ``gate_normalizer``
    how each slot decides whether a sentence is for it. ``keys=free`` learns the keys of ``num_slots`` slots (20 if left
    out); ``tied`` takes the embeddings of the words in ``task.entities``, one each. A slot starts with its key or with
    a ``learned`` content. Embeddings, contents and keys have one ``hidden_size``. The first ``max_words`` positions of
    a sentence have a mask each. With ``normalize=false`` contents grow, and forget nothing.
    """

    hidden_size: Width = 100
    num_slots: PositiveInt | None = None
    keys: Literal["free", "tied"] = "free"
    initial_state: Literal["keys", "learned"] = "keys"
    gate_scorer: PartSpec = "dot"
    gate_normalizer: PartSpec = "sigmoid"
    activation: Literal["prelu", "identity"] = "prelu"
    normalize: bool = True
    max_words: PositiveInt = 16
    dropout: Probability = 0.0

    def resolve(self, config: Config) -> ResolvedEntityConfig:
        """Derive options and check that the choices do not contradict each other, as :meth:`ModelConfig.resolve`."""
        require_task(config, "has_stories", "answers questions about stories", "none")
        require_attention(config)
        _check_parts(self, config)
        entities = config.get("task", {}).get("entities") or []
        num_slots = _resolve_num_slots(self, entities)
        return ResolvedEntityConfig(config, self, num_slots, tuple(word.lower() for word in entities))


@dataclass(frozen=True)
class ResolvedEntityConfig(ResolvedConfig):
    """The settings of an entity network that follow from its configuration."""

    options: EntityConfig
    num_slots: int  # number of slots
    names: tuple[str, ...] = ()  # the words that the keys are tied to

    @property
    def sites(self) -> tuple[str, ...]:
        """The name of each map of weights that the model returns: one per slot."""
        return self.names or tuple(f"slot {index}" for index in range(1, self.num_slots + 1))

    def summary(self) -> dict[str, str]:
        """The lines of the start table: the schedule with its reason, and the derived options."""
        schedule = "sentence by sentence: a gate reads the previous content of its slot"
        return {"schedule": schedule, "derived": f"num_slots={self.num_slots} keys={self.options.keys}"}

    def build(self, sizes: DataSizes) -> Entity:
        """Build the model."""
        from torch import nn

        from attnx.attention.factory import build_attention
        from attnx.nn.targets.single_label import SingleLabelTarget

        from .model import ChannelPReLU, Entity, EntityGate, EntityMemory, StoryEncoder

        options, config, size = self.options, self.config, self.options.hidden_size
        stories = StoryEncoder(sizes.source_symbols, size, options.max_words, options.dropout)
        scorer = registry.build("scorer", options.gate_scorer, query_size=size, memory_size=size)
        memory = EntityMemory(
            size,
            self.num_slots,
            gate=EntityGate(scorer, registry.build("normalizer", options.gate_normalizer)),
            activation=ChannelPReLU(size) if options.activation == "prelu" else nn.Identity(),
            normalize=options.normalize,
            keys=options.keys,
            initial_state=options.initial_state,
        )
        attention = build_attention(
            config["scorer"], config["scope"], config["normalizer"], size, size, size, options=config["attention"]
        )
        return Entity(stories, memory, attention, SingleLabelTarget(sizes.target_symbols))


def _check_parts(options: EntityConfig, config: Config) -> None:
    """Check that no part needs an order or other steps than its own, those of the gates neither."""
    scope, in_force = config["scope"], parts_in_force(config, "scope")
    for part in in_force.parts:
        if part["name"] != "global":
            raise UserError(
                f"{in_force.option}={part['name']}: slots have no order and there is no decoder; use global"
            )
    if list(scope.get("sources", ["encoder"])) != ["encoder"] or scope.get("include_self"):
        raise UserError(
            f"model={config['model']['name']} has no decoder states; remove scope.sources and scope.include_self"
        )
    reject_bias(config, UNORDERED)
    for kind, choice in (("scorer", options.gate_scorer), ("normalizer", options.gate_normalizer)):
        resolve_part(f"model.gate_{kind}", kind, choice, UNORDERED)
    reject_parts(config, ("scorer", "normalizer"), UNORDERED, *OTHER_STEPS)


def _resolve_num_slots(options: EntityConfig, entities: list[str]) -> int:
    """The number of slots: one for each entity if keys are tied to them."""
    num_slots = options.num_slots
    if options.keys == "free":
        if entities:
            raise UserError(f"task.entities=[{','.join(entities)}] is for model.keys=tied; remove one of the two")
        return num_slots or DEFAULT_NUM_SLOTS
    if not entities:
        raise UserError("model.keys=tied needs words to tie the keys to; set task.entities=[mary,john]")
    if num_slots not in (None, len(entities)):
        raise UserError(
            f"model.num_slots={num_slots}, but task.entities has {len(entities)} words; remove model.num_slots"
        )
    return len(entities)
