"""Hard alignments: the position that each step of an output reads most, and how far two models agree in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from attnx.errors import UserError
from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import read_mapping
from attnx.runs.alignments import Alignment, read_best_alignments
from attnx.runs.layout import HARD_ALIGNMENTS

Positions = tuple[int, ...]
HardAlignments = Mapping[int, Positions]
"""The position with the largest weight at each step, -1 where nothing is read, by the index of the example."""


def hard_alignments(examples: Sequence[Alignment]) -> dict[int, Positions]:
    """The hard alignments of the examples whose output is right."""
    return {
        index: tuple(np.where(example.weights.any(axis=1), example.weights.argmax(axis=1), -1).tolist())
        for index, example in enumerate(examples)
        if example.is_right
    }


def alignment_agreement(first: HardAlignments, second: HardAlignments) -> float | None:
    """The share of steps at which two models read the same position most, over examples that both have right.

    Outputs of different lengths, which are right by different references, are left out. None if there is no example.

    >>> alignment_agreement({0: (0, 1, 2), 1: (0,), 3: (4,)}, {0: (0, 1, 1), 2: (5,), 3: (4, 5)})
    0.6666666666666666
    """
    examples = [(first[index], second[index]) for index in first.keys() & second.keys()]
    pairs = [pair for a, b in examples if len(a) == len(b) for pair in zip(a, b, strict=True)]
    return sum(a == b for a, b in pairs) / len(pairs) if pairs else None


def write_hard_alignments(folder: Path) -> None:
    """Write hard_alignments.json from the saved alignments of a run folder."""
    write_json(folder / HARD_ALIGNMENTS, hard_alignments(read_best_alignments(folder)))


def read_hard_alignments(folder: Path) -> dict[int, Positions]:
    """Read hard_alignments.json of a run folder; empty without the file.

    Raises:
        UserError: it is not of the format.
    """
    path = folder / HARD_ALIGNMENTS
    try:
        return {int(index): tuple(map(int, positions)) for index, positions in read_mapping(path).items()}
    except (ValueError, TypeError) as error:
        raise UserError(f"{path}: not the hard alignments of a run ({error})") from error
