"""Draws matrices that a run predicted: for some of the test, column by column, what was written over what is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnx.data.evenly_spaced import evenly
from attnx.data.features import Features
from attnx.files.bounded_arrays import read_arrays
from attnx.files.bounded_files import read_text
from attnx.reports.figures.curves import DPI, INK, PALE
from attnx.reports.figures.fonts import lettering_for
from attnx.runs.layout import MATRICES, PREDICTIONS, PREDICTIONS_PICTURE, TARGET_FEATURES, VOCABULARY
from attnx.runs.table_fields import read_field

RIGHT, WRITTEN = "#9aa3ad", "#1f68ad"
# At most so many sequences, from short to long, and so many columns of each.
SHOWN, COLUMNS = 5, 4
LONGEST = 32  # characters of a source that stand beside its row


def draw_tracks(folder: Path | str) -> Path | None:
    """Write predictions.png from predictions.npz and return its path; None if the run wrote no matrices."""
    folder = Path(folder)
    if not (folder / MATRICES).is_file():
        return None
    scales = Features.load(folder / VOCABULARY / TARGET_FEATURES)
    columns = (scales.columns or tuple(f"column {column}" for column in range(scales.width)))[:COLUMNS]
    rows = _chosen(folder / PREDICTIONS)
    labels = [_shortened(read_field(row.get("name") or row["source"])) for row in rows]
    lettering = lettering_for("".join([*labels, *columns]))
    style: dict[str, Any] = {"parse_math": False, "fontfamily": lettering.families, "color": INK}
    figure = Figure(figsize=(2.6 * len(columns) + 0.8, 1.5 * len(rows) + 0.6), dpi=DPI)
    figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.08)
    panels = figure.subplots(len(rows), len(columns), squeeze=False, sharex="row", sharey="col")
    held = read_arrays(folder / MATRICES, [row[side] for row in rows for side in ("reference", "prediction")])
    for row, label, axes in zip(rows, labels, panels, strict=True):
        right, written = held[row["reference"]], held[row["prediction"]]
        for column in range(len(columns)):
            _draw(axes[column], right[:, column], written[:, column])
        axes[0].set_ylabel(lettering.shown(label), fontsize=8, **style)
    for column, name in enumerate(columns):
        panels[0][column].set_title(lettering.shown(name).replace("␣", " "), loc="left", fontsize=10, **style)
        panels[-1][column].set_xlabel("step", fontsize=8, color=INK)
    lines = panels[0][0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside upper right", ncols=2, frameon=False, fontsize=8)
    figure.savefig(folder / PREDICTIONS_PICTURE)
    return folder / PREDICTIONS_PICTURE


def _shortened(label: str) -> str:
    """The end of a label, as much as fits beside a row: of a path it is what tells."""
    return label if len(label) <= LONGEST else f"…{label[1 - LONGEST :]}"


def _chosen(table: Path) -> list[dict[str, str]]:
    """Lines of predictions.tsv, evenly from short to long."""
    head, *lines = (line.split("\t") for line in read_text(table).rstrip("\n").split("\n"))
    rows = [dict(zip(head, line, strict=True)) for line in lines]
    rows.sort(key=lambda row: int(row["reference_steps"]))
    return [rows[place] for place in evenly(len(rows), SHOWN)]


def _draw(axes: Axes, right: Any, written: Any) -> None:
    marker = "." if max(len(right), len(written)) < 40 else ""
    axes.plot(right, color=RIGHT, linewidth=2.2, label="reference", marker=marker)
    axes.plot(written, color=WRITTEN, linewidth=1.2, label="written", marker=marker)
    axes.locator_params(axis="x", integer=True)
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(PALE)
    axes.tick_params(length=0, labelsize=8, labelcolor=INK)
