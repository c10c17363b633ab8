"""Vocabularies of the most frequent symbols of a text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from attnx.data.examples import Symbols
from attnx.errors import UserError
from attnx.files.bounded_files import MAX_LIST_BYTES, read_json


def most_frequent(texts: Iterable[Symbols], size: int) -> Symbols:
    """Return the ``size`` most frequent symbols, sorted; ties go to the first in sorted order.

    >>> most_frequent([("b", "a", "c"), ("c",)], 2)
    ('a', 'c')
    """
    counts: Counter[str] = Counter()
    for symbols in texts:
        counts.update(symbols)
    ranked = sorted(counts, key=lambda symbol: (-counts[symbol], symbol))
    return tuple(sorted(ranked[:size]))


def save_symbols(path: Path, symbols: Symbols) -> None:
    """Write symbols as a JSON list."""
    path.write_text(json.dumps(symbols, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def load_symbols(path: Path) -> Symbols:
    """Read what :func:`save_symbols` wrote.

    Raises:
        UserError: the file cannot be read, or is not a list of strings.
    """
    symbols = read_json(path, MAX_LIST_BYTES)
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise UserError(f"{path}: holds no symbols; expected a JSON list of strings")
    return tuple(symbols)
