"""Resolve and check the configuration of a sequence-to-sequence model, without importing torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attnx import registry
from attnx.errors import UserError, reject_duplicates
from attnx.models.planner import Plan, PlannerInputs, plan
from attnx.models.resolve import (
    NoEffect,
    check_hops,
    part_declarations,
    query_needs,
    reject_recurrent_parts,
    reject_text_encoder,
    scope_sources,
)
from attnx.models.seq2seq.unread import POSITIONS, unread_by_attention, unread_by_networks

Config = Mapping[str, Any]
FINAL = "final"  # the encoder's last state, the context without attention


@dataclass(frozen=True)
class ResolvedSeq2seqConfig:
    """The options of a sequence-to-sequence model that follow from its configuration."""

    plan: Plan  # the schedule and the feed
    sources: tuple[str, ...]  # the sources of the memory, ``encoder`` or ``decoder`` or both, in this order
    visible_state_offset: int  # the number of decoder states that a query may read, less its step index: -1, 0 or 1
    # the source of the keys: ``states``, ``inputs``, ``layer:N``, ``one_hot`` or ``sinusoidal`` positions, or
    # ``final`` without attention
    keys_from: str
    values_from: str  # the source of the values, likewise, positions excepted
    bridge: str  # the decoder's initial state: ``last``, ``zeros`` or ``learned``
    encoder_layers: int  # the number of encoder layers that are used, and built; 0 for embeddings alone
    needs_tags: bool  # whether any part reads the rows' tags
    ineffective: Mapping[str, NoEffect] = field(default_factory=dict)  # the options that have no effect

    def summary(self) -> dict[str, str]:
        """The lines of the start table: the schedule with its reason, and the derived options."""
        derived = f"model.feed={self.plan.feed} model.bridge={self.bridge}"
        if self.keys_from != FINAL:
            derived += f" model.keys_from={self.keys_from} model.values_from={self.values_from}"
        return {"schedule": str(self.plan), "derived": derived}


def resolve_seq2seq(config: Config) -> ResolvedSeq2seqConfig:
    """Derive the options of a model ``seq2seq`` and check that its choices do not contradict each other.

    Raises:
        UserError: one line naming the options that contradict each other and what to choose.
    """
    model, attends = config["model"], config["attention"]["name"] != "none"
    sources = _sources(config) if attends else ("encoder",)
    continues = _continues(config, attends, sources)
    schedule = plan(_planner_inputs(config, attends, sources), model["schedule"])
    keys_from, values_from = _keys_and_values(config) if attends else (FINAL, FINAL)
    _check_memory(config, sources, keys_from, values_from)
    read = {keys_from, values_from} if "encoder" in sources else set()
    has_no_encoder = continues or (bool(read) and read <= {"inputs", *POSITIONS})
    bridge = _bridge(config, keys_from, continues, has_no_encoder)
    encoder_layers = _layers_read(config, read, bridge)
    _check_embeddings(config, encoder_layers)
    _check_copies(config, attends, sources)
    _check_read(config, schedule, sources)
    _check_widths(config, keys_from, values_from, sources)
    networks = unread_by_networks(config, _readers(config, sources, bridge), "encoder" in sources, encoder_layers)
    return ResolvedSeq2seqConfig(
        plan=schedule,
        sources=sources,
        visible_state_offset=_visible_state_offset(config) if "decoder" in sources else 0,
        keys_from=keys_from,
        values_from=values_from,
        bridge=bridge,
        encoder_layers=encoder_layers,
        needs_tags=bool(model["tag_inputs"]) or "tag" in query_needs(config).values(),
        ineffective=dict(unread_by_attention(config, attends)) | dict(networks),
    )


def _sources(config: Config) -> tuple[str, ...]:
    """The sources of the memory, the encoder first.

    Raises:
        UserError: a source is repeated, ``include_self`` has no effect, or the memory grows below a recurrent part.
    """
    scope = config["scope"]
    sources = scope_sources(scope)
    reject_duplicates("scope.sources", sources, "source")
    if "decoder" in sources:
        reject_recurrent_parts(
            config, f"scope.sources=[{','.join(sources)}] holds decoder states, one more at every step"
        )
    if scope.get("include_self"):
        if "decoder" not in sources:
            raise UserError("scope.include_self=true needs the decoder's states in scope.sources")
        if not {"prev_state", "state"} & set(query_needs(config).values()):
            raise UserError(
                "scope.include_self=true needs a state in the query, current_state or previous_state: "
                "without one there is no state being queried"
            )
    return tuple(sorted(sources, reverse=True))


def _visible_state_offset(config: Config) -> int:
    """The number of readable decoder states less the step index: those before the earliest state in the query.

    With ``include_self`` the states in the query are readable, too.
    """
    needs = set(query_needs(config).values())
    if config["scope"].get("include_self"):
        return 1 if "state" in needs else 0
    return -1 if "prev_state" in needs else 0


def _continues(config: Config, attends: bool, sources: tuple[str, ...]) -> bool:
    """Whether the task has no source and continues its target.

    Raises:
        UserError: it has none, and the memory needs one.
    """
    continues = bool(part_declarations(config, "task").get("is_continuation"))
    if continues and "encoder" in sources:
        reads = f"scope.sources=[{','.join(sources)}]" if attends else "attention=none"
        raise UserError(f"task={config['task']['name']} has no source, and {reads} reads one; use scope=history")
    return continues


def _planner_inputs(config: Config, attends: bool, sources: tuple[str, ...]) -> PlannerInputs:
    needs = query_needs(config) if attends else {}
    if attends and not needs:
        names = ", ".join(registry.names("query"))
        raise UserError(f"the query is empty: choose one or more of {names}, as in +query=[token]")
    if attends:
        check_hops(config, needs.values())
    return PlannerInputs(
        needs=needs,
        feed=config["model"]["feed"],
        has_decoder_memory="decoder" in sources,
        needs_history=attends and bool(part_declarations(config, "scorer").get("needs_history", False)),
        has_scheduled_sampling=config["model"]["scheduled_sampling"] > 0,
    )


def _keys_and_values(config: Config) -> tuple[str, str]:
    """The sources of keys and values; of a scorer that reads no keys that of the values for both."""
    model = config["model"]
    if part_declarations(config, "scorer").get("needs_keys") is False:
        values_from = _source(config, "values_from", model["values_from"] or "states")
        return values_from, values_from
    keys_from = _source(config, "keys_from", model["keys_from"])
    values_choice = model["values_from"] or ("states" if keys_from in POSITIONS else keys_from)
    return keys_from, _source(config, "values_from", values_choice)


def _source(config: Config, option: str, choice: str) -> str:
    """The source of keys or values, checked."""
    choices = ("states", "inputs", *(POSITIONS if option == "keys_from" else ()))
    if choice in choices:
        return choice
    word, _, number = choice.partition(":")
    layers = config["encoder"].get("layers", 1)
    if word != "layer" or not number.isdigit():
        raise UserError(f"model.{option}={choice}: expected {', '.join(choices)} or layer:N")
    if int(number) >= layers:
        raise UserError(f"model.{option}={choice}: the encoder has {layers} layer(s), counted from layer:0")
    return choice


def _check_memory(config: Config, sources: tuple[str, ...], keys_from: str, values_from: str) -> None:
    """Check that keys and values are of a source in the scope, and that each has a row for every position."""
    if config["encoder"]["name"] != "none":  # model=history has no encoder
        reject_text_encoder(config, "seq2seq")
    for option, pick in (("keys_from", keys_from), ("values_from", values_from)):
        if "encoder" not in sources and pick not in ("states", *POSITIONS):
            raise UserError(
                f"model.{option}={pick} is the encoder's, but scope.sources=[{','.join(sources)}] does not read it"
            )
    has_other_layers = "encoder" in sources and {keys_from, values_from} - {"states", FINAL}
    if has_other_layers and part_declarations(config, "encoder").get("is_downsampling"):
        raise UserError(
            f"encoder={config['encoder']['name']} has fewer states than its source has steps, so model.keys_from and "
            f"model.values_from must both be states, not {keys_from} and {values_from}"
        )


def _bridge(config: Config, keys_from: str, continues: bool, has_no_encoder: bool) -> str:
    """The bridge: the configured one, else ``last``, or ``learned`` without an encoder."""
    bridge: str = config["model"]["bridge"] or ("learned" if has_no_encoder else "last")
    if bridge == "last" and has_no_encoder:
        option = f"task={config['task']['name']}" if continues else f"model.keys_from={keys_from}"
        raise UserError(f"model.bridge=last needs an encoder, and {option} has none; use zeros or learned")
    return bridge


def _layers_read(config: Config, read: set[str], bridge: str) -> int:
    """The number of encoder layers that are used; an unused parameter would stop distributed training."""
    layers: int = config["encoder"].get("layers", 1)
    layer_counts = {"inputs": 0, "one_hot": 0, "sinusoidal": 0, "states": layers, FINAL: layers}
    counts = [layer_counts[pick] if pick in layer_counts else int(pick.removeprefix("layer:")) + 1 for pick in read]
    from_bridge = min(layers, config["decoder"].get("layers", 1)) if bridge == "last" else 0
    return max(*counts, from_bridge, 0)


def _readers(config: Config, sources: tuple[str, ...], bridge: str) -> str:
    """The choices that say what of the encoder is read."""
    if part_declarations(config, "task").get("is_continuation"):
        return f"task={config['task']['name']}, which has no source"
    choices = {option: config["model"][option] for option in ("keys_from", "values_from")}
    memory = " and ".join(f"model.{option}={choice}" for option, choice in choices.items() if choice is not None)
    return f"{memory if 'encoder' in sources else f'scope.sources=[{sources[0]}]'} and model.bridge={bridge}"


def _check_embeddings(config: Config, encoder_layers: int) -> None:
    """Check that tags enter what exists, and that tied embeddings have the readout's width."""
    model, width = config["model"], config["readout"].get("hidden_size")
    tag_inputs = model["tag_inputs"] or []
    if "encoder" in tag_inputs and not encoder_layers:
        raise UserError(
            f"model.tag_inputs=[{','.join(tag_inputs)}] needs an encoder, and nothing here reads one; name the decoder"
        )
    if model["tie_embeddings"] and width not in (None, model["embedding_dim"]):
        raise UserError(
            f"model.tie_embeddings=true makes the output layer the embedding, of width {model['embedding_dim']}, "
            f"but readout.hidden_size={width}; leave readout.hidden_size out"
        )


