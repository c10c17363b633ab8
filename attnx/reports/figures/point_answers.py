"""Draws answers that are positions: for some of the test, what was written over what is right, among the points."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnx.data.evenly_spaced import evenly
from attnx.data.points_file import read_points
from attnx.metrics.polygons import are_positions, canonical_polygon, is_round_trip, open_path, path_length, triangle_set
from attnx.reports.figures.curves import DPI, INK
from attnx.reports.figures.numeric_predictions import RIGHT, WRITTEN
from attnx.runs.layout import POINTS_PICTURE, PREDICTIONS, VOCABULARY
from attnx.runs.predictions import read_predictions
from attnx.runs.run import read_run

SHOWN, ACROSS = 12, 4
NUMBERED = 20  # points of an example, up to which each has its number beside it
PICTURE = POINTS_PICTURE

Points = npt.NDArray[np.floating]
Line = npt.NDArray[np.floating]


class Drawn(NamedTuple):
    """One example: its points, and the positions, from 0, that were written and that are right."""

    points: Points
    written: list[int]
    right: list[int]


def draw_points(folder: Path | str) -> Path | None:
    """Write points.png from predictions.tsv and the points kept with the run; None where there are none."""
    folder = Path(folder)
    drawn = read_points(folder / VOCABULARY)
    problem = read_run(folder).config.get("task", {}).get("problem")
    if not drawn or not (folder / PREDICTIONS).is_file() or problem is None:
        return None
    return draw_answers(folder, drawn, problem)


def draw_answers(folder: Path, drawn: Sequence[Points], problem: str) -> Path:
    """Write points.png beside a predictions.tsv, of whose first lines these are the points."""
    lines = read_predictions(folder)[: len(drawn)]
    examples = [
        Drawn(points, _places(line.output), _places(line.references[0]))
        for points, line in zip(drawn, lines, strict=False)
    ]
    save(page(_evenly(examples), problem), folder / PICTURE)
    return folder / PICTURE


def page(examples: Sequence[Drawn], problem: str) -> Figure:
    """A panel an example."""
    down = -(-len(examples) // ACROSS)
    figure = Figure(figsize=(2.6 * ACROSS, 2.7 * down + 0.4), dpi=DPI)
    figure.set_layout_engine("constrained", w_pad=0.06, h_pad=0.06)
    panels = figure.subplots(down, ACROSS, squeeze=False).flatten()
    for example, axes in zip(examples, panels, strict=False):
        _draw(axes, example, problem)
    for axes in panels[len(examples) :]:
        axes.set_axis_off()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2, frameon=False, fontsize=8)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write the picture."""
    figure.savefig(path)


def _draw(axes: Axes, example: Drawn, problem: str) -> None:
    """What is right below, what was written above it; of what is no position nothing is drawn."""
    points, written, right = example
    known = [place for place in written if are_positions(points, [place])]
    for answer, color, width, label in ((right, RIGHT, 3.2, "right"), (known, WRITTEN, 1.2, "written")):
        # What is not a number breaks the line.
        corners = [np.vstack([line, np.full((1, 2), np.nan)]) for line in lines(points, answer, problem)]
        x, y = np.concatenate(corners).T if corners else ((), ())
        axes.plot(x, y, color=color, linewidth=width, label=label)
    axes.set_title(title(example, problem), loc="left", fontsize=8, color=INK)
    axes.set_xticks([])
    axes.set_yticks([])
    if problem == "sorting":
        return
    axes.plot(*points.T, ".", color=INK, markersize=4)
    axes.set_aspect("equal", adjustable="datalim")
    for number, (x, y) in enumerate(points.tolist() if len(points) <= NUMBERED else (), 1):
        axes.annotate(str(number), (x, y), (2, 2), textcoords="offset points", fontsize=6, color=INK)


def lines(points: Points, order: Sequence[int], problem: str) -> list[Line]:
    """The lines (k, 2) to draw of an answer: a way round, its triangles, or numbers one after another.

    >>> [line.tolist() for line in lines(np.array([[0, 0], [3, 0], [3, 4]]), [1, 2], "hull")]
    [[[3, 0], [3, 4], [3, 0]]]
    """
    if problem == "sorting":
        return [np.stack([np.arange(len(order)), points[list(order), 0]], 1)] if order else []
    rings: list[tuple[int, ...]] = sorted(triangle_set(order)) if problem == "delaunay" else [open_path(order)]
    return [points[[*ring, ring[0]]] for ring in rings if ring]


def title(example: Drawn, problem: str) -> str:
    """How many points there are, and how right the answer is."""
    points, written, right = example
    told = f"{len(points)} {'numbers' if problem == 'sorting' else 'points'}: "
    if problem == "tsp" and is_round_trip(points, written):
        return f"{told}{path_length(points, written):.2f}, reference {path_length(points, right):.2f}"
    meant: Any = {"sorting": tuple, "delaunay": triangle_set}.get(problem, canonical_polygon)
    return told + ("right" if meant(written) == meant(right) else "wrong")


def _evenly(examples: Sequence[Drawn]) -> list[Drawn]:
    """Some of them, evenly from few points to many."""
    ordered = sorted(examples, key=lambda example: len(example.points))
    return [ordered[place] for place in evenly(len(ordered), SHOWN)]


def _places(symbols: Sequence[str]) -> list[int]:
    """Symbols as positions from 0; what is none is left out."""
    return [int(symbol) - 1 for symbol in symbols if symbol.isdecimal()]
