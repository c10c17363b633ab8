"""Checks a composed configuration: known keys, parts and options, and choices that fit together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from attnx import registry
from attnx.config.groups import PART_GROUPS, PRESETS, SCALARS, check_placement, check_scalar, parts_by_option
from attnx.config.hydra_errors import unknown_key
from attnx.config.view import value_text
from attnx.errors import UserError
from attnx.models.resolve import resolve_model
from attnx.models.seq2seq.unread import POSITIONS
from attnx.registry.source_scan import MULTI_SELECT_KINDS

ATTENTION_KINDS = ("scorer", "scope", "query", "normalizer")
"""Kinds that have no effect with ``attention=none``."""
MODEL_KINDS = ("encoder", "decoder", "readout", "output", "attention", *ATTENTION_KINDS)
"""Kinds that a model is built of; a model that is built of fewer declares them as ``uses``."""


def check_config(config: Mapping[str, Any], overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Check a composed configuration and fill in the defaults.

    The user's overrides serve to refuse an override of a part that has no effect.

    Raises:
        UserError: an unknown key, part or option, a value of the wrong type, or choices that contradict each other.
    """
    for key in config:
        if key not in (*PART_GROUPS, *SCALARS, "placement"):
            raise UserError(unknown_key(key))
    checked: dict[str, Any] = {key: check_scalar(key, config.get(key)) for key in SCALARS}
    checked |= check_placement(config.get("placement"))
    checked |= {kind: _check_kind(kind, config, overrides) for kind in PART_GROUPS}
    checked = _drop_unused_groups(checked, overrides)
    _reject_ineffective_options(checked)
    _check_end(checked, overrides)
    resolve_model(checked)
    return checked


def _check_kind(kind: str, config: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """The chosen part of a kind with its options, or of a multi-select kind the parts by name."""
    if kind in MULTI_SELECT_KINDS:
        return registry.check_members(kind, config.get(kind) or {})
    names = ", ".join(registry.names(kind))
    if kind not in config:
        raise UserError(f"no {kind} is chosen; choose from {names}")
    if not isinstance(config[kind], dict | str):
        raise UserError(f"{kind}={config[kind]}: expected the name of a {kind}; choose from {names}")
    name, options = registry.parse_spec(kind, config[kind])
    options = _drop_replaced_options(kind, name, options, overrides)
    return {"name": name, **registry.check(kind, name, options)}


def _drop_replaced_options(kind: str, name: str, options: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Drop the options that a recipe or experiment set for a part which a stronger choice has replaced."""
    keys = {override.lstrip("+~").partition("=")[0] for override in overrides}
    if kind not in keys and not set(PRESETS) <= keys:
        return options
    foreign = parts_by_option(kind).keys() - {option.name for option in registry.describe(kind, name).options}
    return {option: value for option, value in options.items() if option not in foreign or f"{kind}.{option}" in keys}


def _drop_unused_groups(config: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Drop the kinds that the model is not built of, or that ``attention=none`` leaves without effect.

    Raises:
        UserError: the user set one of them, or the encoder though the task has no source.
    """
    model, task = (registry.describe(kind, config[kind]["name"]) for kind in ("model", "task"))
    uses = model.properties.get("uses", MODEL_KINDS)
    unused = {kind: f"model={model.name}; leave one of the two out" for kind in MODEL_KINDS if kind not in uses}
    if "attention" in uses and config["attention"]["name"] == "none":
        unused = {**dict.fromkeys(ATTENTION_KINDS, "attention=none; leave one of the two out"), **unused}
    no_source = {"encoder": f"task={task.name}, which has no source; leave it out"}
    reasons = {**(no_source if task.properties.get("is_continuation") else {}), **unused}
    for override in overrides:
        kind = re.split(r"[.=@]", override.lstrip("+~"), maxsplit=1)[0]
        if kind in reasons:
            raise UserError(f"{override} has no meaning beside {reasons[kind]}")
    return {key: value for key, value in config.items() if key not in unused}


def _reject_ineffective_options(config: Mapping[str, Any]) -> None:
    """Reject options that have no effect with the other values."""
    for kind in ("encoder", "decoder"):
        part = config.get(kind, {})
        if part.get("layers") == 1 and (dropout := part.get("dropout")):
            reason = f"falls between layers, and {kind}.layers=1; raise that, or use model.dropout"
            raise UserError(f"{kind}.dropout={dropout:g} {reason}")
    decoding, model = config["decoding"], config["model"]
    if decoding.get("length_penalty", "gnmt") != "gnmt":
        _reject_changed("decoding", config, "length_penalty_alpha", "decoding.length_penalty=gnmt")
    if model.get("keys_from") not in (None, *POSITIONS):
        _reject_changed("model", config, "position_dim", f"model.keys_from={' or '.join(POSITIONS)}")
    if "tag_dim" in model and not model.get("tag_inputs"):
        _reject_changed("model", config, "tag_dim", "model.tag_inputs")
    _reject_unread_by_model(config)


def _reject_unread_by_model(config: Mapping[str, Any]) -> None:
    """Reject options of the task and of query inputs that only other models read."""
    models = {name: registry.describe("model", name).properties.get("reads", ()) for name in registry.names("model")}
    queries = {f"query.{name}": {"name": name, **options} for name, options in config.get("query", {}).items()}
    for key, node in {"task": config["task"], **queries}.items():
        kind = key.partition(".")[0]
        for option in registry.describe(kind, node["name"]).properties.get("for_models", ()):
            if option not in models[config["model"]["name"]]:
                readers = [name for name, options in models.items() if option in options]
                _reject_changed(key, {key: node}, option, f"model={' or '.join(readers)}")


def _reject_changed(key: str, config: Mapping[str, Any], option: str, reader: str) -> None:
    """Reject an option that the chosen parts do not read, unless it has its default."""
    node = config[key]
    if not _is_default(key.partition(".")[0], node, option):
        raise UserError(f"{key}.{option}={value_text(node[option])} is read by {reader} alone; leave it out")


def _is_default(kind: str, node: Mapping[str, Any], option: str) -> bool:
    return bool(
        node[option] == next(p.default for p in registry.describe(kind, node["name"]).options if p.name == option)
    )


def _check_end(config: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Check that the run has an end, that ``budget=time`` has a time, and that a time which is set has an effect."""
    trainer = config["trainer"]
    is_set = any(override.lstrip("+").startswith("trainer.max_time=") for override in overrides)
    is_time_changed = is_set and trainer["max_time"] is not None and not _is_default("trainer", trainer, "max_time")
    if not any(trainer.get(end, True) for end in ("max_steps", "max_epochs", "max_time")):
        raise UserError("a run needs an end: set trainer.max_steps, trainer.max_epochs or trainer.max_time")
    for end in ("max_steps", "max_epochs"):
        if config["budget"] == "time" and trainer.get(end) is not None:
            raise UserError(
                f"budget=time is for runs that trainer.max_time ends, and trainer.{end}={trainer[end]} ends this one; "
                f"leave budget=time out, or set trainer.{end}=null and trainer.max_time=HH:MM:SS"
            )
        if is_time_changed and trainer.get(end) is not None:
            raise UserError(
                f"trainer.max_time={trainer['max_time']} has no effect beside trainer.{end}={trainer[end]}, which ends "
                f"the run; set trainer.{end}=null, or leave trainer.max_time out"
            )
