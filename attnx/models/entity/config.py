"""Resolve and check the configuration of a recurrent entity network, without importing torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnx import registry
from attnx.errors import UserError
from attnx.models.resolve import (
    ResolvedConfig,
    reject_bias,
    reject_history,
    reject_recurrent,
    reject_recurrent_parts,
    reject_sampled,
    require_attention,
)

Config = Mapping[str, Any]

DEFAULT_NUM_SLOTS = 20
UNORDERED = "the slots of model=entity have no order"


@dataclass(frozen=True)
class ResolvedEntityConfig(ResolvedConfig):
    """The settings of an entity network that follow from its configuration."""

    num_slots: int  # number of slots
    keys: str  # ``free`` or ``tied``
    names: tuple[str, ...] = ()  # the words that the keys are tied to

    @property
    def sites(self) -> tuple[str, ...]:
        """The name of each map of weights that the model returns: one per slot."""
        return self.names or tuple(f"slot {index}" for index in range(1, self.num_slots + 1))

    def summary(self) -> dict[str, str]:
        """The lines of the start table: the schedule with its reason, and the derived options."""
        schedule = "sentence by sentence: a gate reads the previous content of its slot"
        return {"schedule": schedule, "derived": f"num_slots={self.num_slots} keys={self.keys}"}


def resolve_entity(config: Config) -> ResolvedEntityConfig:
    """Resolve the configuration of an entity network and check that each of its options has an effect.

    Raises:
        UserError: one line with the option that has no effect or contradicts another.
    """
    task, model = config.get("task", {}), config["model"]
    if task and not registry.describe("task", task["name"]).properties.get("has_stories"):
        raise UserError(f"model=entity answers questions about stories, but task={task['name']} has none; use task=qa")
    require_attention(config, "entity")
    _check_scope(config["scope"])
    reject_bias(config, UNORDERED)
    _check_scorers(config)
    entities = task.get("entities") or []
    num_slots = _resolve_num_slots(model, entities)
    return ResolvedEntityConfig(num_slots, model["keys"], tuple(word.lower() for word in entities))


def _check_scope(scope: Config) -> None:
    if scope["name"] != "global":
        raise UserError(f"scope={scope['name']}: slots have no order and there is no decoder; use scope=global")
    if list(scope.get("sources", ["encoder"])) != ["encoder"] or scope.get("include_self"):
        raise UserError("model=entity has no decoder states; remove scope.sources and scope.include_self")


def _check_scorers(config: Config) -> None:
    """Check the parts of the gates, and that none needs earlier weights or an order of the slots."""
    gates = {kind: registry.parse_spec(kind, config["model"][f"gate_{kind}"]) for kind in ("scorer", "normalizer")}
    for kind, (name, options) in gates.items():
        registry.check(kind, name, options)
        reject_recurrent(kind, name, f"model.gate_{kind}", UNORDERED)
    reject_recurrent_parts(config, UNORDERED)
    normalizers = {"normalizer": config["normalizer"]["name"], "model.gate_normalizer": gates["normalizer"][0]}
    for option, name in normalizers.items():
        reject_sampled(name, option, "model=entity passes none on")
    for option, name in (("scorer", config["scorer"]["name"]), ("model.gate_scorer", gates["scorer"][0])):
        reject_history(name, option, "slots are read once")


def _resolve_num_slots(model: Config, entities: list[str]) -> int:
    """The number of slots: one for each entity if keys are tied to them."""
    num_slots = model["num_slots"]
    if model["keys"] == "free":
        if entities:
            raise UserError(f"task.entities=[{','.join(entities)}] is for model.keys=tied; remove one of the two")
        return int(num_slots or DEFAULT_NUM_SLOTS)
    if not entities:
        raise UserError("model.keys=tied needs words to tie the keys to; set task.entities=[mary,john]")
    if num_slots not in (None, len(entities)):
        raise UserError(
            f"model.num_slots={num_slots}, but task.entities has {len(entities)} words; remove model.num_slots"
        )
    return len(entities)
