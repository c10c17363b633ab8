"""Draws what slots did while a story was read: which of them woke at which sentence, and what the question read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from attnx.data.evenly_spaced import evenly
from attnx.reports.figures.fonts import Lettering, lettering_for, shortened
from attnx.reports.figures.grid_layout import DPI, GRID, INK, arrange
from attnx.reports.figures.heatmaps import DRAWN, SHOWN, WHITE_TO_BLUE, Format, save
from attnx.reports.figures.tick_labels import WRONG
from attnx.runs.alignments import Alignment, read_examples, without_end
from attnx.runs.layout import ALIGNMENTS, RUN
from attnx.runs.run import read_run

STOP = "."
CELL, APART, SIZE = 0.24, 0.6, 8  # inches of a cell, cells between sentences and question, points
LONGEST = 60  # characters of a sentence


class Story(NamedTuple):
    """One example as it is drawn.

    Attributes:
        sentences: in order.
        question: likewise as text.
        gates: (n, j), how far each slot took in each sentence.
        reading: (j,), how much of each the question read.
        answer: what was written.
        reference: what is right.
    """

    sentences: list[str]
    question: str
    gates: NDArray[np.float32]
    reading: NDArray[np.float32]
    answer: str
    reference: str


def has_slots(config: Mapping[str, Any]) -> bool:
    """Whether a run of this configuration kept gates and readings instead of alignments."""
    return (config.get("model") or {}).get("name") == "entity"


def draw_slots(folder: Path | str, form: Format = "png") -> list[Path]:
    """Draw stories of a run folder, evenly from short to long, beside their arrays, and the shortest on one page.

    Returns:
        the pictures written, the page last; nothing when the run has no slots or kept no stories.

    Raises:
        UserError: an array file cannot be read or its shapes disagree.
    """
    path = Path(folder)
    if not (path / RUN).is_file() or not has_slots(config := read_run(path).config):
        return []
    bests = [next(iter(hypotheses.items())) for hypotheses in read_examples(path)]
    found = sorted(((file, story_of(one)) for file, one in bests), key=lambda held: len(held[1].sentences))
    if not found:
        return []
    places = evenly(len(found), DRAWN)
    names = slot_names(config, found[0][1].gates.shape[1])
    written = [save(picture([found[place][1]], names), found[place][0].with_suffix(f".{form}")) for place in places]
    shown = [found[place][1] for place in places[:SHOWN]]
    return [*written, save(picture(shown, names), path / f"{ALIGNMENTS}.{form}")]


def slot_names(config: Mapping[str, Any], slots: int) -> list[str]:
    """The words that the keys are tied to, or numbers from 1."""
    if config["model"].get("keys") == "tied":
        return [str(word) for word in config["task"]["entities"]]
    return [str(number) for number in range(1, slots + 1)]


def story_of(alignment: Alignment) -> Story:
    """What an example's arrays hold: the slots' gates where sentences end, their readings where the question does."""
    over = (alignment.weights[None] if alignment.heads is None else alignment.heads)[:, 0]
    source = alignment.source
    ends = [place for place, symbol in enumerate(source) if symbol == STOP]
    starts = [0, *(end + 1 for end in ends)]
    sentences = [" ".join(source[start:end]) for start, end in zip(starts, ends, strict=False)]
    answer, reference = (" ".join(without_end(symbols)) for symbols in (alignment.output, alignment.reference))
    question = " ".join(source[starts[-1] :])
    return Story(sentences, question, over[:, ends].T, over[:, len(source) - 1], answer, reference)


def picture(stories: Sequence[Story], names: Sequence[str]) -> Figure:
    """Stories beside each other, rows of sentences and columns of slots; ready to be saved."""
    figure = Figure(figsize=(1, 1), dpi=DPI)
    FigureCanvasAgg(figure)
    text = "".join("".join([*one.sentences, one.question, one.answer, one.reference]) for one in stories)
    lettering = lettering_for(text + "".join(names))
    panels = [_draw(figure, story, names, lettering) for story in stories]
    arrange(figure, panels, columns=min(len(panels), 2))
    return figure


def _draw(figure: Figure, story: Story, names: Sequence[str], lettering: Lettering) -> Axes:
    """One story: its sentences, and below a gap its question."""
    count, slots = len(story.sentences), len(names)
    high = count + APART + 1 if count else 1.0
    axes = figure.add_axes((0, 0, slots * CELL, high * CELL))
    axes.set(xlim=(0, slots), ylim=(high, 0))
    blocks = [(high - 1, story.reading[None]), *([(0.0, story.gates)] if count else [])]
    for top, cells in blocks:
        rows = top + np.arange(len(cells) + 1)
        axes.pcolormesh(
            np.arange(slots + 1), rows, cells, cmap=WHITE_TO_BLUE, vmin=0, vmax=1, edgecolors=GRID, linewidth=0.4
        )
        axes.add_patch(Rectangle((0, top), slots, len(cells), facecolor="none", edgecolor=GRID, linewidth=0.8))
    axes.spines[:].set_visible(False)
    style: dict[str, Any] = {"parse_math": False, "fontfamily": lettering.families, "color": INK}
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=4, labelsize=SIZE)
    turned = 90 if max(map(len, names)) > 2 else 0
    axes.set_xticks(np.arange(slots) + 0.5, [lettering.shown(name) for name in names], rotation=turned, **style)
    said = [_shown(text, lettering) for text in [*story.sentences, story.question]]
    axes.set_yticks([*(np.arange(count) + 0.5), high - 0.5], said, **style)
    right = story.answer == story.reference
    answer = _shown(story.answer, lettering) + (
        "" if right else f" \u2717 (right: {_shown(story.reference, lettering)})"
    )
    style["color"] = INK if right else WRONG
    axes.set_xlabel(f"\u2192 {answer}", loc="left", fontsize=SIZE + 1, labelpad=5, **style)
    axes.xaxis.set_label_position("bottom")
    return axes


def _shown(text: str, lettering: Lettering) -> str:
    return shortened(" ".join(lettering.shown(word) for word in text.split(" ")), LONGEST)
