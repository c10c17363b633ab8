"""Translates Hydra's errors to one line with near misses."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from yaml import MarkedYAMLError

from attnx import registry
from attnx.config.groups import (
    GROUPS,
    HYDRA_OPTIONS,
    PART_GROUPS,
    PLACED,
    PRESETS,
    SCALARS,
    default_parts,
    group_choices,
    listed_parts,
    option_keys,
    parts_by_option,
)
from attnx.config.hydra_internals import override_parser
from attnx.errors import UserError, suggest
from attnx.files.parse_number import MAX_DIGITS
from attnx.registry.part import MULTI_SELECT_KINDS
from attnx.registry.synonyms import suggest_known

LONG_NUMBER = re.compile(rf"\d{{{MAX_DIGITS + 1}}}")
# What a file that replaces a choice has in its list of defaults.
OVERRIDE = "a file replaces a choice by '- override /{}: NAME' in its defaults"
# The launcher and the sweeper that have options.
HAVE_OPTIONS = {"launcher": "slurm", "sweeper": "search"}
# Keys of Hydra's folders, and what to write instead.
FOLDERS = {
    "hydra.run": "a run lies in multirun/runs; write folder=FOLDER to name another folder",
    "hydra.sweep": "a sweep lies in multirun/NAME, its jobs in 0, 1, ... there; write name=NAME",
}


def reject_folder_overrides(overrides: Sequence[str]) -> None:
    """Reject overrides of Hydra's folders, and say what to write instead: attnx owns the folders of runs and sweeps."""
    for override in overrides:
        key = re.split(r"[=@]", override.lstrip("+~"), maxsplit=1)[0]
        for folder, instead in FOLDERS.items():
            if key == folder or key.startswith(f"{folder}."):
                raise UserError(f"{override}: {instead}")


def translate_hydra_error(error: Exception, overrides: Sequence[str], config_dir: str | None = None) -> str:
    """The message of an error of Hydra, or of a file that it cannot read, in one line; ``config_dir`` is the user's."""
    text = str(error)
    if unreadable := _file_error(error):
        return unreadable
    if missing := re.search(r"Could not (?:find|load) '([^']+)/([^'/]+)'", text):
        kind, name = missing.groups()
        if kind not in PRESETS and kind.partition("/")[0] in PRESETS:
            return unknown_key(kind, overrides)
        files = Path(config_dir, kind).glob("*.yaml") if config_dir else ()
        own = [file.stem for file in files if file.is_file()]
        return registry.unknown(kind, name, dict.fromkeys([*group_choices(kind), *own]))
    if unknown := re.search(r"Key '[^']+' is not in struct\s+full_key: (\S+)", text):
        return unknown_key(unknown[1], overrides)
    group = re.search(r"(?:In 'config': Could not find|Could not override) '([^'=]+)'", text)
    if group and group[1] not in GROUPS:
        return unknown_key(group[1], overrides)
    if several := re.search(r"(?:Ambiguous value for argument|Sweep parameters) '([^']+)'", text):
        return f"{several[1]} means several runs, which attnx -m trains in turn; write a list as [a,b]"
    if re.search(r"mismatched input|no viable alternative|extraneous input|token recognition|LexerNoViable", text):
        return _unreadable(overrides)
    return _value_error(text, overrides) or " ".join(text.split())


def _file_error(error: Exception) -> str:
    """The message on a file that cannot be read; empty for another error."""
    if isinstance(error, MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem_mark.name}:{error.problem_mark.line + 1}: not valid YAML: {error.problem}"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    if isinstance(error, RecursionError):
        return "nested too deep"
    return (
        f"{error.filename}: cannot be read: {error.strerror}" if isinstance(error, OSError) and error.filename else ""
    )


def _value_error(text: str, overrides: Sequence[str]) -> str:
    """The message on a value that Hydra cannot take; empty for another error."""
    if text.startswith("Config group override must be"):
        words = [override for override in overrides if "@" in override]
        return f"{' '.join(words)}: expected the name of a part after ="
    if twice := re.match(r"(?:Multiple values for )?(\w+)(?:\. To override| appears more than once)", text):
        return OVERRIDE.format(twice[1])
    if absent := re.match(r"Could not override '(\w+)'", text):
        return f"your config.yaml replaces that of attnx, and has no {absent[1]} in its defaults"
    if "Cannot merge DictConfig with ListConfig" in text:
        return "a list cannot replace a choice of several; " + OVERRIDE.format("KIND").replace("NAME", "[NAME]")
    if text.startswith("Could not delete"):
        words = [override for override in overrides if override.startswith("~")]
        return f"{' '.join(words)}: a choice cannot be removed; write another one, as in scorer=dot, or logger=[]"
    if missing := re.match(r"KeyError raised while resolving interpolation: \"(.*)\"", text):
        return f"{missing[1]}: in a value with ${{...}}; set it, or write the value itself"
    if text.startswith("Exceeds the limit"):
        keys = [override.partition("=")[0] for override in overrides if LONG_NUMBER.search(override)]
        return f"{' '.join(keys)}: a number is too long; write one of at most {MAX_DIGITS} digits"
    return ""


