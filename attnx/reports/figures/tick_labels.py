"""Writes beside a heat map what was read and what was written: legibly at any length, in any script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from attnx.reports.figures.fonts import LEFT_TO_RIGHT, Lettering, right_to_left, shortened, wrapped
from attnx.reports.figures.grid_layout import DPI, INK, PALE
from attnx.runs.alignments import END, Alignment, without_end

WRONG = "#b3261e"
LONGEST = 24  # columns of a symbol that are written beside a row or column
TITLE, REFERENCE = 4, 2  # lines at most


class Labels(NamedTuple):
    """What is written around one heat map.

    Attributes:
        alignment: whose symbols.
        lettering: the fonts.
        size: of symbols, in points.
        lefts: where each column begins, in cells.
        title: above the map; None for that of the alignment, with its reference below if it is wrong.
        note: a line between title and map; "" for none.
    """

    alignment: Alignment
    lettering: Lettering
    size: float
    lefts: NDArray[np.float64]
    title: str | None = None
    note: str = ""

    @property
    def style(self) -> dict[str, Any]:
        """How text is written."""
        return {"parse_math": False, "fontfamily": self.lettering.families, "color": INK}

    def write(self, axes: Axes) -> None:
        """Write symbols along the top and down the side, the title, and below the reference of what is wrong."""
        alignment, steps = self.alignment, len(self.alignment.weights)
        axes.xaxis.tick_top()
        axes.tick_params(length=0, pad=4, labelsize=self.size)
        places = self.lefts + 0.5
        axes.set_xticks(places, [self._symbol(s) for s in alignment.source], **self.style)
        axes.set_yticks(np.arange(steps) + 0.5, [self._symbol(s) for s in alignment.output], **self.style)
        cell = axes.get_window_extent().width / axes.get_xlim()[1]
        _turn_wide(axes, 0.94 * cell)
        self._thin(axes, cell)
        width = max(26, int(axes.get_window_extent().width / DPI * 72 / (0.62 * self.size)))
        title = self._title() if self.title is None else self.title
        cross = " \u2717" if alignment.wrong and self.title is None else ""
        lines = [wrapped(title, width, TITLE, cross), *([self.note] if self.note else [])]
        axes.set_title("\n".join(lines), loc="left", fontsize=self.size + 1, pad=7, **self.style)
        below = 6.0
        if alignment.own:
            self._name_halves(axes)
            below += 1.4 * self.size
        if alignment.wrong and self.title is None:
            reference = f"reference: {self._written(alignment.reference)}"
            style = self.style | {"color": WRONG}
            style |= {"fontsize": self.size, "labelpad": below}
            axes.set_xlabel(wrapped(reference, width, REFERENCE), loc="left", **style)
            axes.xaxis.set_label_position("bottom")

    def _symbol(self, symbol: str) -> str:
        return shortened(self.lettering.shown(symbol), LONGEST)

    def _title(self) -> str:
        """What was read and what was written; the latter alone where no source was read."""
        alignment = self.alignment
        read = self.lettering.shown(alignment.name) or said(alignment.read, self.lettering)
        written = self._written(alignment.output)
        if right_to_left(read) or right_to_left(written):
            read, written = (f"{LEFT_TO_RIGHT}{text}{LEFT_TO_RIGHT}" for text in (read, written))
        return f"{read} \u2192 {written}" if alignment.read else written

    def _written(self, symbols: Sequence[str]) -> str:
        """Symbols as they are read; of rows of numbers how many there are."""
        return f"{len(symbols)} steps" if self.alignment.steps else said(symbols, self.lettering)

    def _name_halves(self, axes: Axes) -> None:
        for name, part in halves(self.alignment).items():
            axes.annotate(
                name,
                (self.lefts[part.start], len(self.alignment.weights)),
                xytext=(0, -4),
                textcoords="offset points",
                verticalalignment="top",
                color=PALE,
                fontsize=self.size - 1,
                annotation_clip=False,
            )

    def _thin(self, axes: Axes, cell: float) -> None:
        """Leave labels out, evenly in either half and down the side, where they would overlap."""
        widest = max(label.get_window_extent().width for label in axes.get_xticklabels())
        highest = max(label.get_window_extent().height for label in axes.get_yticklabels())
        across, down = (int(np.ceil(1.05 * needed / cell)) for needed in (widest, highest))
        if across > 1:
            kept = [place for part in halves(self.alignment).values() for place in range(part.start, part.stop, across)]
            labels = [label.get_rotation() for label in axes.get_xticklabels()]
            written = [self._symbol(self.alignment.source[place]) for place in kept]
            axes.set_xticks(self.lefts[kept] + 0.5, written, rotation=max(labels), **self.style)
        if down > 1:
            rows = np.arange(0, len(self.alignment.output), down)
            axes.set_yticks(rows + 0.5, [self._symbol(self.alignment.output[row]) for row in rows], **self.style)


def halves(alignment: Alignment) -> dict[str, slice]:
    """The columns of the source, then those of the decoder's own states; those there are none of are left out."""
    read, symbols = len(alignment.read), len(alignment.source)
    found = {"source": slice(0, read), "own states": slice(read, symbols)}
    return {name: part for name, part in found.items() if part.start < part.stop}


def said(symbols: Iterable[str], lettering: Lettering) -> str:
    """A word's letters run together; longer symbols, and numbers, keep their spaces; nothing at all reads ``∅``."""
    words = without_end(symbols)
    if not words:
        return "\u2205"
    if all(len(word) == 1 for word in words) and not all(word.isdecimal() for word in words):
        return lettering.shown("".join(words))
    return " ".join(map(lettering.shown, words))


def _turn_wide(axes: Axes, most: float) -> None:
    """Stand the labels on end, all if one is wider than ``most`` pixels; the end symbol turns alone."""
    labels = axes.get_xticklabels()
    wide = {label.get_text() for label in labels if label.get_window_extent().width > most}
    for label in labels:
        if wide - {END} or label.get_text() in wide:
            label.set_rotation(90)
