"""Composes overrides to a plain configuration and checks it; mistakes are one line, before torch loads."""

from __future__ import annotations

import copy
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attnx import registry
from attnx.config.groups import (
    GROUPS,
    PART_GROUPS,
    PLACED,
    PRESETS,
    SCALARS,
    check_placement,
    check_scalar,
    conf_folder,
    group_choices,
    parts_by_option,
)
from attnx.config.hydra_errors import OVERRIDE, reject_folder_overrides, reject_hydra_overrides, unknown_key
from attnx.config.no_effect import (
    chosen_parts,
    ineffective_options,
    refuse_ineffective,
    with_other_values,
)
from attnx.data.paths import expand_path
from attnx.errors import UserError, check_words, reject_duplicates
from attnx.models.resolve import NoEffect, resolve_model
from attnx.registry.part import MULTI_SELECT_KINDS
from attnx.registry.plugin_files import current_folder
from attnx.runs.sweep import reject_repeated, split_override

ATTENTION_KINDS = ("scorer", "scope", "query", "normalizer")
"""Kinds that have no effect with ``attention=none``."""
MODEL_KINDS = ("encoder", "decoder", "readout", "output", "attention", *ATTENTION_KINDS)
"""Kinds that a model is built of; a model that is built of fewer declares them as ``uses``."""


