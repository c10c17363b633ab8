"""What a file that is not there may have been meant to be: the names in its folder that are most like it."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import Final

from rapidfuzz import process
from rapidfuzz.distance import DamerauLevenshtein

# Names of a folder that are looked at: of one with millions, the first.
MOST_NAMES: Final = 10_000
LEAST_SIMILARITY: Final = 0.5


def no_such_file(path: Path) -> str:
    """Say that a file is missing, with up to three names of its folder that are near; or which folder is missing."""
    folder = path.parent
    if not folder.is_dir():
        above = next(parent for parent in (*folder.parents, Path()) if parent.is_dir())
        near = _near(folder.relative_to(above).parts[0], above) if folder.is_relative_to(above) else []
        return f"{path}: no such file; there is no folder {folder}{_or(near)}"
    return f"{path}: no such file{_or(_near(path.name, folder))}"


def _near(name: str, folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, MOST_NAMES)]
    except OSError:  # not ours to read
        return []
    similarity = DamerauLevenshtein.normalized_similarity
    found = process.extract(name, sorted(names), scorer=similarity, limit=3, score_cutoff=LEAST_SIMILARITY)
    return [str(folder / near) for near, _, _ in found]


def _or(names: list[str]) -> str:
    return f"; did you mean {' or '.join(names)}?" if names else ""
