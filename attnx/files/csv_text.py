"""Writes rows as the text of a CSV file that is safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from attnx.files.parse_number import is_number

FORMULA: Final = re.compile(r"'*[=+\-@\t\r]")
"""How a cell begins that a spreadsheet would compute, or that is such a cell with quotes before it."""


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> str:
    """The text of a table with a header; a cell that a row lacks is empty.

    A quote comes before a text that a spreadsheet would take for a formula; :func:`cell_value` removes it.

    >>> print(csv_text(["a", "b"], [{"b": "1,5"}, {"a": "-7", "b": "=7+9"}]), end="")
    a,b
    ,"1,5"
    -7,'=7+9
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writerow({column: _harmless(column) for column in columns})
    writer.writerows({column: _harmless(cell) for column, cell in row.items()} for row in rows)
    return text.getvalue()


def cell_value(cell: str) -> str:
    """A cell as it was given to :func:`csv_text`.

    >>> cell_value("'=7+9"), cell_value("'tis"), cell_value("-7")
    ('=7+9', "'tis", '-7')
    """
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


def _harmless(cell: str) -> str:
    return f"'{cell}" if FORMULA.match(cell) and not is_number(cell) else cell
