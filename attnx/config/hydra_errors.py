"""What Hydra refused, said in one line of our own, with near misses."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from attnx import registry
from attnx.config.groups import CHOSEN, GROUPS, SCALARS, knob_keys, options, owners
from attnx.errors import UserError, near_misses
from attnx.registry.source_scan import SETS

# Folders of Hydra's that attnx does not use, and what to write instead.
FOLDERS = {
    "hydra.run": "a run lies in multirun/runs; write folder=FOLDER to name another folder",
    "hydra.sweep": "a sweep lies in multirun/NAME, its jobs in 0, 1, ... there; write name=NAME",
}


def refuse_folders(overrides: Sequence[str]) -> None:
    """Refuse what would tell Hydra where to write: attnx owns the folders of runs and sweeps.

    Raises:
        UserError: an override does, with what to write instead.
    """
    for override in overrides:
        key = re.split(r"[=@]", override.lstrip("+~"), maxsplit=1)[0]
        for folder, instead in FOLDERS.items():
            if key == folder or key.startswith(f"{folder}."):
                raise UserError(f"{override}: {instead}")


def in_our_words(error: Exception, overrides: Sequence[str]) -> str:
    """Say in one line what Hydra refused."""
    text = str(error)
    missing = re.search(r"Could not (?:find|load) '([^']+)/([^'/]+)'", text)
    if missing:
        kind, name = missing.groups()
        return registry.unknown(kind, name, options(kind))
    unknown = re.search(r"Key '([^']+)' is not in struct\s+full_key: (\S+)", text)
    if unknown:
        return unknown_key(unknown[2])
    group = re.search(r"In 'config': Could not (?:find|override) '([^']+)'", text) or re.search(
        r"Could not override '([^'=]+)'", text
    )
    if group and group[1] not in GROUPS:
        return unknown_key(group[1])
    several = re.search(r"(?:Ambiguous value for argument|Sweep parameters) '([^']+)'", text)
    if several:
        return f"{several[1]} means several runs; add -m to run them in turn, or write a list as [a,b]"
    syntax = re.search(
        r"(?:mismatched input|no viable alternative|extraneous input|token recognition|LexerNoViable)", text
    )
    if syntax:
        return _unreadable(overrides)
    return " ".join(text.split())


def refuse_unheard(overrides: Sequence[str]) -> None:
    """Refuse what is said to Hydra where it runs nothing: its launchers and sweepers are those of sweeps.

    Raises:
        UserError: there is such a word.
    """
    for override in overrides:
        if override.lstrip("+~").startswith(("hydra.", "hydra/")):
            raise UserError(f"{override} has no effect on a single run; add -m for a sweep, or leave it out")


def _unreadable(overrides: Sequence[str]) -> str:
    """Which override Hydra's grammar has no place for, and how to write it: as a string, if it has a value."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser = OverridesParser.create()
    for override in overrides:
        try:
            parser.parse_override(override)
        except HydraException:
            key, equals, value = override.partition("=")
            if re.search(r"\s\+*[\w.]+=", value):
                return f"cannot read {override!r}: a choice is a word of its own; write {override}"
            if value.startswith("=") and value.strip("="):
                return f"cannot read {override}: write {key}={value.lstrip('=')}"
            if not equals or not value:
                return f"cannot read {override!r}: write key=value, lists as key=[a,b]"
            bare = value.strip("'\"").replace("\\", "\\\\").replace('"', '\\"')
            quoted = shlex.quote(f'{key}="{bare}"')
            return f"cannot read {override}: write lists as key=[a,b], and quote what else holds signs: {quoted}"
    return f"cannot read {' '.join(overrides)!r}: write key=value, lists as key=[a,b]"


def unknown_key(path: str) -> str:
    """Say that there is no such key, and which one may be meant: a choice, or a knob of one."""
    head, _, knob = path.partition(".")
    if not knob:
        knobs = knob_keys(head)
        meant = f"; did you mean {' or '.join(knobs)}?" if knobs else near_misses(head, [*GROUPS, *SCALARS])
        return f"unknown key {head!r}{meant}"
    if head in SETS:
        return _unknown_in_set(head, knob)
    if head not in CHOSEN:
        return f"unknown key {path!r}{near_misses(path, knob_keys(knob) or CHOSEN)}"
    held = owners(head)
    if knob in held:
        return f"the chosen {head} has no knob {knob!r}; it belongs to {head}={', '.join(held[knob])}"
    return f"the chosen {head} has no knob {knob!r}{near_misses(knob, held)}"


def _unknown_in_set(kind: str, path: str) -> str:
    """Of a kind of which several are chosen at once: the member must be named, and be chosen."""
    name, _, knob = path.partition(".")
    held = owners(kind)
    if not knob and name in held:
        return f"{kind}.{path}: which {kind}? write {' or '.join(f'{kind}.{owner}.{name}' for owner in held[name])}"
    if not knob or name in held.get(knob, []):
        return f"{kind}.{name} is not part of this {kind}; add it with +{kind}=[...]"
    return f"the {kind} {name!r} has no knob {knob!r}"
