"""Refuses options that the user wrote and that nothing in the composition reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attnx import registry
from attnx.config.view import value_text
from attnx.errors import UserError
from attnx.models.resolve import NoEffect
from attnx.registry.read_if import CONDITION
from attnx.registry.source_scan import MULTI_SELECT_KINDS

OFF = ("null", "false", "0", "0.0", "[]", "")
"""Values that switch an option off: they have the effect that they name."""


def ineffective_options(config: Mapping[str, Any]) -> Iterator[tuple[str, NoEffect]]:
    """The options of a checked configuration that its parts declare to be without effect, and why.

    A part declares by ``read_if`` when it reads an option, ``{"batch_size": "batch_tokens=null"}``, by
    ``leaves_unread`` which options of other parts have no effect beside it, and by ``for_models`` which of its options
    only a model reads that names them in its ``reads``.
    """
    for kind, name, key, node in _chosen_parts(config):
        declared = registry.describe(kind, name).declarations
        for option in declared.get("leaves_unread", ()):
            yield option, NoEffect(f"{kind}={name}")
        for option, conditions in declared.get("read_if", {}).items():
            if reason := _unmet(key, node, [conditions] if isinstance(conditions, str) else conditions):
                yield f"{key}.{option}", reason
        model = config["model"]["name"]
        for option, models in _readers(declared.get("for_models", ())).items():
            if model not in models:
                yield f"{key}.{option}", NoEffect(f"model={model}", f"use model={' or '.join(models)}")


def _chosen_parts(config: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    """The kind, the name, the key and the options of every part of a configuration."""
    for kind, node in config.items():
        if kind in MULTI_SELECT_KINDS:
            yield from ((kind, name, f"{kind}.{name}", options) for name, options in node.items())
        elif isinstance(node, Mapping) and "name" in node:
            yield kind, node["name"], kind, node


def _readers(options: Sequence[str]) -> dict[str, list[str]]:
    """The models that read each of some options."""
    models = {name: registry.describe("model", name).declarations.get("reads", ()) for name in registry.names("model")}
    return {option: [name for name, reads in models.items() if option in reads] for option in options}


def _unmet(key: str, node: Mapping[str, Any], conditions: Sequence[str]) -> NoEffect | None:
    """Why none of the conditions on a part's options holds, each ``a=1|2 b!=null``; None if one does."""
    failures: list[NoEffect] = []
    for condition in conditions:
        if not (failed := [failure for word in condition.split() if (failure := _failure(key, node, word))]):
            return None
        failures.append(failed[0])
    cause = " and ".join(dict.fromkeys(failure.cause for failure in failures))
    return NoEffect(cause, " or ".join(failure.remedy for failure in failures))


def _failure(key: str, node: Mapping[str, Any], word: str) -> NoEffect | None:
    """Why a condition on one option does not hold, and what would make it; None if it holds."""
    parsed = CONDITION.fullmatch(word)
    assert parsed is not None, "checked when the part was read"
    sibling, sign, values = parsed.groups()
    choices, actual = values.split("|"), value_text(None if node[sibling] == [] else node[sibling])
    if (actual in choices) == (sign == "="):
        return None
    cause = f"{key}.{sibling}={actual}"
    if sign == "=":
        return NoEffect(cause, f"set {key}.{sibling}={' or '.join(choices)}")
    return NoEffect(cause, f"set {key}.{sibling}" if values == "null" else f"choose another {key}.{sibling}")


def refuse_ineffective(
    ineffective: Mapping[str, NoEffect], overrides: Sequence[str], in_files: Mapping[Path, Sequence[str]]
) -> None:
    """Refuse an option that was written and has no effect; one that is switched off may be written.

    Args:
        ineffective: what has no effect: a key, ``trainer.batch_size``, a whole kind, ``encoder``, or a value,
            ``trainer.precision=tf32``.
        overrides: the overrides of the command line.
        in_files: those in the user's files, where the command line may leave them without effect.

    Raises:
        UserError: the option, what leaves it without effect, and what to do.
    """
    for override in overrides:
        if reason := _find(override, ineffective):
            raise UserError(_message(override, reason))
    keys = {_key(override) for override in overrides}
    for file, lines in in_files.items():
        for line in lines:
            reason = _find(line, ineffective)
            if reason and not keys & {*re.findall(r"([\w.]+)=", reason.cause)}:
                raise UserError(f"{file}: {_message(line, reason)}")


def _key(override: str) -> str:
    return re.split(r"[=@]", override.lstrip("+~"), maxsplit=1)[0]


def _find(override: str, ineffective: Mapping[str, NoEffect]) -> NoEffect | None:
    """Why an override has no effect; None if it has one, or switches something off."""
    bare, key = override.lstrip("+~"), _key(override)
    name = next((option for option in ineffective if f"{key}.".startswith(f"{option}.") or bare == option), "")
    is_off = name == key and "." in key and bare.partition("=")[2] in OFF
    return None if is_off else ineffective.get(name)


def _message(override: str, reason: NoEffect) -> str:
    remedy = f", or {reason.remedy}" if reason.remedy else ""
    return f"{override} has no effect beside {reason.cause}; leave it out{remedy}"
