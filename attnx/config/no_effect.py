"""Refuses options that the user wrote, in a command or a file, and that nothing in the composition reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from attnx import registry
from attnx.config.groups import GROUPS, PRESETS, changed_options
from attnx.config.view import value_text
from attnx.errors import UserError
from attnx.models.resolve import NoEffect
from attnx.registry.part import CONDITION, CONDITION_KEYS, KINDS, MULTI_SELECT_KINDS, Part

OFF = ("null", "false", "0", "0.0", "[]", "")
"""Values that switch an option off: they have the effect that they name."""


class ChosenPart(NamedTuple):
    """A part of a configuration."""

    part: Part
    key: str  # of its options: ``scorer``, ``query.token``
    options: Mapping[str, Any]


def chosen_parts(config: Mapping[str, Any]) -> list[ChosenPart]:
    """The parts of a checked configuration, described once for all that asks about them."""
    parts = []
    for kind, node in config.items():
        if kind in MULTI_SELECT_KINDS:
            chosen = {f"{kind}.{name}": (name, options or {}) for name, options in node.items()}
        else:
            chosen = {kind: registry.parse_spec(kind, node)} if kind in KINDS else {}
        parts += [ChosenPart(registry.describe(kind, name), key, options) for key, (name, options) in chosen.items()]
    return parts


def ineffective_options(parts: Sequence[ChosenPart], config: Mapping[str, Any]) -> Iterator[tuple[str, NoEffect]]:
    """The options that the parts of a checked configuration declare to be without effect, and why.

    A part declares by ``read_if`` when it reads an option, ``{"batch_size": "batch_tokens=null"}``, by
    ``leaves_unread`` which options of other parts have no effect beside it, by ``leaves_unread_if`` which have none
    beside a value of its own, ``{"model.scheduled_sampling": "forecast=direct"}``, and by ``for_models`` which of its
    options only a model reads that names them in its ``reads``.
    """
    model, beside = config["model"]["name"], {key: config[key] for key in CONDITION_KEYS}
    for part, key, options in parts:
        declared, values = part.declarations, {**beside, **options}
        for option in declared.get("leaves_unread", ()):
            yield option, NoEffect(f"{part.kind}={part.name}")
        for option, condition in declared.get("leaves_unread_if", {}).items():
            if _unmet(key, values, [condition]) is None:
                own = re.split("!?=", condition)[0]
                yield option, NoEffect(f"{key}.{own}={value_text(values[own])}")
        for option, conditions in declared.get("read_if", {}).items():
            if reason := _unmet(key, values, [conditions] if isinstance(conditions, str) else conditions):
                yield f"{key}.{option}", reason
        for option in declared.get("for_models", ()):
            models = [registry.describe("model", name) for name in registry.names("model")]
            readers = [reader.name for reader in models if option in reader.declarations.get("reads", ())]
            if model not in readers:
                yield f"{key}.{option}", NoEffect(f"model={model}", f"use model={' or '.join(readers)}")


def with_other_values(ineffective: Mapping[str, NoEffect], parts: Sequence[ChosenPart]) -> dict[str, NoEffect]:
    """Those that have not their default, as an option may have in a configuration that was written out whole."""
    defaults = {
        f"{key}.{option.name}"
        for part, key, options in parts
        for option in part.options
        if options[option.name] == option.default
    }
    return {key: reason for key, reason in ineffective.items() if key not in defaults}


def _unmet(key: str, values: Mapping[str, Any], conditions: Sequence[str]) -> NoEffect | None:
    """Why none of a part's conditions holds, each ``a=1|2 b!=null``; None if one does."""
    failures: list[NoEffect] = []
    for condition in conditions:
        if not (failed := [failure for word in condition.split() if (failure := _failure(key, values, word))]):
            return None
        failures.append(failed[0])
    cause = " and ".join(dict.fromkeys(failure.cause for failure in failures))
    return NoEffect(cause, " or ".join(failure.remedy for failure in failures))


def _failure(key: str, values: Mapping[str, Any], word: str) -> NoEffect | None:
    """Why a condition on one option does not hold, and what would make it; None if it holds."""
    parsed = CONDITION.fullmatch(word)
    assert parsed is not None, "checked when the part was read"
    option, sign, texts = parsed.groups()
    choices, actual = texts.split("|"), value_text(None if values[option] == [] else values[option])
    if (actual in choices) == (sign == "="):
        return None
    option = option if option in CONDITION_KEYS else f"{key}.{option}"
    cause = f"{option}={actual}"
    if sign == "=":
        return NoEffect(cause, f"set {option}={' or '.join(choices)}")
    return NoEffect(cause, f"set {option}" if texts == "null" else f"choose another {option}")


def refuse_ineffective(
    ineffective: Mapping[str, NoEffect], overrides: Sequence[str], config: Mapping[str, Any]
) -> None:
    """Refuse an option that was written and has no effect; one that is switched off may be written.

    What has no effect is a key, ``trainer.batch_size``, a whole kind, ``encoder``, or a value,
    ``trainer.precision=tf32``. What files have set is known by its value in the configuration, which is not the
    default. The command line may leave that without effect; so may one of several presets.
    """
    for override in overrides:
        if reason := _find(override, ineffective):
            raise UserError(_message(override, reason))
    keys = {_key(override) for override in overrides}
    files = [override for override in overrides if _key(override) in GROUPS and not _is_part(override)]
    if not files or sum(key in PRESETS for key in keys) > 1:
        return
    for line in (f"{key}={value_text(value)}" for key, value in changed_options(config).items()):
        reason = _find(line, ineffective)
        if reason and not keys & {*re.findall(r"([\w.]+)=", reason.cause)}:
            raise UserError(f"{' '.join(files)}: {_message(line, reason)}")


def _is_part(override: str) -> bool:
    """Whether the choice of a group is a part, or several, and not a file of options."""
    key, _, value = override.lstrip("+~").partition("=")
    return value.startswith("[") or value in registry.names(key)


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