def check_config(config: Mapping[str, Any], overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Check a composed configuration and fill in the defaults; an override that has no effect is refused."""
    for key in config:
        if key not in (*PART_GROUPS, *SCALARS, "placement"):
            is_choice = key in PRESETS and isinstance(config[key], str)
            raise UserError(OVERRIDE.format(key) if is_choice else unknown_key(key))
    checked: dict[str, Any] = {key: check_scalar(key, config.get(key)) for key in SCALARS}
    checked |= check_placement(config.get("placement"))
    checked |= {kind: _check_kind(kind, config, overrides) for kind in PART_GROUPS}
    kinds = _ineffective_kinds(checked)
    used = {key: value for key, value in checked.items() if key not in kinds}
    parts = chosen_parts(used)
    declared = dict(ineffective_options(parts, used)) | _ineffective_patience(used["trainer"])
    refuse_ineffective(kinds | with_other_values(declared, parts), overrides, checked)
    _check_end(used)
    for part, _, options in parts:
        if path := part.declarations.get("check_options"):
            registry.import_declared(part, path)(options)
    ineffective = resolve_model(used).ineffective
    refuse_ineffective(with_other_values(ineffective, parts), overrides, used)
    if "attention" not in ineffective:
        return used
    return {key: node for key, node in used.items() if key not in ATTENTION_KINDS} | {"attention": {"name": "none"}}


def _check_kind(kind: str, config: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """The chosen part of a kind with its options, or of a multi-select kind the parts by name."""
    if kind in MULTI_SELECT_KINDS:
        members, pairs = config.get(kind) or {}, [word.lstrip("+").partition("=")[::2] for word in overrides]
        if chosen := [_names_in(value) for key, value in pairs if key == kind]:  # the others are of a file
            with_options = [key.split(".")[1] for key, _ in pairs if key.startswith(f"{kind}.")]
            members = {name: options for name, options in members.items() if name in (*chosen[-1], *with_options)}
        return registry.check_members(kind, members)
    if not isinstance(config.get(kind), dict | str):
        wrong = f"{kind}={config[kind]}: expected the name of a {kind}" if kind in config else f"no {kind} is chosen"
        raise UserError(f"{wrong}; choose from {', '.join(registry.names(kind))}")
    name, options = registry.parse_spec(kind, config[kind])
    keys = {override.lstrip("+~").partition("=")[0] for override in overrides}
    if kind in keys or set(PRESETS) <= keys:  # a recipe or experiment set options of a part that is replaced now
        foreign = parts_by_option(kind).keys() - {option.name for option in registry.describe(kind, name).options}
        dropped = {option for option in foreign if f"{kind}.{option}" not in keys}
        options = {option: value for option, value in options.items() if option not in dropped}
    return {"name": name, **registry.check(kind, name, options)}


def _names_in(value: str) -> list[str]:
    """The names in the value of a choice: ``dot``, ``[token,state]``."""
    return re.findall(r"[^\[\],\s'\"]+", value)


def _ineffective_kinds(config: Mapping[str, Any]) -> dict[str, NoEffect]:
    """The kinds that have no effect: the model is not built of them, or there is no attention."""
    model = config["model"]["name"]
    uses = registry.describe("model", model).declarations.get("uses", MODEL_KINDS)
    has_none = "attention" in uses and config["attention"]["name"] == "none"
    kinds = {
        **(dict.fromkeys((*ATTENTION_KINDS, "placement.attention"), NoEffect("attention=none")) if has_none else {}),
        **{kind: NoEffect(f"model={model}") for kind in MODEL_KINDS if kind not in uses},
    }
    return kinds | {f"placement.{kind}": kinds[kind] for kind in PLACED if kind in kinds}


def _ineffective_patience(trainer: Mapping[str, Any]) -> dict[str, NoEffect]:
    """The patience, if a run has ended before it is lost: the first validation is a best one."""
    patience, validations = trainer.get("patience"), trainer.get("num_validations", 0)
    if not patience or patience + 1 < validations:
        return {}
    cause, remedy = f"trainer.num_validations={validations}", f"set trainer.num_validations={patience + 2} or more"
    return {"trainer.patience": NoEffect(cause, remedy)}


def _check_end(config: Mapping[str, Any]) -> None:
    """Check that the run has an end, and that a budget of time or operations has one."""
    trainer = config["trainer"]
    if not any(trainer.get(end, True) for end in ("max_steps", "max_epochs", "max_time")):
        raise UserError("a run needs an end: set trainer.max_steps, trainer.max_epochs or trainer.max_time")
    for end in ("max_steps", "max_epochs"):
        if config["budget"] == "time" and trainer.get(end) is not None:
            raise UserError(
                f"budget=time is for runs that trainer.max_time ends, and trainer.{end}={trainer[end]} ends this one; "
                f"leave budget=time out, or set trainer.{end}=null and trainer.max_time=HH:MM:SS"
            )
    if config["budget"] == "flops" and (trainer.get("max_steps") is None or trainer.get("max_epochs") is not None):
        raise UserError(
            "budget=flops gives each job the operations of the first one's trainer.max_steps; set trainer.max_steps, "
            "and leave trainer.max_epochs out"
        )


SEED = re.compile(r"\+*seed=\d+")
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
        UserError: any mistake, in one line, which names the user's file that has it.
    """
    check_words(overrides, "overrides", "compose(['scorer=dot'])")
    registry.forget_changed()
    reject_folder_overrides(overrides)
    reject_hydra_overrides(overrides)
    overrides = canonicalize_overrides(overrides)
    reject_ambiguous(overrides)
    try:
        config = _compose(overrides, config_dir)
    except UserError as error:
        raise UserError(_name_file(str(error), overrides, config_dir)) from error
    if config["folder"]:
        config["folder"] = str(expand_path("folder", config["folder"]))
    return config


def _compose(overrides: Sequence[str], config_dir: str | None) -> dict[str, Any]:
    from attnx.config.hydra_session import compose_by_hydra, hydra_session, plain_config

    with hydra_session(overrides, config_dir):
        plain = plain_config(compose_by_hydra(overrides))
    return check_config(plain, overrides)


def _name_file(message: str, overrides: Sequence[str], config_dir: str | None) -> str:
    """A message on a mistake, which begins with the file that has it: to choose that file alone gives the same."""
    own = Path(config_dir or os.devnull, "config.yaml")  # which replaces that of attnx
    chosen = [(own, list[str]())] if own.is_file() else []
    for folder in filter(None, [config_dir, os.path.relpath(conf_folder(), current_folder())]):
        for group, name in map(split_override, overrides):
            files = Path(folder, group).glob("*.yaml") if group in GROUPS else ()
            chosen += [(file, [f"{group}={name}"]) for file in files if file.stem == name and file.is_file()]
    for file, choice in chosen:
        if str(file.resolve()) in message:  # as YAML's own errors have it
            return message.replace(str(file.resolve()), str(file))
        try:
            _compose(choice, config_dir)
        except UserError as error:
            if str(error) == message and not any(word in message for word in choice):
                return f"{file}: {message}"
    return message


def compose_jobs(jobs: Sequence[Sequence[str]], config_dir: str | None = None) -> list[dict[str, Any]]:
    """Compose and check the configurations of a sweep's jobs, as :func:`compose` does.

    Many jobs differ by the seed alone, and composing takes a tenth of a second. A setting is therefore composed with
    two seeds. If nothing else differs, no value refers to the seed, and the configurations of its other seeds follow.
    """
    samples = defaultdict[tuple[str, ...], list[dict[str, Any]]](list)  # of each setting, with different seeds
    configs = []
    for job in jobs:
        seeds = [word for word in job if SEED.fullmatch(word)]
        composed = samples[tuple(word for word in job if word not in seeds)]
        if len(seeds) == 1 and len(composed) == 2 and composed[0] | {"seed": composed[1]["seed"]} == composed[1]:
            seed = check_scalar("seed", int(seeds[0].partition("=")[2]))
            configs.append(copy.deepcopy(composed[0]) | {"seed": seed})
            continue
        configs.append(compose(job, config_dir))
        if all(configs[-1]["seed"] != config["seed"] for config in composed):
            composed.append(configs[-1])
    return configs


def canonicalize_overrides(overrides: Sequence[str]) -> list[str]:
    """Spell ``+scorer=x``, ``++scorer=x`` and ``scorer=x`` alike; Hydra accepts one of them, depending on the defaults.

    The plus before a group is dropped, and one before a value becomes a force-override: unknown keys are refused later.
    """
    canonical = []
    for override in overrides:
        bare = override.lstrip("+")
        if re.match(r"\w+@", bare):  # a package, which the defaults list does not hold
            override = f"+{bare}"
        elif bare != override and "=" in override:
            override = bare if re.split("[=@]", bare)[0] in GROUPS else f"++{bare}"
        canonical.append(override)
    return canonical


def reject_ambiguous(overrides: Sequence[str]) -> None:
    """Reject a group that is chosen twice, or whose value is not a name; multi-select kinds take a list.

    In a list of a program the last value of an option holds, as of one that is added to others.
    """
    reject_repeated([override for override in overrides if override.partition("=")[0] in GROUPS])
    for override in overrides:
        key, _, value = override.partition("=")
        if key not in GROUPS:
            continue
        names = _names_in(value)
        first_letter = r"[^{]" if key in MULTI_SELECT_KINDS else r"[^{[]"
        is_nested = "[" in value[1:] or any(map(NON_STRING.fullmatch, names))
        if not re.match(first_letter, value) or is_nested:
            expected = "names" if value.startswith("[") and key in MULTI_SELECT_KINDS else "one name"
            raise UserError(f"{override}: expected {expected}; choose from {', '.join(group_choices(key))}")
        if value.startswith("/") or ".." in value.split("/"):
            raise UserError(f"{override}: expected a plain name; choose from {', '.join(group_choices(key))}")
        if value.startswith("["):
            reject_duplicates(key, names, key)
