"""Composes overrides to a checked plain configuration; mistakes are one line, before torch loads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from attnx import registry
from attnx.config.check import check_config
from attnx.config.groups import GROUPS, group_choices
from attnx.config.hydra_errors import reject_folder_overrides, reject_hydra_overrides
from attnx.config.no_effect import overrides_in_files
from attnx.data.paths import expand_path
from attnx.errors import UserError, reject_duplicates
from attnx.registry.part import MULTI_SELECT_KINDS

NON_STRING = re.compile(r"null|true|false|[-+]?[\d.]+(e[-+]?\d+)?", re.IGNORECASE)
"""Values that Hydra does not parse as a string."""


def compose(overrides: Sequence[str] = (), config_dir: str | None = None) -> dict[str, Any]:
    """Compose and check a configuration.

    Args:
        overrides: as on the command line: ``["+scorer=additive", "scope.window=5"]``.
        config_dir: a folder of the user's own configuration files, searched first.

    Returns:
        the configuration as plain containers, with every option.

    Raises:
        UserError: any mistake, in one line.
    """
    from hydra import compose as hydra_compose

    from attnx.config.hydra_session import hydra_session, plain_config

    is_list = isinstance(overrides, Sequence) and not isinstance(overrides, str)
    if not is_list or not all(isinstance(override, str) for override in overrides):
        raise UserError(f"{overrides!r}: give a list of overrides, as in compose(['scorer=dot'])")
    registry.forget_changed()
    reject_folder_overrides(overrides)
    reject_hydra_overrides(overrides)
    overrides = canonicalize_overrides(overrides)
    reject_ambiguous(overrides)
    with hydra_session(overrides, config_dir):
        plain = plain_config(hydra_compose("config", overrides))
    config = check_config(plain, overrides, overrides_in_files(overrides, config_dir))
    if config["folder"]:
        config["folder"] = str(expand_path("folder", config["folder"]))
    return config


def canonicalize_overrides(overrides: Sequence[str]) -> list[str]:
    """Spell ``+scorer=x``, ``++scorer=x`` and ``scorer=x`` alike; Hydra accepts one of them, depending on the defaults.

    The plus before a group is dropped, and one before a value becomes a force-override: unknown keys are refused later.
    """
    return [_canonical(override) for override in overrides]


def _canonical(override: str) -> str:
    bare = override.lstrip("+")
    if re.match(r"\w+@", bare):  # a package, which the defaults list does not hold
        return f"+{bare}"
    if bare == override or "=" not in override:
        return override
    return bare if bare.split("=", 1)[0].split("@")[0] in GROUPS else f"++{bare}"


def reject_repeated(overrides: Sequence[str]) -> None:
    """Reject a key that is set twice: of two values one has no effect."""
    written: dict[str, str] = {}
    for override in overrides:
        bare = override.lstrip("+~")
        key = bare.partition("=")[0]
        if key in written:
            raise UserError(f"{key} is set twice, by {written[key]} and {bare}; leave one out")
        written[key] = bare


def reject_ambiguous(overrides: Sequence[str]) -> None:
    """Reject a group that is chosen twice, or whose value is not a name; multi-select kinds take a list.

    In a list of a program the last value of an option holds, as of one that is added to others.
    """
    reject_repeated([override for override in overrides if override.partition("=")[0] in GROUPS])
    for override in overrides:
        key, _, value = override.partition("=")
        if key not in GROUPS:
            continue
        first_letter = r"[^{]" if key in MULTI_SELECT_KINDS else r"[^{[]"
        if not re.match(first_letter, value) or NON_STRING.fullmatch(value):
            raise UserError(f"{override}: expected one name; choose from {', '.join(group_choices(key))}")
        if value.startswith("/") or ".." in value.split("/"):
            raise UserError(f"{override}: expected a plain name; choose from {', '.join(group_choices(key))}")
        if value.startswith("["):
            reject_duplicates(key, re.findall(r"[^\[\],\s]+", value), key)
