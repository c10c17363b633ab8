"""The name of a run among others: the options in which it differs from them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from attnx.config.changes import changed_options
from attnx.config.view import value_text
from attnx.runs.run import Run
from attnx.runs.sweep import read_sweep

MAX_LENGTH = 120  # characters
# Keys that are not part of a name: the folder, and the loggers.
IGNORED_KEYS = ("name", "folder", "logger")


def display_name(run: Run, config: Mapping[str, Any]) -> str:
    """The options in which a job differs from the others of its sweep, or a run from the default composition.

    A single run goes by the name it was given, if any; the only job of a sweep by its overrides; a run without any
    difference by its folder.
    """
    folder, name = run.path.resolve().name, run.info.get("name")
    if run.sweep:
        sweep = read_sweep(run.sweep)
        name = next((sweep.label(job) for job in sweep.jobs if job.index == int(folder) and sweep.swept_keys), "")
    words = [word.lstrip("+") for word in run.info.get("overrides", [])]
    overrides = " ".join(word for word in words if word.partition("=")[0].partition(".")[0] not in IGNORED_KEYS)
    text = name or overrides or _differences(config) or folder
    if len(text.split()[0]) > MAX_LENGTH:  # no whole word fits
        return f"{text[: MAX_LENGTH - 4]} ..."
    return textwrap.shorten(text, MAX_LENGTH, placeholder=" ...")


def _differences(config: Mapping[str, Any]) -> str:
    """Parts other than the default ones, and options other than their part's defaults."""
    changed = changed_options({key: value for key, value in config.items() if key not in IGNORED_KEYS})
    return " ".join(f"{key}={value_text(value)}" for key, value in changed.items())
