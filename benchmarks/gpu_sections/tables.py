"""Rows as text: a line while they are measured, and tables of Markdown, which are read in a terminal, too."""

from __future__ import annotations

from collections.abc import Sequence

from attnx.reports.markdown import table
from gpu_sections.cases import Row


def number(figure: float | None) -> str:
    """A figure with three significant digits.

    >>> number(31234.5), number(0.00012345), number(None)
    ('31,234', '0.000123', '')
    """
    if figure is None:
        return ""
    return f"{figure:,.0f}" if abs(figure) >= 1000 else f"{figure:.3g}"


def row_text(row: Row) -> str:
    """A row in a line.

    >>> row_text(Row("idle", "attnx", {"idle %": 9.87654, "ms a step": 2.0}, "", 7.5))
    'idle: attnx: idle % 9.88, ms a step 2 (7.5 s)'
    """
    figures = ", ".join(f"{name} {number(figure)}" for name, figure in row.figures.items())
    return f"{row.section}: {row.name}: {figures or row.note} ({row.seconds:g} s)"


def section_tables(rows: Sequence[Row]) -> str:
    """A table a section; a note stands where a row has no figures."""
    tables = []
    for section in dict.fromkeys(row.section for row in rows):
        listed = [row for row in rows if row.section == section]
        names = list(dict.fromkeys(name for row in listed for name in row.figures))
        cells = [[row.name, *(number(row.figures.get(name)) for name in names), row.note] for row in listed]
        tables.append(table([section, *names, "note"], cells))
    return "\n\n".join(tables)
