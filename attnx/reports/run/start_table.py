"""The table that a run starts with: the options that were chosen, and what follows from them and the data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

from attnx.config.changes import changed_options
from attnx.config.groups import PRESETS
from attnx.config.view import dotted_keys, value_text
from attnx.files.printable import printable
from attnx.reports.run.tables import CONFIG_KEYS
from attnx.runs.run import Run

# Options that are shown though they have their defaults.
COMPOSITION = ("task", "model", "scorer", "scope", "query", "normalizer", "seed")
# Keys of run.json, and labels of some.
FACTS = (
    "schedule",
    "kernels",
    "compiler",
    "compiled",
    "derived",
    "output_limit",
    "parameters",
    "data",
    "notes",
    "signatures",
    "steps",
)
FACT_LABELS = {"kernels": "fast kernels", "derived": "derived options", "output_limit": "output limit"}
OVERRIDE = "override"
CAPTION = "the other options have their defaults: attnx -v, or config.yaml"


class OptionRow(NamedTuple):
    """A key as the command line takes it, its value, and whether an override of the user set it."""

    key: str
    value: str
    is_override: bool


def start_table(run: Run, is_verbose: bool = False) -> Table:
    """The options, the schedule with its reason, derived options, and sizes of model and data.

    Options are those of the composition, those that the user's overrides set, and those that differ from the defaults;
    all of them if ``is_verbose``.
    """
    title = Text(printable(f"attnx {run.path}"), "table.title")
    table = Table(title=title, title_justify="left", show_header=False, pad_edge=False, box=None)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(style="dim", no_wrap=True)
    for row in option_rows(run, is_verbose):
        table.add_row(printable(row.key), Text(printable(row.value)), OVERRIDE if row.is_override else "")
    for key in FACTS:
        if value := run.info.get(key):
            table.add_row(FACT_LABELS.get(key, key), Text(printable(_fact_text(value), keep="\n")))
    if not is_verbose:
        table.caption, table.caption_justify = CAPTION, "left"
    return table


def option_rows(run: Run, is_complete: bool = False) -> Iterator[OptionRow]:
    """The options that were chosen or differ from the defaults; all of them if ``is_complete``."""
    overrides = dict(word.lstrip("+~").partition("=")[::2] for word in run.info.get("overrides", []))
    for key in PRESETS:
        if key in overrides:
            yield OptionRow(key, overrides[key], True)
    order = [*CONFIG_KEYS, *run.config]
    config = {key: run.config[key] for key in dict.fromkeys(order) if key in run.config}
    changed = changed_options(config)
    for key, value in dotted_keys(config).items():
        if is_complete or key in overrides or key in changed or key in COMPOSITION:
            yield OptionRow(key, value_text(value), key in overrides)


def _fact_text(value: Any) -> str:
    """A fact as text; lists and mappings have a line per entry."""
    if isinstance(value, dict):
        return "\n".join(f"{key}: {entry}" for key, entry in value.items())
    if isinstance(value, list):
        return "\n".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
