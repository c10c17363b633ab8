"""What a run is called among others: by what makes it differ from them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnx import registry
from attnx.config.groups import CHOSEN, DEFAULTS, default_parts
from attnx.config.view import dotted_keys, value_text
from attnx.runs.run import Run
from attnx.runs.sweep import read_sweep, sweep_of

LONGEST = 120  # characters
# What a name does not repeat: where a run lies, and who is told of it.
ASIDE = ("name", "folder", "logger")


def display_name(run: Run, config: Mapping[str, Any]) -> str:
    """The setting that differs: of a sweep's job from the other jobs, of a single run from the default composition.

    A single run that was given a name goes by that, the only job of a sweep by what was asked, and a run without any
    difference by its folder.

    Args:
        run: as its folder says.
        config: the whole composed configuration.
    """
    sweep = sweep_of(run.path)
    given = _in_sweep(run, sweep) if sweep else run.info.get("name")
    name = given or _asked(run) or _difference(config) or run.path.resolve().name
    return textwrap.shorten(name, LONGEST, placeholder=" ...")


def _in_sweep(run: Run, folder: Path) -> str:
    sweep, number = read_sweep(folder), int(run.path.resolve().name)
    return next((sweep.told(job) for job in sweep.jobs if job.number == number and sweep.varied), "")


def _asked(run: Run) -> str:
    """The overrides of the command: a recipe by its name, where its parts would fill a page."""
    words = [word.lstrip("+") for word in run.info.get("overrides", [])]
    return " ".join(word for word in words if word.partition("=")[0].partition(".")[0] not in ASIDE)


def _difference(config: Mapping[str, Any]) -> str:
    """Parts that are not the default ones, and knobs that are not their part's; of a run that no command asked for."""
    parts = {kind: {"name": config[kind]["name"]} for kind in CHOSEN if "name" in config.get(kind, ())}
    usual = {**dotted_keys(registry.filled(parts)), **default_parts()}
    found = {key: value for key, value in dotted_keys(config).items() if key in usual and value != usual[key]}
    seed = {} if config["seed"] == DEFAULTS["seed"] else {"seed": config["seed"]}
    return " ".join(f"{key}={value_text(value)}" for key, value in {**found, **seed}.items())
