"""A heat map of a page, and the part of an alignment that it has room for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnx.runs.alignments import Alignment, Weights

GROUP_GAP = 0.6  # cells between the source columns and those of the decoder states


class Panel(NamedTuple):
    """One heat map of a page: an alignment's weights (t, m), or those of one of its heads.

    ``forbidden_mask`` (t, m) is what the scope forbids, ``rows`` what a row is. ``title`` is None for the alignment's
    own, with its reference below the map if it is wrong; ``note`` is a line below the title.
    """

    alignment: Alignment
    weights: Weights
    forbidden_mask: NDArray[np.bool_]
    rows: str = "output"
    title: str | None = None
    note: str = ""


class ShownPart(NamedTuple):
    """What is shown of an alignment: its first rows, and columns, of which the last are decoder states."""

    rows: int
    columns: NDArray[np.intp]
    decoder_states: int

    @classmethod
    def of(cls, alignment: Alignment, weights: Weights, most: int) -> ShownPart:
        """The first steps, and the source symbols that they read most, so that neither exceeds ``most``."""
        steps, states, source = len(weights), alignment.num_decoder_states, len(alignment.source_symbols)
        rows = min(steps, most)
        shown_source = min(source, max(most - min(states, rows), most // 2 if states else most))
        shown_states = min(states, most - shown_source)
        if shown_states < states:
            rows = min(rows, shown_states)
        read = np.nan_to_num(weights[:rows, :source]).sum(axis=0)
        sums = [read[start : start + shown_source].sum() for start in range(source - shown_source + 1)]
        columns = np.append(np.argmax(sums) + np.arange(shown_source), source + np.arange(shown_states))
        return cls(rows, columns.astype(np.intp), shown_states)

    @property
    def lefts(self) -> NDArray[np.float64]:
        """Left edge of each column, in cells."""
        return left_edges(len(self.columns), self.decoder_states)

    def note(self, steps: int, columns: int) -> str:
        """How much of an alignment is shown; "" if all is."""
        counts = ((self.rows, steps, "steps"), (len(self.columns), columns, "positions"))
        return ", ".join(f"{shown} of {all_} {name}" for shown, all_, name in counts if shown < all_)


def left_edges(columns: int, decoder_states: int) -> NDArray[np.float64]:
    """Left edge of each column, in cells; a gap separates the decoder states from the source."""
    source, positions = columns - decoder_states, np.arange(columns)
    return positions + GROUP_GAP * (positions >= source) * bool(source)


def column_groups(columns: int, decoder_states: int) -> dict[str, slice]:
    """The columns of the source, then those of the decoder states; empty groups are left out."""
    source = columns - decoder_states
    groups = {"source": slice(0, source), "decoder states": slice(source, columns)}
    return {name: group for name, group in groups.items() if group.start < group.stop}
