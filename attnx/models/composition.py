"""What a sequence-to-sequence model will be, from its plain configuration: checked before torch is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnx import registry
from attnx.attention.plan import Facts, Plan, plan
from attnx.errors import UserError

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Composition:
    """The choices that follow from other choices.

    Attributes:
        plan: the schedule and the feed.
        memory: what the keys are made of: ``states``, ``inputs``, ``layer:N``, or ``final`` without attention.
        values: what the contexts are made of, likewise.
        bridge: where the decoder's state starts.
        encoder: how many layers of the encoder are read by anything; only those are built, none for embeddings alone.
    """

    plan: Plan
    memory: str
    values: str
    bridge: str
    encoder: int


def compose(config: Config) -> Composition:
    """Work out a composition and check that its parts do not contradict each other.

    Raises:
        UserError: one line naming the knobs that contradict each other and what to choose.
    """
    attends = config["attention"]["name"] != "none"
    model = config["model"]
    chosen = plan(_facts(config, attends), config["attention"].get("schedule", "auto"))
    memory = _source("model.memory", model["memory"], config) if attends else "final"
    values = _source("model.values", model["values"] or memory, config) if attends else "final"
    encoded = {memory, values} != {"inputs"}
    bridge = model["bridge"] or ("last" if encoded else "learned")
    if bridge == "last" and not encoded:
        raise UserError("model.bridge=last needs an encoder, and model.memory=inputs has none; use zeros or learned")
    _check_tied(config)
    _check_read(config, chosen)
    if attends:
        _check_widths(config, memory, values)
    return Composition(chosen, memory, values, bridge, _layers_read(config, memory, values, bridge))


def _facts(config: Config, attends: bool) -> Facts:
    needs = {name: _needs(name) for name in config["query"]} if attends else {}
    if attends and not needs:
        raise UserError(
            f"the query is empty: choose one or more of {', '.join(registry.names('query'))}, as in +query=[token]"
        )
    return Facts(
        needs=needs,
        feed=config["model"]["feed"],
        growing=attends and "decoder" in _declared(config, "scope").get("sources", ()),
        needs_past=attends and bool(_declared(config, "scorer").get("needs_past", False)),
        sampling=config["model"]["sampling"] > 0,
    )


def _needs(name: str) -> str:
    needs = registry.part("query", name).declares.get("needs")
    if needs not in ("token", "before", "after", "context"):
        place = registry.part("query", name).place
        raise UserError(f"{place}: the query input {name!r} must declare needs = token, before, after or context")
    return str(needs)


def _declared(config: Config, kind: str) -> dict[str, Any]:
    return registry.part(kind, config[kind]["name"]).declares


def _source(knob: str, choice: str, config: Config) -> str:
    if choice in ("states", "inputs"):
        return choice
    word, _, number = choice.partition(":")
    layers = config["encoder"].get("layers", 1)
    if word != "layer" or not number.isdigit():
        raise UserError(f"{knob}={choice}: expected states, inputs or layer:N")
    if int(number) >= layers:
        raise UserError(f"{knob}={choice}: the encoder has {layers} layer(s), counted from layer:0")
    return choice


def _layers_read(config: Config, memory: str, values: str, bridge: str) -> int:
    """How many encoder layers anything reads; a parameter that is never used would stop distributed training."""
    layers: int = config["encoder"].get("layers", 1)
    read = {"inputs": 0, "states": layers, "final": layers}
    counts = [read[pick] if pick in read else int(pick.removeprefix("layer:")) + 1 for pick in (memory, values)]
    from_bridge = min(layers, config["decoder"].get("layers", 1)) if bridge == "last" else 0
    return max(*counts, from_bridge)


def _check_tied(config: Config) -> None:
    readout, model = config["readout"], config["model"]
    if model["tied"] and readout.get("size") not in (None, model["embedding"]):
        raise UserError(
            f"model.tied=true makes the output layer the embedding, of width {model['embedding']}, "
            f"but readout.size={readout['size']}; leave readout.size out"
        )


def _check_read(config: Config, chosen: Plan) -> None:
    """Refuse a composition in which the state or the context never reaches the output, by whatever way."""
    inputs = config["readout"].get("inputs", ["state", "context"])
    query = [_needs(name) for name in config.get("query", {})]
    reads = {
        "state": ["token", *(["context"] if chosen.feed == "now" else [])],
        "context": [{"before": "state", "after": "state"}.get(need, need) for need in query],
        "token": [],
    }
    reached: set[str] = set()
    waiting = list(inputs)
    while waiting:
        thing = waiting.pop()
        if thing not in reached:
            reached.add(thing)
            waiting += reads[thing]
    for thing in ("state", "context"):
        if thing not in reached:
            raise UserError(
                f"nothing that leads to the output reads the {thing} (readout.inputs=[{','.join(inputs)}], "
                f"model.feed={chosen.feed}); add {thing} to readout.inputs"
            )


def _check_widths(config: Config, memory: str, values: str) -> None:
    if config["attention"]["projection"] != "never" or not _declared(config, "scorer").get("equal_widths"):
        return
    encoder = config["encoder"]
    states = encoder["hidden"] * (2 if encoder["bidirectional"] else 1) if encoder["name"] == "recurrent" else None
    sizes = {"inputs": config["model"]["embedding"]}
    query = {
        "token": config["model"]["embedding"],
        "before": config["decoder"].get("hidden"),
        "after": config["decoder"].get("hidden"),
        "context": sizes.get(values, states),
    }
    widths = [query[_needs(name)] for name in config["query"]]
    key = sizes.get(memory, states)
    # A plug-in's width is known only when it is built; then Attention itself refuses.
    if key is not None and None not in widths and sum(widths) != key:
        raise UserError(
            f"scorer={config['scorer']['name']} needs equal widths, but the query has {sum(widths)} and the memory "
            f"{key}; use attention.projection=auto, another scorer, or equal sizes"
        )
