"""From a command line to a checked plain configuration, with mistakes told in our own words and before torch loads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from attnx import registry
from attnx.config.groups import (
    CHOSEN,
    GROUPS,
    PRESETS,
    SCALARS,
    check_placement,
    check_scalar,
    conf_folder,
    options,
    owners,
)
from attnx.config.hydra_errors import in_our_words, refuse_folders, refuse_unheard, unknown_key
from attnx.errors import UserError
from attnx.models.resolve import resolve
from attnx.models.seq2seq.config import POSITIONS
from attnx.registry.source_scan import SETS

# What Hydra reads as no word: nothing, a truth value or a number.
NO_NAME = re.compile(r"null|true|false|[-+]?[\d.]+(e[-+]?\d+)?", re.IGNORECASE)
# The groups that say how to attend, meaningless beside attention=none.
ATTENDING = ("scorer", "scope", "query", "normalizer")
# What models are built of; one that takes less declares it as ``uses``, and the rest is meaningless beside it.
BUILT_OF = ("encoder", "decoder", "readout", "output", "attention", *ATTENDING)


def normalize(overrides: Sequence[str]) -> list[str]:
    """Let ``+scorer=x``, ``++scorer=x`` and ``scorer=x`` mean the same, whatever the defaults list holds.

    Hydra accepts only one spelling of each, depending on where a default stands. A plus before a group goes away; one
    before a value becomes a force-override; what remains unknown is told by :func:`check`.
    """

    def one(override: str) -> str:
        bare = override.lstrip("+")
        if re.match(r"\w+@", bare):  # one place of several, which the defaults list does not hold
            return f"+{bare}"
        if bare == override or "=" not in override:
            return override
        return bare if bare.split("=", 1)[0].split("@")[0] in GROUPS else f"++{bare}"

    return [one(override) for override in overrides]


def compose(overrides: Sequence[str] = (), config_dir: str | None = None) -> dict[str, Any]:
    """Compose and check a configuration.

    Args:
        overrides: as on the command line: ``["+scorer=additive", "scope.window=5"]``.
        config_dir: a folder of the user's own configuration files, searched first.

    Returns:
        the configuration as plain containers, every knob filled in.

    Raises:
        UserError: any mistake, in one line.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from attnx.config.hydra_store import store_options

    if isinstance(overrides, str):
        raise UserError(f"{overrides!r}: give a list of overrides, as in compose({overrides.split()!r})")
    if not isinstance(overrides, Sequence) or not all(isinstance(override, str) for override in overrides):
        raise UserError(f"{overrides!r}: give a list of overrides, as in compose(['scorer=dot', 'seed=3'])")
    registry.forget_changed()
    store_options(config_dir)
    refuse_folders(overrides)
    refuse_unheard(overrides)
    spelled = normalize(overrides)
    refuse_unclear(spelled)
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(conf_folder().resolve()), version_base="1.3"):
            plain = OmegaConf.to_container(hydra_compose("config", spelled), resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(in_our_words(error, spelled)) from error
    assert isinstance(plain, dict)
    return check({str(key): value for key, value in plain.items()}, spelled)


def check(config: dict[str, Any], overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Check a composed configuration and fill in what it leaves out.

    Args:
        config: plain containers.
        overrides: what the user named, to refuse parts named beside ``attention=none``.

    Raises:
        UserError: an unknown key, part or knob, a value of the wrong type, or choices that contradict each other.
    """
    for key in config:
        if key not in (*CHOSEN, *SCALARS, "placement"):
            raise UserError(unknown_key(key))
    checked: dict[str, Any] = {key: check_scalar(key, config.get(key)) for key in SCALARS}
    checked |= check_placement(config.get("placement"))
    for kind in CHOSEN:
        if kind in SETS:
            checked[kind] = {
                name: registry.check(kind, name, knobs or {}) for name, knobs in (config.get(kind) or {}).items()
            }
        elif kind in config:
            name, knobs = registry.spec(kind, _node(kind, config[kind]))
            knobs = _without_outdone(kind, name, knobs, overrides)
            checked[kind] = {"name": name, **registry.check(kind, name, knobs)}
        else:
            raise UserError(f"no {kind} is chosen; choose from {', '.join(registry.names(kind))}")
    checked = _without_meaningless(checked, overrides)
    _refuse_unread(checked, overrides)
    _refuse_idle(checked)
    trainer = checked["trainer"]
    if not any(trainer.get(end, True) for end in ("max_steps", "max_epochs", "max_time")):
        raise UserError("a run needs an end: set trainer.max_steps, trainer.max_epochs or trainer.max_time")
    _refuse_timeless(checked)
    resolve(checked)
    return checked


def _node(kind: str, value: Any) -> Any:
    if not isinstance(value, dict | str):
        raise UserError(f"{kind}={value}: expected the name of a {kind}; choose from {', '.join(registry.names(kind))}")
    return value


def _without_outdone(kind: str, name: str, knobs: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Leave out knobs that a recipe or experiment gave a part when a stronger choice has put another in its place."""
    named = {override.lstrip("+~").partition("=")[0] for override in overrides}
    if kind not in named and not set(PRESETS) <= named:
        return knobs
    own = {knob.name for knob in registry.part(kind, name).knobs}
    others = owners(kind).keys() - own
    return {knob: value for knob, value in knobs.items() if knob not in others or f"{kind}.{knob}" in named}


def _without_meaningless(config: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Leave out the groups that the model is not built of, or that say how to attend where nothing does.

    Raises:
        UserError: the user named one of them.
    """
    model = config["model"]["name"]
    uses = registry.part("model", model).declares.get("uses", BUILT_OF)
    unused = {kind: f"model={model}" for kind in BUILT_OF if kind not in uses}
    if "attention" in uses and config["attention"]["name"] == "none":
        unused = {**dict.fromkeys(ATTENDING, "attention=none"), **unused}
    for override in overrides:
        word = re.split(r"[.=@]", override.lstrip("+~"), maxsplit=1)[0]
        if word in unused:
            raise UserError(f"{override} has no meaning beside {unused[word]}; leave one of the two out")
    return {key: value for key, value in config.items() if key not in unused}


def _refuse_unread(config: dict[str, Any], overrides: Sequence[str]) -> None:
    """Refuse knobs that nothing reads: a task's that only other models read, an encoder's where there is no source.

    A task says which of its knobs are ``for_models``, a model which such ones it ``reads``.
    """
    model, task = (registry.part(kind, config[kind]["name"]) for kind in ("model", "task"))
    usual = {knob.name: knob.default for knob in task.knobs}
    for knob in task.declares.get("for_models", ()):
        value = config["task"][knob]
        if value != usual[knob] and knob not in model.declares.get("reads", ()):
            others = [
                one for one in registry.names("model") if knob in registry.part("model", one).declares.get("reads", ())
            ]
            shown = f"[{','.join(map(str, value))}]" if isinstance(value, list) else value
            raise UserError(f"task.{knob}={shown} is read by model={' or '.join(others)} alone; leave it out")
    if task.declares.get("continues"):
        for override in overrides:
            if re.match(r"encoder\b", override.lstrip("+~")):
                raise UserError(f"{override} has no meaning beside task={task.name}, which has no source; leave it out")


def _refuse_idle(config: Mapping[str, Any]) -> None:
    """Refuse a knob that another one's value leaves without anything to do."""
    for kind in ("encoder", "decoder"):
        part = config.get(kind, {})
        if part.get("layers") == 1 and (dropout := part.get("dropout")):
            told = f"falls between layers, and {kind}.layers=1; raise that, or use model.dropout"
            raise UserError(f"{kind}.dropout={dropout:g} {told}")
    search, model = config["decoding"], config["model"]
    if search.get("length_penalty", "gnmt") != "gnmt" and search["length_penalty_alpha"] != _usual(
        "decoding", config, "length_penalty_alpha"
    ):
        raise UserError(
            f"decoding.length_penalty_alpha={search['length_penalty_alpha']:g} is read by "
            "decoding.length_penalty=gnmt alone; leave it out"
        )
    if model.get("keys_from") not in (None, *POSITIONS) and model["position_dim"] != _usual(
        "model", config, "position_dim"
    ):
        raise UserError(
            f"model.position_dim={model['position_dim']} is read by model.keys_from={' or '.join(POSITIONS)} "
            "alone; leave it out"
        )


def _refuse_timeless(config: Mapping[str, Any]) -> None:
    """Refuse ``budget=time`` where steps or epochs say how long a run is."""
    trainer = config["trainer"]
    for end in ("max_steps", "max_epochs"):
        if config["budget"] == "time" and trainer.get(end) is not None:
            raise UserError(
                f"budget=time is for runs that trainer.max_time ends, and trainer.{end}={trainer[end]} ends this one; "
                f"leave budget=time out, or set trainer.{end}=null and trainer.max_time=HH:MM:SS"
            )


def _usual(kind: str, config: Mapping[str, Any], knob: str) -> Any:
    """A knob's default."""
    return next(one.default for one in registry.part(kind, config[kind]["name"]).knobs if one.name == knob)


def refuse_unclear(overrides: Sequence[str]) -> None:
    """Refuse a choice made twice, or that is no name; only queries and loggers may be sets.

    Raises:
        UserError: there is one.
    """
    seen: dict[str, str] = {}
    for override in overrides:
        key, _, value = override.partition("=")
        if key in seen and key in GROUPS:
            raise UserError(f"{key} is chosen twice, as {seen[key]} and {override}; leave one out")
        if key in GROUPS and (not re.match(r"[^{]" if key in SETS else r"[^{[]", value) or NO_NAME.fullmatch(value)):
            raise UserError(f"{override}: expected one name; choose from {', '.join(options(key))}")
        seen[key] = override
