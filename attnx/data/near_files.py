"""Messages about missing files, with similar names in the folder."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import Final

from rapidfuzz import process
from rapidfuzz.distance import DamerauLevenshtein

# Names of a folder that are compared; a folder may have millions.
MAX_NAMES: Final = 10_000
MIN_SIMILARITY: Final = 0.5


def missing_file_message(path: Path) -> str:
    """Say that a file is missing, with up to three similar names in its folder; or which folder is missing."""
    folder = path.parent
    if not folder.is_dir():
        parent = next(parent for parent in (*folder.parents, Path()) if parent.is_dir())
        similar = _similar_names(folder.relative_to(parent).parts[0], parent) if folder.is_relative_to(parent) else []
        return f"{path}: no such file; there is no folder {folder}{_suggestion(similar)}"
    return f"{path}: no such file{_suggestion(_similar_names(path.name, folder))}"


def _similar_names(name: str, folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, MAX_NAMES)]
    except OSError:  # no permission
        return []
    similarity = DamerauLevenshtein.normalized_similarity
    matches = process.extract(name, sorted(names), scorer=similarity, limit=3, score_cutoff=MIN_SIMILARITY)
    return [str(folder / match) for match, _, _ in matches]


def _suggestion(names: list[str]) -> str:
    return f"; did you mean {' or '.join(names)}?" if names else ""
