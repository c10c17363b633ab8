"""The start table of a run: its composition and derived settings, from the run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from attnx.config.view import name_and_knobs
from attnx.files.printable import printable
from attnx.runs.run import read_run

CONFIG_KEYS = ("task", "model", "encoder", "decoder", "readout", "output", "scorer", "scope", "query", "normalizer",
               "attention", "decoding", "optimizer", "lr_schedule", "trainer")  # fmt: skip
# Keys of run.json, or of the configuration, and their labels.
DERIVED = {
    "schedule": "schedule",
    "kernels": "fast kernels",
    "compiler": "compiler",
    "compiled": "compiled",
    "follows": "derived settings",
    "parameters": "parameters",
    "data": "data",
    "notes": "notes",
    "signatures": "signatures",
    "steps": "steps",
    "seed": "seed",
}


def start_table(folder: Path) -> Table:
    """Parts and knobs, the schedule with its reason, derived settings, and sizes of model and data."""
    run = read_run(folder)
    title = Text(printable(f"attnx {folder}"), "table.title")
    table = Table(title=title, title_justify="left", show_header=False, pad_edge=False, box=None)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for kind in CONFIG_KEYS:
        if kind in run.config:
            table.add_row(kind, _part_text(run.config[kind]))
    for key, name in DERIVED.items():
        if value := run.info.get(key, run.config.get(key)):
            table.add_row(name, Text(printable(_fact_text(value), keep="\n")))
    return table


def _fact_text(value: Any) -> str:
    """A fact as text; lists and mappings have a line per entry."""
    if isinstance(value, dict):
        return "\n".join(f"{key}: {entry}" for key, entry in value.items())
    if isinstance(value, list):
        return "\n".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def _part_text(node: Any) -> Text:
    name, knobs = name_and_knobs(node)
    return Text(printable(name)).append(f"  {printable(knobs)}" if knobs else "", "dim")
