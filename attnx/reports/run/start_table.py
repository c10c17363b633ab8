"""The table a run begins with: what was composed, from the run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from attnx.config.view import name_and_knobs
from attnx.files.printable import printable
from attnx.runs.run import read_run

# What to show, in this order; a node that a run does not have is left out.
SHOWN = ("task", "model", "encoder", "decoder", "readout", "output", "scorer", "scope", "query", "normalizer",
         "attention", "decoding", "optimizer", "lr_schedule", "trainer")  # fmt: skip
# What followed from these, of run.json.
FOLLOWED = ("schedule", "kernels", "compiler", "compiled", "follows", "parameters", "data", "notes", "signatures",
            "steps", "seed")  # fmt: skip


def composed(folder: Path) -> Table:
    """Parts and knobs, the schedule and why, parameters and data sizes."""
    run = read_run(folder)
    title = Text(printable(f"attnx {folder}"), "table.title")
    table = Table(title=title, title_justify="left", show_header=False, pad_edge=False, box=None)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for kind in SHOWN:
        if kind in run.config:
            table.add_row(kind, _describe(run.config[kind]))
    for name in FOLLOWED:
        value = run.info.get(name, run.config.get(name))
        if value:
            table.add_row(name, Text(printable(_said(value), keep="\n")))
    return table


def _said(value: Any) -> str:
    """A fact in words: lists and mappings a line an entry."""
    if isinstance(value, dict):
        return "\n".join(f"{key}: {entry}" for key, entry in value.items())
    if isinstance(value, list):
        return "\n".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def _describe(node: Any) -> Text:
    name, knobs = name_and_knobs(node)
    return Text(printable(name)).append(f"  {printable(knobs)}" if knobs else "", "dim")