def _check_copies(config: Config, attends: bool, sources: tuple[str, ...]) -> None:
    """Check that a copy output has attention weights on the source that sum to 1."""
    if not part_declarations(config, "output").get("needs_weights"):
        return
    name = f"output={config['output']['name']}"
    if not attends:
        raise UserError(f"{name} copies what attention reads, and attention=none reads nothing; leave one out")
    if "encoder" not in sources:
        raise UserError(f"{name} copies from the source, but scope.sources=[{','.join(sources)}] does not read it")
    if not part_declarations(config, "normalizer").get("is_distribution"):
        raise UserError(
            f"{name} takes weights for probabilities, and those of normalizer={config['normalizer']['name']} do not "
            "sum to 1; use normalizer=softmax"
        )


def _check_read(config: Config, schedule: Plan, sources: tuple[str, ...]) -> None:
    """Check that the state and the context reach the output, directly or through other inputs."""
    inputs = config["readout"].get("inputs", ["state", "context"])
    reject_duplicates("readout.inputs", inputs, "input")
    needs = ["state" if need == "prev_state" else need for need in query_needs(config).values()]
    reads = {
        "state": ["token", *(["context"] if schedule.feed == "now" else [])],
        "context": [*needs, *(["state"] if "decoder" in sources else [])],
        "token": [],
        "tag": [],
        "nothing": [],
    }
    reached = set(inputs)
    for _ in reads:
        reached.update(*(reads[name] for name in reached))
    for name in ("state", "context"):
        if name not in reached:
            raise UserError(
                f"nothing that leads to the output reads the {name} (readout.inputs=[{','.join(inputs)}], "
                f"model.feed={schedule.feed}); add {name} to readout.inputs"
            )


