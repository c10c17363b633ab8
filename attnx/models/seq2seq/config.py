"""What a sequence-to-sequence model will be, from its plain configuration: checked before torch is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnx import registry
from attnx.attention.planner import Plan, PlannerInputs, plan
from attnx.errors import UserError, reject_duplicates
from attnx.models.resolve import part_declarations, scope_sources

Config = Mapping[str, Any]

POSITIONS = ("one_hot", "sinusoidal")


@dataclass(frozen=True)
class ResolvedSeq2seqConfig:
    """The choices that follow from other choices.

    Attributes:
        plan: the schedule and the feed.
        sources: what the memory holds, ``encoder`` or ``decoder`` or both, in this order.
        newest: how many of the decoder's states a query may read, less the number of its step: -1, 0 or 1.
        memory: what the keys are made of: ``states``, ``inputs``, ``layer:N``, ``one_hot`` or ``sinusoidal`` positions,
            or ``final`` without attention.
        values: what the contexts are made of, likewise, positions excepted.
        bridge: where the decoder's state starts.
        encoder: how many layers of the encoder are read by anything; only those are built, none for embeddings alone.
        tagged: whether anything is told the rows' tags.
    """

    plan: Plan
    sources: tuple[str, ...]
    newest: int
    memory: str
    values: str
    bridge: str
    encoder: int
    tagged: bool

    def summary(self) -> dict[str, str]:
        """The lines of the start table: the schedule with its reason, and the derived settings."""
        follows = f"model.feed={self.plan.feed} bridge={self.bridge} memory={self.memory} values={self.values}"
        return {"schedule": str(self.plan), "follows": follows}


def resolve(config: Config) -> ResolvedSeq2seqConfig:
    """Work out what follows from the choices of a model ``seq2seq``, and check that they do not contradict each other.

    Raises:
        UserError: one line naming the knobs that contradict each other and what to choose.
    """
    attends = config["attention"]["name"] != "none"
    model = config["model"]
    sources = _sources(config) if attends else ("encoder",)
    continues = "task" in config and bool(part_declarations(config, "task").get("continues"))
    if continues and "encoder" in sources:
        reads = f"scope.sources=[{','.join(sources)}]" if attends else "attention=none"
        raise UserError(f"task={config['task']['name']} has no source, and {reads} reads one; use scope=history")
    chosen = plan(_facts(config, attends, sources), config["attention"].get("schedule", "auto"))
    memory = _source("model.keys_from", model["keys_from"], config) if attends else "final"
    values = _source("model.values_from", _values(model, memory), config) if attends else "final"
    for knob, pick in (("keys_from", memory), ("values_from", values)):
        if "encoder" not in sources and pick not in ("states", *POSITIONS):
            raise UserError(
                f"model.{knob}={pick} is the encoder's, but scope.sources=[{','.join(sources)}] does not read it"
            )
    read = {memory, values} if "encoder" in sources else set()
    if read - {"states", "final"} and part_declarations(config, "encoder").get("shortens"):
        raise UserError(
            f"encoder={config['encoder']['name']} has fewer states than its source has steps, so model.keys_from and "
            f"model.values_from must both be states, not {memory} and {values}"
        )
    without = continues or (bool(read) and read <= {"inputs", *POSITIONS})
    bridge = model["bridge"] or ("learned" if without else "last")
    if bridge == "last" and without:
        nobody = f"task={config['task']['name']}" if continues else f"model.keys_from={memory}"
        raise UserError(f"model.bridge=last needs an encoder, and {nobody} has none; use zeros or learned")
    encoder = _layers_read(config, read, bridge)
    if "encoder" in (model["tag_inputs"] or []) and not encoder:
        raise UserError(
            f"model.tag_inputs=[{','.join(model['tag_inputs'])}] needs an encoder, and nothing here reads one; "
            "name the decoder"
        )
    _check_tied(config)
    _check_copies(config, attends, sources)
    _check_read(config, chosen, sources)
    if attends:
        _check_widths(config, memory, values, sources)
    return ResolvedSeq2seqConfig(
        plan=chosen,
        sources=sources,
        newest=_newest(config) if "decoder" in sources else 0,
        memory=memory,
        values=values,
        bridge=bridge,
        encoder=encoder,
        tagged=bool(model["tag_inputs"]) or "tag" in _needed(config),
    )


def _values(model: Mapping[str, Any], memory: str) -> str:
    """Values are the memory's own states, but positions are only fit for keys."""
    return str(model["values_from"] or ("states" if memory in POSITIONS else memory))


def _sources(config: Config) -> tuple[str, ...]:
    """What the memory holds, the encoder's states first.

    Raises:
        UserError: a source named twice, or ``include_self`` where it means nothing.
    """
    scope = config["scope"]
    named = scope_sources(scope)
    reject_duplicates("scope.sources", named, "source")
    if scope.get("include_self"):
        if "decoder" not in named:
            raise UserError("scope.include_self=true needs the decoder's states in scope.sources")
        if not {"prev_state", "state"} & set(_needed(config)):
            raise UserError(
                "scope.include_self=true needs a state in the query, current_state or previous_state: "
                "without one there is no state being queried"
            )
    return tuple(sorted(named, reverse=True))


def _newest(config: Config) -> int:
    """The number of readable decoder states, less the step's: those before the earliest state in the query.

    With ``include_self`` those in the query too.
    """
    needs = set(_needed(config))
    if config["scope"].get("include_self"):
        return 1 if "state" in needs else 0
    return -1 if "prev_state" in needs else 0


def _needed(config: Config) -> list[str]:
    """What the query inputs need; nothing without attention."""
    return [_needs(name) for name in config.get("query", {})]


