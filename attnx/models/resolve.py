"""What follows from a configuration's choices, worked out and checked before torch is imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from attnx import registry


class ResolvedConfig(Protocol):
    """What a part of kind ``composition`` returns; it bears its model's name and is called with the configuration."""

    def told(self) -> dict[str, str]:
        """What a run says of it: ``schedule``, which and why, and ``follows``, the knobs that followed from others."""
        ...


def composition(config: Mapping[str, Any]) -> ResolvedConfig | None:
    """Work out what follows from a checked configuration, as its model's composition does; None if it has none.

    Raises:
        UserError: choices that contradict each other.
    """
    name = config["model"]["name"]
    if name not in registry.names("composition"):
        return None
    found: ResolvedConfig = registry.build("composition", name, config=config)
    return found


def declared(config: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """What is true of a part that was chosen; nothing where a configuration has none of its kind."""
    return registry.part(kind, config[kind]["name"]).declares if kind in config else {}


def sources_of(scope: Mapping[str, Any]) -> list[str]:
    """What a scope, by name and knobs, is over: as its knob says, else as it declares, else the encoder's states."""
    return list(scope.get("sources") or registry.part("scope", scope["name"]).declares.get("sources") or ["encoder"])