def _check_widths(config: Config, keys_from: str, values_from: str, sources: tuple[str, ...]) -> None:
    """Check that widths are equal where they must be; that of a plug-in is not known before it is built."""
    if config["attention"].get("projection") != "never":
        return
    model, encoder, state = config["model"], config["encoder"], config["decoder"].get("hidden_size")
    sizes = {"inputs": model["embedding_dim"], "one_hot": model["position_dim"], "sinusoidal": model["position_dim"]}
    encoded = state
    if "encoder" in sources:
        is_plug_in = encoder["name"] != "recurrent"
        encoded = None if is_plug_in else encoder["hidden_size"] * (2 if encoder["bidirectional"] else 1)
    key, value = (sizes.get(pick, encoded) for pick in (keys_from, values_from))
    for pick, size in ((keys_from, key), (values_from, value)) if "decoder" in sources else ():
        if pick not in POSITIONS and size not in (None, state):
            raise UserError(
                f"scope.sources=[{','.join(sources)}] needs equal widths, but the encoder's states have {size} and "
                f"the decoder's {state}; use attention.projection=auto, or equal sizes"
            )
    query = {"token": model["embedding_dim"], "prev_state": state, "state": state, "context": value}
    query["tag"] = config["query"].get("language_tag", {}).get("embedding_dim")
    query["nothing"] = config["query"].get("self_attentive", {}).get("size")
    widths = [query[need] for need in query_needs(config).values()]
    is_known = None not in (key, *widths)
    if is_known and sum(widths) != key and part_declarations(config, "scorer").get("requires_equal_dims"):
        raise UserError(
            f"scorer={config['scorer']['name']} needs equal widths, but the query has {sum(widths)} and the memory "
            f"{key}; use attention.projection=auto, another scorer, or equal sizes"
        )
