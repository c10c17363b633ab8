"""Writes rows as the text of a CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> str:
    """The text of a table with a header; a cell that a row lacks is empty.

    >>> print(csv_text(["a", "b"], [{"b": "1,5"}]), end="")
    a,b
    ,"1,5"
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
