"""Resolve a model's configuration: derive and check its options before torch is imported."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from attnx import registry
from attnx.attention.options import (
    HEAD_LISTS,
    OTHER_STEPS,
    SHARED_SCOPE_OPTIONS,
    check_heads,
    parts_in_force,
    reject_part,
    shared_scope_options,
)
from attnx.errors import UserError
from attnx.models.planner import KNOWN_IN_ADVANCE
from attnx.registry.plugin_errors import report_plug_in_errors

if TYPE_CHECKING:
    from torch import nn

Config = Mapping[str, Any]
QUERY_NEEDS = ("token", "prev_state", "state", "context", "tag", "nothing")


class NoEffect(NamedTuple):
    """Why an option has no effect."""

    cause: str  # the choices that leave it without one: ``attention=none``
    remedy: str = ""  # what else to do than to leave it out


class DataSizes(NamedTuple):
    """The sizes of a run's data that its model is built for."""

    source_symbols: int = 0  # size of the source vocabulary; 0 if a source step is a row of numbers
    source_features: int = 0  # numbers per source step; 0 if it is a symbol
    target_symbols: int = 0  # likewise of the target
    target_features: int = 0
    tags: int = 0  # number of tags (languages) that rows can have


@dataclass(frozen=True)
class ResolvedConfig:
    """A checked configuration with all that its model derives from it; nothing, if the model is registered itself."""

    config: Config
    ineffective: Mapping[str, NoEffect] = field(default_factory=dict, kw_only=True)  # options without effect, by key

    @property
    def sites(self) -> tuple[str, ...]:
        """What each map of weights that the model returns is of, where that needs a name."""
        return ()

    @property
    def self_attention_sites(self) -> Mapping[str, tuple[str, ...]]:
        """The same of the heads of self-attention, by stream, where the returned weights are not theirs."""
        return {}

    def summary(self) -> dict[str, str]:
        """The lines of the start table: ``schedule`` with its reason, and ``derived``, the derived options."""
        return {}

    def build(self, sizes: DataSizes) -> nn.Module:
        """Build the model; a UserError if the parts do not fit the data."""
        model: nn.Module = registry.build("model", self.config["model"], config=self.config, **sizes._asdict())
        return model


class ModelConfig(Protocol):
    """The options of a model: a frozen dataclass, registered as the model, in a module that does not import torch.

    A model may also be registered itself; then its options are not resolved.
    """

    is_torch_free: ClassVar[bool] = True  # read from the source: it may be imported to check a command

    def resolve(self, config: Config) -> ResolvedConfig:
        """Derive options and check that the choices do not contradict each other.

        Raises:
            UserError: one line with the options that contradict each other and what to choose.
        """


def resolve_model(config: Config) -> ResolvedConfig:
    """Resolve a checked configuration; options that contradict each other are a UserError."""
    part = registry.describe("model", config["model"]["name"])
    bias = config.get("attention", {}).get("bias")
    if bias is not None:
        registry.fill_in("bias", bias)
    if not part.declarations.get("has_head_sites"):
        check_heads(config.get("attention", {}), config.get("scorer"), config.get("scope", "global"))
    if part_declarations(config, "attention").get("maps_per_head", 1) > 1:
        reason = f"a head of attention={config['attention']['name']} has two maps"
        reject_parts(config, ("scorer", "normalizer"), reason, *OTHER_STEPS)
    resolved = ResolvedConfig(config)
    if part.declarations.get("is_torch_free"):
        options: ModelConfig = registry.build("model", config["model"])
        with nullcontext() if part.origin == "core" else report_plug_in_errors(part):
            resolved = options.resolve(config)
    replaced = _replaced_by_heads(config, resolved.ineffective)
    return replace(resolved, ineffective={**replaced, **resolved.ineffective}) if replaced else resolved


def _replaced_by_heads(config: Config, ineffective: Collection[str]) -> dict[str, NoEffect]:
    """The choices for all heads that parts listed for heads replace, unless the list is ``ineffective``, too."""
    replaced: dict[str, NoEffect] = {}
    for kind, option in HEAD_LISTS.items():
        if {"attention", f"attention.{option}"} & {*ineffective}:
            continue
        in_force = parts_in_force(config, kind)
        if in_force.option == kind:
            continue
        sites = {f"model.{site}_{kind}": config["model"].get(f"{site}_{kind}") for site in ("self", "cross")}
        keys = [kind, *sites]
        if kind == "scope":  # heads share its sources
            part, default = config[kind], shared_scope_options("global")
            names = [known.name for known in registry.describe(kind, part["name"]).options]
            keys = [f"{kind}.{name}" for name in names if name not in SHARED_SCOPE_OPTIONS]
            chosen = {f"{kind}={part['name']}": part, **sites}
            keys += [key for key, scope in chosen.items() if scope and shared_scope_options(scope) == default]
        replaced |= dict.fromkeys(keys, NoEffect(str(in_force)))
    return replaced


