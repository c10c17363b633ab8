"""From part files to Hydra options: the only module that knows Hydra's ConfigStore."""

from __future__ import annotations

from hydra.core.config_store import ConfigStore

from attnx.catalogue import KINDS, Part, catalogue

# Kinds that are chosen by a config group; a metric is chosen by its task.
GROUPS = tuple(kind for kind in KINDS if kind != "metric")


def store_options() -> None:
    """Offer every part in the catalogue as an option of its kind's group, with its knobs' defaults."""
    store = ConfigStore.instance()
    known = catalogue()
    for kind in GROUPS:
        # A part of a plug-in folder that is no longer in force must not linger in a long-lived process.
        store.repo.pop(kind, None)
        for name in known.names(kind):
            part = known.parts[kind, name]
            store.store(group=kind, name=name, node=_node(part), package=kind)


def _node(part: Part) -> dict[str, object]:
    knobs = {knob.name: knob.default for knob in part.knobs}
    # A query is a set: each input is a key of the one node, so a list of options merges into a set.
    return {part.name: knobs} if part.kind == "query" else {"name": part.name, **knobs}
