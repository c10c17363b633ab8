"""Draws parts: the scores, scope and weights of the example, a normalizer's weights, and a decoder step's vectors."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Patch
from PIL import Image

from attnx.registry import PartSpec
from attnx.registry.part import Part
from attnx.reports.figures.heatmaps import HATCH, WHITE_TO_BLUE, hatch
from attnx.reports.figures.panels import DPI, GRID, INK, PALE, column_groups, left_edges
from gallery.example import (
    ALLOWED_COUNT,
    FIT_STEPS,
    FIXED_SCORE,
    LONG_POSITION,
    PADDING,
    POSITIONS,
    REPEAT_STEP,
    REPEATED_STEP,
    RISING_SCORES,
    SCORE_ROW,
    Numbers,
    Reading,
    composition,
    head_maps,
    mixer_shares,
    read_example,
    rising_weights,
    row_weights,
)
from gallery.variants import FURTHER_OPTIONS, PartVariant, alternatives

WIDTH, PANEL_HEIGHT = 6.0, 1.66  # inches
MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 0.42, 0.18, 0.66, 0.72
WHITE_TO_BROWN = LinearSegmentedColormap.from_list("white_to_brown", ["#ffffff", "#fdd9b5", "#ee9a52", "#a84a06"])
BROWN_TO_BLUE = LinearSegmentedColormap.from_list(
    "brown_to_blue", ["#a84a06", "#ee9a52", "#fdd9b5", "#ffffff", "#a6cbe5", "#1f68ad", "#08306b"]
)
WHITE_TO_GREEN = LinearSegmentedColormap.from_list("white_to_green", ["#ffffff", "#b7dfc0", "#2c8a4b"])
MAX_LABELED_COLUMNS = 14  # with more columns every second one is labeled
BROWN, BLUE = "#ee9a52", "#1f68ad"
STEP_HEIGHT = 2.5
SELECTED, BOX = BLUE, "#f3f5f8"
QUERIES_NOTE = f"Steps {REPEATED_STEP} and {REPEAT_STEP} have the same query."
MEMORY_NOTE = (
    f"Positions {REPEATED_STEP} and {REPEAT_STEP} are almost equal; position {LONG_POSITION} has the longest vector."
)
MIXER_NOTE = "Parameters are those that it starts with."
STATES_NOTE = "The decoder states are the queries; each is visible from the next step on."
FITTED_NOTE = f"Fitted for {FIT_STEPS} steps to read position t at step t."


def draw_variant(variant: PartVariant) -> Figure:
    """Draw a part.

    Raises:
        UserError: its file cannot be imported, or it rejects its options.
    """
    if variant.drawn_as == "query":
        return draw_step(variant.part.declarations["needs"], str(variant))
    if variant.drawn_as == "normalizer":
        return draw_normalizer(variant.spec, str(variant))
    if variant.drawn_as == "mixer":
        return draw_mixer(variant.spec, str(variant))
    if variant.drawn_as == "attention" and "softcap" not in variant.options:
        return draw_heads(variant.spec, str(variant))
    reading = read_example(**composition(variant))
    has_source = reading.decoder_states < len(reading.columns)
    example = [QUERIES_NOTE, *([MEMORY_NOTE] if has_source else [])]
    details = [*([STATES_NOTE] if reading.decoder_states else []), *([FITTED_NOTE] if reading.is_fitted else [])]
    return draw_reading(reading, str(variant), "\n".join(" ".join(line) for line in (example, details) if line))


def variants_to_draw(part: Part) -> list[PartVariant]:
    """The part as it is and, of scopes and normalizers, the variants whose weights differ."""
    default = PartVariant(part)
    if part.kind == "attention":
        further = FURTHER_OPTIONS.get((part.kind, part.name), [{}])
        return [PartVariant(part, options) for options in further]
    if part.kind not in ("scope", "normalizer"):
        return [default]
    variants, weights = [default], _weights(default)
    for variant in alternatives(part):
        changed = _weights(variant)
        if changed.shape != weights.shape or not np.allclose(changed, weights):
            variants.append(variant)
    return variants


def _weights(variant: PartVariant) -> Numbers:
    if variant.drawn_as == "normalizer":
        return row_weights(variant.spec)
    return read_example(**composition(variant)).weights


def save_picture(figure: Figure, path: Path) -> None:
    """Save a picture with 256 colors, which takes a third of the bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer)
    Image.open(buffer).convert("RGB").quantize(256).save(path, optimize=True)


