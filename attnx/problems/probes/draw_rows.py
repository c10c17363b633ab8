"""Rows of each split, drawn from a seed; a row that two splits could share belongs to one of them by its hash."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from attnx.data.splits import SplitName

from .drawn import Difficulty, Drawn, Integers, Problem
from .sampling import mix

TOKENS_PER_CHUNK, MIN_ROWS = 2**18, 64  # drawn at once: they stay in a cache
NUM_SHARES: Final = 8
# The shares of all hashes that are validation and test; training has the others.
HELD_OUT: Final[dict[SplitName, int]] = {"valid": 0, "test": 1}
MAX_ROUNDS = 20


def draw_split(
    problem: Problem,
    settings: Sequence[Difficulty],
    count: int,
    seed: int,
    split: SplitName,
    shared: Collection[Difficulty],
) -> Iterator[tuple[Difficulty, Drawn]]:
    """Draw ``count`` rows of a split, its settings in turn; those of one setting come together.

    ``shared`` are the settings of other splits, too. Their rows are divided by a hash, so that no row is in two splits,
    unless so few rows are different that a split would stay empty: then it gets some of another.
    """
    for index, setting in enumerate(dict.fromkeys(settings)):
        turns = np.array([other == setting for other in settings])
        remaining = int(turns[np.arange(count) % len(settings)].sum())
        rng = np.random.default_rng((seed, ["train", "valid", "test"].index(split), index))
        rounds = 0
        while remaining:
            rows = min(MIN_ROWS + NUM_SHARES * remaining, max(1, TOKENS_PER_CHUNK // setting.length))
            drawn = problem.draw(rng, rows, setting)
            if setting in shared and rounds < MAX_ROUNDS:
                kept = is_in_split(drawn.inputs, split)
                rounds = 0 if kept.any() else rounds + 1
                drawn = drawn.rows(kept)
            drawn = drawn.rows(slice(remaining))
            remaining -= len(drawn.inputs)
            yield setting, drawn


def is_in_split(rows: Integers, split: SplitName) -> npt.NDArray[np.bool_]:
    """Whether rows (n, t) belong to a split by their hash."""
    share = hash_rows(rows) % np.uint64(NUM_SHARES)
    return share == HELD_OUT[split] if split in HELD_OUT else share >= len(HELD_OUT)


def hash_rows(rows: Integers) -> npt.NDArray[np.uint64]:
    """A hash of each row (n, t), from the sum of its symbols times random odd numbers."""
    factors = np.random.default_rng(0).integers(2**63, size=rows.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(
        1
    )
    return mix((rows + 1).astype(np.uint64) @ factors)