def _facts(config: Config, attends: bool, sources: tuple[str, ...]) -> PlannerInputs:
    needs = {name: _needs(name) for name in config["query"]} if attends else {}
    if attends and not needs:
        raise UserError(
            f"the query is empty: choose one or more of {', '.join(registry.names('query'))}, as in +query=[token]"
        )
    return PlannerInputs(
        needs=needs,
        feed=config["model"]["feed"],
        growing="decoder" in sources,
        needs_history=attends and bool(part_declarations(config, "scorer").get("needs_history", False)),
        sampling=config["model"]["scheduled_sampling"] > 0,
    )


def _needs(name: str) -> str:
    needs = registry.describe("query", name).properties.get("needs")
    if needs not in ("token", "prev_state", "state", "context", "tag"):
        place = registry.describe("query", name).place
        raise UserError(
            f"{place}: the query input {name!r} must declare needs = token, prev_state, state, context or tag"
        )
    return str(needs)


def _source(knob: str, choice: str, config: Config) -> str:
    if choice in ("states", "inputs") or (choice in POSITIONS and knob == "model.keys_from"):
        return choice
    word, _, number = choice.partition(":")
    layers = config["encoder"].get("layers", 1)
    if word != "layer" or not number.isdigit():
        places = ", ".join(["states", "inputs", *(POSITIONS if knob == "model.keys_from" else ())])
        raise UserError(f"{knob}={choice}: expected {places} or layer:N")
    if int(number) >= layers:
        raise UserError(f"{knob}={choice}: the encoder has {layers} layer(s), counted from layer:0")
    return choice


def _layers_read(config: Config, read: set[str], bridge: str) -> int:
    """How many encoder layers anything reads; a parameter that is never used would stop distributed training."""
    layers: int = config["encoder"].get("layers", 1)
    whole = {"inputs": 0, "one_hot": 0, "sinusoidal": 0, "states": layers, "final": layers}
    counts = [whole[pick] if pick in whole else int(pick.removeprefix("layer:")) + 1 for pick in read]
    from_bridge = min(layers, config["decoder"].get("layers", 1)) if bridge == "last" else 0
    return max(*counts, from_bridge, 0)


def _check_tied(config: Config) -> None:
    readout, model = config["readout"], config["model"]
    if model["tie_embeddings"] and readout.get("hidden_size") not in (None, model["embedding_dim"]):
        raise UserError(
            f"model.tie_embeddings=true makes the output layer the embedding, of width {model['embedding_dim']}, "
            f"but readout.hidden_size={readout['hidden_size']}; leave readout.hidden_size out"
        )


def _check_copies(config: Config, attends: bool, sources: tuple[str, ...]) -> None:
    """Refuse to copy by weights that are not there, or that are no shares of one."""
    if not part_declarations(config, "output").get("copies"):
        return
    name = config["output"]["name"]
    if not attends:
        raise UserError(f"output={name} copies what attention reads, and attention=none reads nothing; leave one out")
    if "encoder" not in sources:
        raise UserError(
            f"output={name} copies from the source, but scope.sources=[{','.join(sources)}] does not read it"
        )
    if not part_declarations(config, "normalizer").get("is_distribution"):
        raise UserError(
            f"output={name} takes weights for probabilities, and those of normalizer={config['normalizer']['name']} do "
            "not sum to 1; use normalizer=softmax"
        )


def _check_read(config: Config, chosen: Plan, sources: tuple[str, ...]) -> None:
    """Refuse a composition in which the state or the context never reaches the output, by whatever way."""
    inputs = config["readout"].get("inputs", ["state", "context"])
    reject_duplicates("readout.inputs", inputs, "input")
    asked = [{"prev_state": "state", "state": "state"}.get(need, need) for need in _needed(config)]
    reads = {
        "state": ["token", *(["context"] if chosen.feed == "now" else [])],
        "context": [*asked, *(["state"] if "decoder" in sources else [])],
        "token": [],
        "tag": [],
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


def _check_widths(config: Config, memory: str, values: str, sources: tuple[str, ...]) -> None:
    model, encoder, state = config["model"], config["encoder"], config["decoder"].get("hidden_size")
    sizes = {"inputs": model["embedding_dim"], "one_hot": model["position_dim"], "sinusoidal": model["position_dim"]}
    # A plug-in's width is known only when it is built; then attention itself refuses.
    encoded = (
        encoder["hidden_size"] * (2 if encoder["bidirectional"] else 1) if encoder["name"] == "recurrent" else None
    )
    key, value = (sizes.get(pick, encoded if "encoder" in sources else state) for pick in (memory, values))
    if config["attention"]["projection"] != "never":
        return
    own = [size for pick, size in ((memory, key), (values, value)) if pick not in POSITIONS]
    for size in own if "decoder" in sources else []:
        if size not in (None, state):
            raise UserError(
                f"scope.sources=[{','.join(sources)}] needs equal widths, but the encoder's states have {size} and "
                f"the decoder's {state}; use attention.projection=auto, or equal sizes"
            )
    query = {"token": model["embedding_dim"], "prev_state": state, "state": state, "context": value}
    query["tag"] = config["query"].get("language_tag", {}).get("embedding_dim")
    widths = [query[need] for need in _needed(config)]
    if not part_declarations(config, "scorer").get("requires_equal_dims") or key is None or None in widths:
        return
    if sum(widths) != key:
        raise UserError(
            f"scorer={config['scorer']['name']} needs equal widths, but the query has {sum(widths)} and the memory "
            f"{key}; use attention.projection=auto, another scorer, or equal sizes"
        )
