"""Draws answers to pointing problems over the right ones, among the points, for some test examples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnx.data.evenly_spaced import evenly_spaced_indices
from attnx.reports.figures.curves import DPI, INK, PREDICTION_COLOR, REFERENCE_COLOR
from attnx.reports.figures.heatmaps import Format, save_figure
from attnx.runs.layout import PREDICTIONS, VOCABULARY
from attnx.runs.predictions import read_predictions, read_run_or_evaluation

from .answers import (
    ANSWER_FORMS,
    PointingReference,
    Points,
    are_positions,
    is_right_answer,
    is_round_trip,
    open_path,
    path_length,
    read_positions,
    triangle_set,
)
from .saved_points import read_points

MAX_EXAMPLES, COLUMNS = 12, 4
MAX_NUMBERED_POINTS = 20


class PointAnswer(NamedTuple):
    """One example: its points, and the predicted and right positions, from 0."""

    points: Points
    answer: list[int]
    reference: list[int]


def draw_points(folder: Path | str, form: Format = "png") -> list[Path]:
    """Draw the points of a run or an evaluation into points.png, .svg or .pdf; no picture if it saved no points."""
    folder = Path(folder)
    points = read_points(folder / VOCABULARY)
    if not points or not (folder / PREDICTIONS).is_file():
        return []
    problem = read_run_or_evaluation(folder).evaluated_run.config["task"]["problem"]
    predictions = read_predictions(folder)[: len(points)]
    examples = [
        PointAnswer(example, read_positions(prediction.output), read_positions(prediction.references[0]))
        for example, prediction in zip(points, predictions, strict=False)
    ]
    by_size = sorted(examples, key=lambda example: len(example.points))
    shown = [by_size[index] for index in evenly_spaced_indices(len(by_size), MAX_EXAMPLES)]
    return [save_figure(draw_point_answers(shown, problem), folder / f"points.{form}")]


def draw_point_answers(examples: Sequence[PointAnswer], problem: str) -> Figure:
    """Draw a panel per example."""
    rows = -(-len(examples) // COLUMNS)
    figure = Figure(figsize=(2.6 * COLUMNS, 2.7 * rows + 0.4), dpi=DPI)
    figure.set_layout_engine("constrained", w_pad=0.06, h_pad=0.06)
    panels = figure.subplots(rows, COLUMNS, squeeze=False).flatten()
    for example, axes in zip(examples, panels, strict=False):
        _draw_panel(axes, example, problem)
    for axes in panels[len(examples) :]:
        axes.set_axis_off()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2, frameon=False, fontsize=8)
    return figure


def _draw_panel(axes: Axes, example: PointAnswer, problem: str) -> None:
    """Draw the reference below the answer; symbols that are no positions are not drawn."""
    points, answer, reference = example
    valid = [position for position in answer if are_positions(points, [position])]
    for order, color, width, label in (
        (reference, REFERENCE_COLOR, 3.2, "right"),
        (valid, PREDICTION_COLOR, 1.2, "prediction"),
    ):
        # NaN breaks the line.
        corners = [np.vstack([line, np.full((1, 2), np.nan)]) for line in answer_lines(points, order, problem)]
        x, y = np.concatenate(corners).T if corners else ((), ())
        axes.plot(x, y, color=color, linewidth=width, label=label)
    axes.set_title(title(example, problem), loc="left", fontsize=8, color=INK)
    axes.set_xticks([])
    axes.set_yticks([])
    if problem == "sorting":
        return
    axes.plot(*points.T, ".", color=INK, markersize=4)
    axes.set_aspect("equal", adjustable="datalim")
    for index, (x, y) in enumerate(points.tolist() if len(points) <= MAX_NUMBERED_POINTS else (), 1):
        axes.annotate(str(index), (x, y), (2, 2), textcoords="offset points", fontsize=6, color=INK)


def answer_lines(points: Points, order: Sequence[int], problem: str) -> list[Points]:
    """The lines (k, 2) of an answer: a closed path, its triangles, or numbers in order.

    >>> [line.tolist() for line in answer_lines(np.array([[0, 0], [3, 0], [3, 4]]), [1, 2], "hull")]
    [[[3, 0], [3, 4], [3, 0]]]
    """
    if problem == "sorting":
        return [np.stack([np.arange(len(order)), points[list(order), 0]], 1)] if order else []
    rings: list[tuple[int, ...]] = sorted(triangle_set(order)) if problem == "delaunay" else [open_path(order)]
    return [points[[*ring, ring[0]]] for ring in rings if ring]


def title(example: PointAnswer, problem: str) -> str:
    """The number of points, and whether the answer is right, or how long a tour is."""
    points, answer, reference = example
    size = f"{len(points)} {'numbers' if problem == 'sorting' else 'points'}: "
    if problem == "tsp" and is_round_trip(points, answer):
        return f"{size}{path_length(points, answer):.2f}, reference {path_length(points, reference):.2f}"
    is_right = is_right_answer(ANSWER_FORMS[problem], answer, PointingReference(points, reference))
    return size + ("right" if is_right else "wrong")
