"""Draws predicted matrices over their references, column by column, for some test examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnx.data.features import FeatureScaler
from attnx.data.sample import evenly_spaced_indices
from attnx.files.bounded_files import read_arrays
from attnx.reports.figures.curves import DPI, INK, MAX_MARKED_POINTS, style_axes
from attnx.reports.figures.fonts import choose_fonts, shorten
from attnx.reports.figures.heatmaps import Format, save_figure
from attnx.runs.layout import MATRICES, PREDICTIONS, PREDICTIONS_PICTURE, TARGET_FEATURES, VOCABULARY
from attnx.runs.predictions import read_field, read_table

REFERENCE_COLOR, PREDICTION_COLOR = "#9aa3ad", "#1f68ad"
MAX_EXAMPLES, MAX_COLUMNS = 5, 4
MAX_LABEL_LENGTH, MAX_TITLE_LENGTH = 22, 30


def draw_numeric_predictions(folder: Path | str, form: Format = "png") -> list[Path]:
    """Write predictions.png, or .svg or .pdf, from predictions.npz; no picture if the run predicted no matrices."""
    folder = Path(folder)
    if not (folder / MATRICES).is_file():
        return []
    scales = FeatureScaler.load(folder / VOCABULARY / TARGET_FEATURES)
    columns = (scales.columns or tuple(f"column {column}" for column in range(scales.width)))[:MAX_COLUMNS]
    by_length = sorted(read_table(folder / PREDICTIONS)[1], key=lambda row: int(row["reference_steps"]))
    rows = [by_length[index] for index in evenly_spaced_indices(len(by_length), MAX_EXAMPLES)]
    texts = [read_field(row.get("name") or row["source"]) for row in rows]
    # The end of a path distinguishes it.
    labels = [text if len(text) <= MAX_LABEL_LENGTH else f"…{text[1 - MAX_LABEL_LENGTH :]}" for text in texts]
    fonts = choose_fonts("".join([*labels, *columns]))
    style: dict[str, Any] = {"parse_math": False, "fontfamily": fonts.families, "color": INK}
    figure = Figure(figsize=(2.6 * len(columns) + 0.8, 1.5 * len(rows) + 0.6), dpi=DPI)
    figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.08)
    panels = figure.subplots(len(rows), len(columns), squeeze=False, sharex="row", sharey="col")
    arrays = read_arrays(folder / MATRICES, [row[side] for row in rows for side in ("reference", "prediction")])
    for row, label, axes in zip(rows, labels, panels, strict=True):
        for column in range(len(columns)):
            _draw_panel(axes[column], arrays[row["reference"]][:, column], arrays[row["prediction"]][:, column])
        axes[0].set_ylabel(fonts.display(label), fontsize=8, **style)
    for column, name in enumerate(columns):
        title = shorten(fonts.display(name).replace("␣", " "), MAX_TITLE_LENGTH)
        panels[0][column].set_title(title, loc="left", fontsize=10, **style)
        panels[-1][column].set_xlabel("step", fontsize=8, color=INK)
    lines = panels[0][0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside upper right", ncols=2, frameon=False, fontsize=8)
    return [save_figure(figure, (folder / PREDICTIONS_PICTURE).with_suffix(f".{form}"))]


def _draw_panel(axes: Axes, reference: Any, prediction: Any) -> None:
    marker = "." if max(len(reference), len(prediction)) < MAX_MARKED_POINTS else ""
    axes.plot(reference, color=REFERENCE_COLOR, linewidth=2.2, label="reference", marker=marker)
    axes.plot(prediction, color=PREDICTION_COLOR, linewidth=1.2, label="prediction", marker=marker)
    axes.locator_params(axis="x", integer=True)
    style_axes(axes, label_size=8)
