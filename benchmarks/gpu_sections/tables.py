"""The results as tables, in the terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from gpu_sections.aims import Verdict
from gpu_sections.cases import Row


class Cells(NamedTuple):
    """A table as text."""

    title: str
    headings: list[str]
    rows: list[list[str]]


def all_tables(rows: Mapping[str, Sequence[Row]], verdicts: Sequence[Verdict]) -> list[Cells]:
    """The aims, then every section."""
    aims = [[item.aim, item.bound, number(item.figure), item.verdict] for item in verdicts]
    sections = [section_table(name, section) for name, section in rows.items()]
    return [Cells("aims", ["aim", "bound", "figure", "verdict"], aims), *sections]


def section_table(title: str, rows: Sequence[Row]) -> Cells:
    """A line per row; a note stands where rows have none of the figures."""
    names = list(dict.fromkeys(name for row in rows for name in row.figures))
    lines = [[row.name, *(number(row.figures.get(name)) for name in names), row.note] for row in rows]
    return Cells(title, ["", *names, "note"], lines)


def number(figure: float | None) -> str:
    """A figure with three significant digits.

    >>> number(31234.5), number(0.00012345), number(None)
    ('31,234', '0.000123', '-')
    """
    if figure is None:
        return "-"
    return f"{figure:,.0f}" if abs(figure) >= 1000 else f"{figure:.3g}"


def show(tables: Sequence[Cells], console: Console) -> None:
    """Print the tables."""
    for title, headings, rows in tables:
        table = Table(title=title, title_justify="left")
        for index, heading in enumerate(headings):
            is_text = index == 0 or heading in ("note", "verdict", "bound")
            table.add_column(heading, justify="left" if is_text else "right")
        for row in rows:
            table.add_row(*row)
        console.print(table, markup=False)


def markdown(heading: str, tables: Sequence[Cells]) -> str:
    """The tables as a Markdown page."""
    parts = [heading]
    for title, headings, rows in tables:
        lines = [headings, ["---"] * len(headings), *rows]
        listed = "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
        parts.append(f"## {title}\n\n{listed}")
    return "\n\n".join(parts) + "\n"
