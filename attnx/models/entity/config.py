"""What a model ``entity`` will be, from its plain configuration: checked before torch is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnx import registry
from attnx.errors import UserError

Config = Mapping[str, Any]

SLOTS = 20


@dataclass(frozen=True)
class ResolvedEntityConfig:
    """What follows from the choices.

    Attributes:
        slots: how many there are.
        keys: what they are about.
        names: the words that the keys are tied to.
    """

    slots: int
    keys: str
    names: tuple[str, ...] = ()

    @property
    def sites(self) -> tuple[str, ...]:
        """What each of the maps that are handed out is of: a slot."""
        return self.names or tuple(f"slot {number}" for number in range(1, self.slots + 1))

    def summary(self) -> dict[str, str]:
        """What a run says of it."""
        reason = "a gate reads what its slot held before"
        return {"schedule": f"sentence by sentence: {reason}", "follows": f"slots={self.slots} keys={self.keys}"}


def resolve(config: Config) -> ResolvedEntityConfig:
    """Work out what follows from the choices of a model ``entity``, and check that all of them mean something.

    Raises:
        UserError: one line naming what means nothing here, or contradicts something else.
    """
    task = config.get("task", {})
    if task and not registry.part("task", task["name"]).declares.get("reads_stories"):
        raise UserError(f"model=entity answers questions about stories, and task={task['name']} has none; use task=qa")
    if config["attention"]["name"] == "none":
        raise UserError("model=entity answers from what it reads of its slots, so attention=none leaves it nothing")
    if config["attention"].get("schedule", "auto") != "auto":
        raise UserError(f"attention.schedule={config['attention']['schedule']}: model=entity has one way, leave it out")
    _check_scope(config["scope"])
    model = config["model"]
    gates = {kind: registry.spec(kind, model[f"gate_{kind}"]) for kind in ("scorer", "normalizer")}
    for kind, (name, knobs) in gates.items():
        registry.check(kind, name, knobs)
    for knob, name in (("scorer", config["scorer"]["name"]), ("model.gate_scorer", gates["scorer"][0])):
        if registry.part("scorer", name).declares.get("needs_past"):
            raise UserError(f"{knob}={name} needs to know what was read before, and slots are asked once; use another")
    search = config.get("decoding", {})
    for rule, most in (("min_length", 1), ("no_repeat_ngram_size", 0)):
        if search.get(rule, 0) > most:
            raise UserError(f"decoding.{rule}={search[rule]} has no meaning where one symbol is written; leave it out")
    entities = task.get("entities") or []
    return ResolvedEntityConfig(_slots(model, entities), model["keys"], tuple(word.lower() for word in entities))


def _check_scope(scope: Mapping[str, Any]) -> None:
    if scope["name"] != "global":
        raise UserError(f"scope={scope['name']}: slots have no order and there is no decoder; use scope=global")
    if list(scope.get("sources", ["encoder"])) != ["encoder"] or scope.get("include_self"):
        raise UserError("model=entity has no decoder states; leave scope.sources and scope.include_self out")


def _slots(model: Mapping[str, Any], entities: list[str]) -> int:
    """One for each entity where keys are tied to them."""
    slots = model["num_slots"]
    if model["keys"] == "free":
        if entities:
            raise UserError(f"task.entities=[{','.join(entities)}] is for model.keys=tied; leave one of the two out")
        return int(slots or SLOTS)
    if not entities:
        raise UserError("model.keys=tied needs words to tie them to: task.entities=[mary,john]")
    if slots not in (None, len(entities)):
        raise UserError(f"model.num_slots={slots}, but task.entities names {len(entities)}; leave model.num_slots out")
    return len(entities)