def draw_reading(reading: Reading, title: str, note: str) -> Figure:
    """Draw scores, allowed positions and weights, a row per step and a column per memory position."""
    figure, panels = make_panels(title, note)
    low, high = float(reading.scores.min()), float(reading.scores.max())
    # Pale green where there is no gain, so that a gain is visible.
    gain = np.full(reading.allowed_mask.shape, 0.5) if reading.gain is None else reading.gain
    more_gain = "" if reading.gain is None else "; darker: more gain"
    _draw_heatmap(panels[0], reading, reading.scores, WHITE_TO_BROWN, (low, high))
    _draw_heatmap(panels[1], reading, gain * reading.allowed_mask, WHITE_TO_GREEN, (0, 1))
    _draw_heatmap(panels[2], reading, reading.weights, WHITE_TO_BLUE, (0, 1))
    below = 1 if reading.decoder_states else 0
    label_panel(panels[0], "scores", f"white {low:.1f}, darkest {high:.1f}", below)
    label_panel(panels[1], "allowed", f"hatched: no{more_gain}", below)
    label_panel(panels[2], "weights", "white 0, darkest 1", below)
    for axes in panels[1:]:
        hatch(axes, ~reading.allowed_mask, left_edges(len(reading.columns), reading.decoder_states))
    steps = np.arange(len(reading.weights))
    panels[0].set_yticks(steps + 0.5, [str(step) for step in steps])
    panels[0].set_ylabel("step", fontsize=7.5, color=PALE, labelpad=3)
    panels[0].set_title("memory position", loc="right", fontsize=7.5, color=PALE, pad=4)
    return figure


def _draw_heatmap(axes: Axes, reading: Reading, cells: Numbers, colors: Colormap, limits: tuple[float, float]) -> None:
    columns, (low, high) = (len(reading.columns), reading.decoder_states), limits
    lefts, groups = left_edges(*columns), column_groups(*columns)
    for name, group in groups.items():
        edges, rows = np.append(lefts[group], lefts[group][-1] + 1), np.arange(len(cells) + 1)
        axes.pcolormesh(edges, rows, cells[:, group], cmap=colors, vmin=low, vmax=high, edgecolors=GRID, linewidth=0.4)
        if reading.decoder_states:
            _write_below(axes, edges[0] / (lefts[-1] + 1), name)
    axes.set(xlim=(0, lefts[-1] + 1), ylim=(len(cells), 0), yticks=[])
    axes.spines[:].set_visible(False)
    axes.xaxis.tick_top()
    step = slice(None, None, 2 if len(lefts) > MAX_LABELED_COLUMNS else 1)
    positions = np.concatenate([(lefts[group] + 0.5)[step] for group in groups.values()])
    axes.set_xticks(positions, [name for group in groups.values() for name in reading.columns[group][step]])


def blank_figure(height: float, title: str, note: str) -> Figure:
    """A figure, ``height`` inches high, with a title and a note at the bottom."""
    figure = Figure(figsize=(WIDTH, height), dpi=DPI)
    FigureCanvasAgg(figure)
    figure.text(0.08 / WIDTH, 1 - 0.1 / height, title, fontsize=10, color=INK, va="top", parse_math=False)
    figure.text(0.08 / WIDTH, 0.09 / height, note, fontsize=7.5, color=PALE, va="bottom", parse_math=False)
    return figure


def make_panels(title: str, note: str, gap: float = 0.2) -> tuple[Figure, list[Axes]]:
    """A figure with three empty panels, ``gap`` inches between them."""
    height = MARGIN_TOP + PANEL_HEIGHT + MARGIN_BOTTOM
    figure = blank_figure(height, title, note)
    width = (WIDTH - MARGIN_LEFT - MARGIN_RIGHT - 2 * gap) / 3
    lefts = [MARGIN_LEFT + column * (width + gap) for column in range(3)]
    boxes = [(x / WIDTH, MARGIN_BOTTOM / height, width / WIDTH, PANEL_HEIGHT / height) for x in lefts]
    panels = [figure.add_axes(box) for box in boxes]
    for axes in panels:
        axes.tick_params(length=0, pad=2, labelsize=7.5, labelcolor=INK)
    return figure, panels


