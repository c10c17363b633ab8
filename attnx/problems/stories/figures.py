"""Draws an entity model's memory: the gate of each slot at each sentence of a story, and the question's attention."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnx.data.evenly_spaced import evenly_spaced_indices
from attnx.reports.figures.fonts import TextFonts, choose_fonts, shorten
from attnx.reports.figures.heatmaps import MAX_PANELS_ON_PAGE, MAX_PICTURES, Format, draw_cells, save_figure
from attnx.reports.figures.panels import DPI, INK, WRONG, arrange, left_edges
from attnx.runs.alignments import Alignment, read_saved_alignments, without_end
from attnx.runs.layout import ALIGNMENTS, RUN_JSON
from attnx.runs.run import read_run

STOP = "."
CELL = 0.24  # inches
QUESTION_GAP = 0.6  # cells between sentences and question
FONT_SIZE = 8  # points
MAX_SENTENCE_COLUMNS = 60


class StorySlots(NamedTuple):
    """An example: the gate (n, j) of each slot at each sentence, and the question's weight (j,) on each slot."""

    sentences: list[str]
    question: str
    gates: NDArray[np.float32]
    attention: NDArray[np.float32]
    answer: str
    reference: str


def draw_slots(folder: Path | str, form: Format = "png") -> list[Path]:
    """Draw stories of a run folder next to their arrays, evenly from short to long, and the shortest on one page.

    The page is the last of the pictures; there is none if the run has no slots or saved no stories.

    Raises:
        UserError: an array file cannot be read or its shapes disagree.
    """
    path = Path(folder)
    config = read_run(path).config if (path / RUN_JSON).is_file() else {}
    if "num_slots" not in (config.get("model") or {}):
        return []
    bests = (next(iter(hypotheses.items())) for hypotheses in read_saved_alignments(path))
    stories = sorted(((file, to_story(best)) for file, best in bests), key=lambda item: len(item[1].sentences))
    if not stories:
        return []
    is_tied = config["model"].get("keys") == "tied"  # to words
    names = list(map(str, config["task"]["entities"] if is_tied else range(1, stories[0][1].gates.shape[1] + 1)))
    drawn = [stories[index] for index in evenly_spaced_indices(len(stories), MAX_PICTURES)]
    pictures = [save_figure(draw_stories([story], names), file.with_suffix(f".{form}")) for file, story in drawn]
    page = draw_stories([story for _, story in drawn[:MAX_PANELS_ON_PAGE]], names)
    return [*pictures, save_figure(page, path / f"{ALIGNMENTS}.{form}")]


def to_story(alignment: Alignment) -> StorySlots:
    """Read a story from an example's arrays: gates at the ends of sentences, attention at the end of the question."""
    weights = (alignment.weights[None] if alignment.heads is None else alignment.heads)[:, 0]
    source = alignment.source
    ends = [index for index, symbol in enumerate(source) if symbol == STOP]
    starts = [0, *(end + 1 for end in ends)]
    sentences = [" ".join(source[start:end]) for start, end in zip(starts, ends, strict=False)]
    answer, reference = (" ".join(without_end(symbols)) for symbols in (alignment.output, alignment.reference))
    question = " ".join(source[starts[-1] :])
    return StorySlots(sentences, question, weights[:, ends].T, weights[:, len(source) - 1], answer, reference)


def draw_stories(stories: Sequence[StorySlots], names: Sequence[str]) -> Figure:
    """Draw stories side by side, with a row per sentence and a column per slot."""
    figure = Figure(figsize=(1, 1), dpi=DPI)
    FigureCanvasAgg(figure)
    texts = [text for story in stories for text in (*story.sentences, story.question, story.answer, story.reference)]
    fonts = choose_fonts("".join([*texts, *names]))
    panels = [_draw_story(figure, story, names, fonts) for story in stories]
    arrange(figure, panels, columns=min(len(panels), 2))
    return figure


def _draw_story(figure: Figure, story: StorySlots, names: Sequence[str], fonts: TextFonts) -> Axes:
    """Draw one story: its sentences, and below a gap its question."""
    count, slots, lefts = len(story.sentences), len(names), left_edges(len(names), 0)
    height = count + QUESTION_GAP + 1 if count else 1.0
    axes = figure.add_axes((0, 0, slots * CELL, height * CELL))
    axes.set(xlim=(0, slots), ylim=(height, 0))
    axes.spines[:].set_visible(False)
    draw_cells(axes, story.attention[None], lefts, 1, height - 1)
    if count:
        draw_cells(axes, story.gates, lefts, 1)

    def display(text: str) -> str:
        return shorten(" ".join(map(fonts.display, text.split(" "))), MAX_SENTENCE_COLUMNS)

    style: dict[str, Any] = {"parse_math": False, "fontfamily": fonts.families, "color": INK}
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=4, labelsize=FONT_SIZE)
    rotation = 90 if max(map(len, names)) > 2 else 0
    axes.set_xticks(lefts + 0.5, [fonts.display(name) for name in names], rotation=rotation, **style)
    rows = list(map(display, [*story.sentences, story.question]))
    axes.set_yticks([*(np.arange(count) + 0.5), height - 0.5], rows, **style)
    answer, is_right = f"\u2192 {display(story.answer)}", story.answer == story.reference
    if not is_right:
        answer += f" \u2717 (right: {display(story.reference)})"
    style["color"] = INK if is_right else WRONG
    axes.set_xlabel(answer, loc="left", fontsize=FONT_SIZE + 1, labelpad=5, **style)
    axes.xaxis.set_label_position("bottom")
    return axes