def part_declarations(config: Config, kind: str) -> dict[str, Any]:
    """The declarations of the configured part of a kind; empty if the configuration has none."""
    return registry.describe(kind, config[kind]["name"]).declarations if kind in config else {}


def names_declaring(kind: str, declaration: str) -> list[str]:
    """The parts of a kind that declare something to be so, such as ``has_labels``."""
    return [name for name in registry.names(kind) if registry.describe(kind, name).declarations.get(declaration)]


def require_task(config: Config, declaration: str, does: str, has: str, otherwise: str = "") -> None:
    """Raise a UserError if a task does not declare what a model is for.

    ``does`` says what the model does, ``has`` what the task has instead, ``otherwise`` which other model to use.
    """
    tasks = names_declaring("task", declaration)
    if "task" in config and config["task"]["name"] not in tasks:
        model, task = config["model"]["name"], config["task"]["name"]
        raise UserError(f"model={model} {does}, but task={task} has {has}; use task={' or '.join(tasks)}{otherwise}")


def query_needs(config: Config) -> dict[str, str]:
    """What each query input needs, as it declares it, which a model must be able to supply; empty without attention.

    Raises:
        UserError: a query input declares nothing that a model could supply.
    """
    needs = {}
    for name in config.get("query", {}):
        part = registry.describe("query", name)
        needs[name] = part.declarations.get("needs", "")
        if needs[name] not in QUERY_NEEDS:
            choices = f"{', '.join(QUERY_NEEDS[:-1])} or {QUERY_NEEDS[-1]}"
            raise UserError(f"{part.place}: the query input {name!r} must declare needs = {choices}")
    return needs


def require_attention(config: Config) -> None:
    """Raise a UserError if a model which cannot do without attention has none."""
    if config["attention"]["name"] == "none":
        model = config["model"]["name"]
        raise UserError(f"model={model} needs attention, but attention=none is chosen; remove one of the two")


def reject_bias(config: Config, reason: str) -> None:
    """Raise a UserError if attention has a bias by position; ``reason`` says why the memory has no order."""
    if config["attention"].get("bias") is not None:
        name = registry.parse_spec("bias", config["attention"]["bias"])[0]
        raise UserError(f"attention.bias={name} depends on distances, but {reason}; remove it")


def reject_parts(config: Config, kinds: Iterable[str], reason: str, *declarations: str) -> None:
    """As :func:`reject_part`, of the parts of these kinds; ``query`` and the heads may have several."""
    for kind in kinds:
        if kind == "query":
            option, names = kind, [*config[kind]]
        else:
            in_force = parts_in_force(config, kind)
            option, names = in_force.option, [part["name"] for part in in_force.parts]
        for name in names:
            reject_part(option, kind, name, reason, declarations)


def reject_text_encoder(config: Config) -> None:
    """Raise a UserError if the encoder reads sentences or pairs of texts, which a classifier alone has."""
    states = {"needs_sentences": "a state for each sentence", "needs_pairs": "states of two texts"}
    for declared, phrase in states.items():
        if part_declarations(config, "encoder").get(declared):
            encoder, model = config["encoder"]["name"], config["model"]["name"]
            raise UserError(f"encoder={encoder} has {phrase}, which only model=classifier reads, not model={model}")


def check_hops(config: Config, needs: Collection[str], states: str = "current_state or previous_state") -> None:
    """Check that each read of several hops can refine its query.

    ``needs`` are those of the query inputs, ``states`` the query inputs of the model that hold a state.

    Raises:
        UserError: no query input depends on what was read, or the scorer or normalizer on earlier weights.
    """
    hops = config["attention"].get("hops", 1)
    if hops == 1:
        return
    if set(needs) <= KNOWN_IN_ADVANCE:
        raise UserError(
            f"attention.hops={hops} refines a state, and query=[{','.join(config['query'])}] holds none; add {states}"
        )
    reason = f"the hops of a step (attention.hops={hops}) would be several steps"
    reject_parts(config, ("scorer", "normalizer"), reason, "needs_history", "is_recurrent")


def require_tags(num_tags: int, option: str) -> None:
    """Raise a UserError if the data has no tags, which an option needs."""
    if not num_tags:
        raise UserError(
            f"{option} needs data with tags, such as task.train=FOLDER with a file for each language, but this data "
            "has none"
        )


def check_tied_embeddings(tie_embeddings: bool, target_features: int) -> None:
    """Raise a UserError if embeddings are tied and the target is made of numbers."""
    if tie_embeddings and target_features:
        raise UserError(
            "model.tie_embeddings=true needs target symbols to embed, but the target is made of features; remove it"
        )
