"""The defaults of options, and the options of a configuration that are not theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnx import registry
from attnx.config.groups import DEFAULTS, PART_GROUPS, default_parts
from attnx.config.view import choice_text, dotted_keys
from attnx.registry.part import MULTI_SELECT_KINDS


def changed_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Parts other than the default ones, options other than their part's defaults, and other values, by dotted keys.

    A value without a default, such as a name, is changed if it is set.

    Raises:
        UserError: it names a part that no longer exists.
    """
    parts = {kind: _without_options(kind, config[kind]) for kind in PART_GROUPS if kind in config}
    defaults = {**dotted_keys(registry.with_defaults(parts)), **default_parts(), **DEFAULTS}
    return {key: value for key, value in dotted_keys(config).items() if value != defaults.get(key)}


def _without_options(kind: str, node: Mapping[str, Any]) -> dict[str, Any]:
    return {name: {} for name in node} if kind in MULTI_SELECT_KINDS else {"name": node["name"]}


def default_choice(key: str) -> str:
    """The value that a dotted key has by default, as reports compare it; empty if it has none.

    >>> default_choice("scorer"), default_choice("scope.window"), default_choice("seed")
    ('additive', '', '1')
    """
    parts = default_parts()
    kind, _, name = key.partition(".")
    if kind not in parts or kind in MULTI_SELECT_KINDS:
        value = parts.get(key, DEFAULTS.get(key, ""))
    else:
        options = {option.name: option.default for option in registry.describe(kind, parts[kind]).options}
        value = options.get(name, "") if name else parts[kind]
    return choice_text(value)