def reject_hydra_overrides(overrides: Sequence[str]) -> None:
    """Reject overrides of Hydra for a single run: its launchers and sweepers belong to sweeps."""
    for override in overrides:
        if override.lstrip("+~").startswith(("hydra.", "hydra/")):
            raise UserError(f"{override} has no effect on a single run; add -m for a sweep, or leave it out")


def _unreadable(overrides: Sequence[str]) -> str:
    """The message on an override that Hydra cannot parse, with its correct spelling."""
    from hydra.errors import HydraException

    parser, form = override_parser(), "write key=value, lists as key=[a,b]"
    for override in overrides:
        try:
            parser.parse_override(override)
        except HydraException:
            key, equals, value = override.partition("=")
            if not equals or not value:
                return f"cannot read {override!r}: {form}"
            bare = value.strip("'\"").replace("\\", "\\\\").replace('"', '\\"')
            quoted = shlex.quote(f'{key}="{bare}"')
            return f"cannot read {override}: {form}, and a value with other signs in quotes: {quoted}"
    return f"cannot read {' '.join(overrides)!r}: {form}"


def unknown_key(path: str, overrides: Sequence[str] = ()) -> str:
    """The message on an unknown key, with similar groups, or options of the part that ``overrides`` choose."""
    if in_file := _unknown_in_file(path, overrides):
        return in_file
    head, _, option = path.partition(".")
    if not option:
        options = option_keys(head)
        hint = f"; did you mean {' or '.join(options)}?" if options else suggest_known(head, [*GROUPS, *SCALARS])
        return f"unknown key {head!r}{hint}"
    if head == "placement":
        return f"{path}: no such part{suggest(option, PLACED)}"
    if head in MULTI_SELECT_KINDS:
        return _unknown_in_set(head, option)
    if head not in PART_GROUPS:
        return f"unknown key {path!r}{suggest(path, option_keys(option) or PART_GROUPS)}"
    owners = parts_by_option(head)
    if option in owners:
        return f"the chosen {head} has no option {option!r}; it belongs to {head}={', '.join(owners[option])}"
    outer, _, nested = option.partition(".")
    if nested and outer in owners:
        example = f"'{head}.{outer}={{name: NAME, {nested}: VALUE}}'"
        return f"{head}.{outer} is a value, not a group; a part with options is typed as {example}"
    if part := _chosen_part(head, overrides):
        return registry.unknown_option(head, part, option)
    return f"the chosen {head} has no option {option!r}{suggest_known(option, owners, f'{head}.')}"


def _unknown_in_file(path: str, overrides: Sequence[str]) -> str:
    """The message on a key that a file cannot have, or on an option of a launcher or a sweeper; else empty."""
    if path in PRESETS or path.partition("@")[2].partition(".")[0] in PRESETS:
        return "the first line of an experiment or a recipe has to be '# @package _global_'"
    group, _, kind = path.partition("@")[0].partition("/")
    if group in PRESETS and not any(override.lstrip("+~").startswith(f"{group}/") for override in overrides):
        return OVERRIDE.format(kind)
    head, _, name = path.rpartition(".")
    if "hydra.sweeper.params" in (path, head):
        key = name if head.endswith("params") else "KEY"
        return f"{path} is not set; +hydra.sweeper.params.{key}=VALUES adds what is varied"
    if head in ("hydra.launcher", "hydra.sweeper"):
        kind = head.removeprefix("hydra.")
        if name in HYDRA_OPTIONS[kind]:
            return f"the chosen hydra/{kind} has no option {name!r}; it belongs to hydra/{kind}={HAVE_OPTIONS[kind]}"
        return f"hydra/{kind} has no option {name!r}{suggest(name, HYDRA_OPTIONS[kind])}"
    return f"{path} is not set; +{path}=VALUE adds an option of Optuna's" if head.startswith("hydra.sweeper.") else ""


def _chosen_part(kind: str, overrides: Sequence[str]) -> str | None:
    """The part of a kind that overrides name, or their presets, or the default one; None if a file of options does."""
    choices = dict(override.lstrip("+").partition("=")[::2] for override in overrides)
    presets = [f"{group}/{choices[group]}" for group in PRESETS if choices.get(group) in group_choices(group)]
    listed = {**default_parts()}
    for preset in presets:
        listed |= listed_parts(preset)
    part = choices.get(kind, listed.get(kind))
    return part if part in registry.names(kind) else None


def _unknown_in_set(kind: str, path: str) -> str:
    """The message on an unknown key of a multi-select kind, whose members are chosen by name."""
    name, _, option = path.partition(".")
    owners = parts_by_option(kind)
    if not option and name in owners:
        return f"{kind}.{path}: which {kind}? write {' or '.join(f'{kind}.{owner}.{name}' for owner in owners[name])}"
    if not option or name in owners.get(option, []):
        return f"{kind}.{name} is not part of this {kind}; add it with +{kind}=[...]"
    return f"the {kind} {name!r} has no option {option!r}"