def label_panel(axes: Axes, name: str, note: str, lines_below: int = 0) -> None:
    """Write a panel's name above it, and a note on its colors below it."""
    axes.set_title(name, loc="left", fontsize=9, color=INK, pad=4)
    _write_below(axes, 0, note, lines_below)


def _write_below(axes: Axes, x: float, text: str, line: int = 0) -> None:
    """Write small text below a panel, at ``x`` from 0 to 1."""
    offset: dict[str, Any] = {"xytext": (0, -4 - 10 * line), "textcoords": "offset points"}
    axes.annotate(text, (x, 0), xycoords="axes fraction", fontsize=7.5, color=PALE, va="top", **offset)


def draw_heads(attention: PartSpec, title: str) -> Figure:
    """Draw the weights of heads, or of the two maps of one, and what they make together."""
    figure, panels = make_panels(title, f"{QUERIES_NOTE} {MEMORY_NOTE}\n{FITTED_NOTE}")
    columns = [*map(str, range(POSITIONS)), *["\u00b7"] * PADDING]
    for axes, (name, weights) in zip(panels, head_maps(attention).items(), strict=True):
        reading = Reading(weights, weights != 0, None, weights, columns)
        _draw_heatmap(axes, reading, weights, BROWN_TO_BLUE, (-1, 1))
        hatch(axes, ~reading.allowed_mask, left_edges(len(columns), 0))
        label_panel(
            axes, name, f"white 0, blue 1, least {weights.min():.2f}" if name == "difference" else "white 0, blue 1"
        )
    steps = np.arange(len(weights))
    panels[0].set_yticks(steps + 0.5, [str(step) for step in steps])
    panels[0].set_ylabel("step", fontsize=7.5, color=PALE, labelpad=3)
    panels[2].set_title("memory position", loc="right", fontsize=7.5, color=PALE, pad=4)
    return figure


def draw_mixer(mixer: PartSpec, title: str) -> Figure:
    """Draw how much what a step reads depends on each step: lengths of derivatives, their shares, and three rows."""
    lengths, shares = mixer_shares(mixer)
    steps = [str(step) for step in range(len(shares))]
    reading = Reading(lengths, np.tri(len(shares), dtype=bool), None, shares, steps)
    figure, panels = make_panels(title, "Later steps change nothing. " + MIXER_NOTE, gap=0.36)
    _draw_heatmap(panels[0], reading, lengths, WHITE_TO_BROWN, (0, float(lengths.max())))
    _draw_heatmap(panels[1], reading, shares, WHITE_TO_BLUE, (0, 1))
    label_panel(panels[0], "derivatives", f"white 0, darkest {lengths.max():.2f}")
    label_panel(panels[1], "shares of a row", "white 0, darkest 1")
    for axes in panels[:2]:
        hatch(axes, ~reading.allowed_mask, left_edges(len(steps), 0))
    panels[0].set_yticks(np.arange(len(steps)) + 0.5, steps)
    panels[0].set_ylabel("step", fontsize=7.5, color=PALE, labelpad=3)
    panels[0].set_title("on step", loc="right", fontsize=7.5, color=PALE, pad=4)
    panels[2].bar(np.arange(len(steps)), shares[-1], color=BLUE, width=0.72)
    panels[2].set(xticks=[], ylim=(0, max(0.5, 1.05 * shares[-1].max())))
    panels[2].spines[["top", "right"]].set_visible(False)
    panels[2].spines[["left", "bottom"]].set_color(GRID)
    label_panel(panels[2], "the last step", "its shares, from step 0 on")
    return figure


def draw_normalizer(normalizer: PartSpec, title: str) -> Figure:
    """Draw one row of scores, its weights, and the weight of one of two positions as its score rises."""
    values, softmax = row_weights(normalizer), row_weights("softmax")
    is_softmax = np.array_equal(values, softmax)
    note = "" if is_softmax else "Dark lines: softmax of the same scores."
    figure, panels = make_panels(title, note, gap=0.36)
    scores, weights, curve = panels
    positions = np.arange(len(SCORE_ROW))
    scores.bar(positions, SCORE_ROW, color=BROWN, width=0.72)
    weights.bar(positions, values, color=BLUE, width=0.72)
    weights.set_ylim(0, max(1.02, values.max()))
    curve.plot(RISING_SCORES, rising_weights(normalizer), color=BLUE, linewidth=1.8)
    if not is_softmax:
        bars = positions[:ALLOWED_COUNT]
        weights.hlines(softmax[:ALLOWED_COUNT], bars - 0.36, bars + 0.36, color=INK, linewidth=1.2)
        curve.plot(RISING_SCORES, rising_weights("softmax"), color=INK, linewidth=0.8)
    for axes in (scores, weights):
        span = ALLOWED_COUNT - 0.5, len(positions) - 0.5
        axes.axvspan(*span, facecolor="none", edgecolor=HATCH, hatch="/////", linewidth=0)
        axes.set(xlim=(-0.5, len(positions) - 0.5), xticks=[])
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(GRID)
        axes.grid(axis="y", color=GRID, linewidth=0.5)
        axes.set_axisbelow(True)
    curve.set_xticks((RISING_SCORES[0], FIXED_SCORE, RISING_SCORES[-1]))
    label_panel(scores, "one row of scores", "hatched: not allowed")
    label_panel(weights, "weights", f"{(values > 0).sum()} of {ALLOWED_COUNT} above 0, sum {values.sum():.2f}")
    label_panel(curve, "weight of one of two", f"by its score; the second has {FIXED_SCORE:g}", lines_below=1)
    return figure


class Vector(NamedTuple):
    """A vector that a query input may select: its text, its position in inches, and when it is known."""

    text: str
    position: tuple[float, float]
    availability: str


VECTORS = {
    "context": Vector("$c_{t-1}$  last context", (0.95, 1.85), "known after the previous step has read"),
    "prev_state": Vector("$h_{t-1}$  previous state", (0.95, 1.2), "known before the cell runs"),
    "token": Vector(
        "$e(y_{t-1})$  token", (2.6, 0.55), "known before the cell runs; in training, for all steps at once"
    ),
    "tag": Vector("$e(l)$  tag", (0.95, 0.55), "known from the start"),
    "nothing": Vector("$w$  learned", (4.1, 0.55), "the same at every step"),
    "state": Vector("$h_t$  current state", (4.1, 1.2), "known after the cell has run"),
}
MODULES = {"query": (2.6, 1.85), "attention": (4.1, 1.85), "cell": (2.6, 1.2), "readout": (5.45, 1.2)}
ARROWS = [("prev_state", "cell"), ("token", "cell"), ("cell", "state"), ("state", "readout")]
ARROWS += [("query", "attention"), ("attention", "readout")]
# Arrows that would cross another box are curved.
CURVATURES = {("token", "query"): 0.55, ("attention", "readout"): -0.2}


def draw_step(needs: str, title: str) -> Figure:
    """Draw the vectors of one step, the selected one in color with an arrow to the query."""
    figure = blank_figure(STEP_HEIGHT, title, f"The selected vector is {VECTORS[needs].availability}.")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(0, STEP_HEIGHT))
    axes.set_axis_off()
    boxes = {name: _draw_box(axes, name, position, "white", INK) for name, position in MODULES.items()}
    for name, vector in VECTORS.items():
        colors = (SELECTED, "white") if name == needs else (BOX, INK)
        boxes[name] = _draw_box(axes, vector.text, vector.position, *colors)
    figure.draw_without_rendering()  # boxes get their sizes, at which arrows end
    for arrow in ARROWS:
        _draw_arrow(axes, boxes, arrow, PALE, 1.0)
    _draw_arrow(axes, boxes, (needs, "query"), SELECTED, 2.0)
    return figure


def _draw_box(axes: Axes, text: str, position: tuple[float, float], fill: str, ink: str) -> Patch:
    shape = "square,pad=0.45" if fill == "white" else "round,pad=0.45"
    edge = SELECTED if fill == SELECTED else GRID
    style = {"boxstyle": shape, "facecolor": fill, "edgecolor": edge, "linewidth": 1}
    patch = axes.text(*position, text, fontsize=8.5, color=ink, ha="center", va="center", bbox=style).get_bbox_patch()
    assert patch is not None
    return patch


def _draw_arrow(axes: Axes, boxes: dict[str, Patch], ends: tuple[str, str], color: str, width: float) -> None:
    curve = f"arc3,rad={CURVATURES.get(ends, 0.0)}"
    start, end = (MODULES.get(name) or VECTORS[name].position for name in ends)
    arrow = FancyArrowPatch(start, end, connectionstyle=curve, arrowstyle="-|>", color=color, linewidth=width)
    arrow.set(patchA=boxes[ends[0]], patchB=boxes[ends[1]], mutation_scale=9)
    axes.add_patch(arrow)
