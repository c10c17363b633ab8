"""Results and the ledger as tables of Markdown, which are read in a terminal, too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from attnx.errors import UserError
from attnx.files.atomic_files import atomic_write
from gpu_sections.cases import Row
from gpu_sections.ledger import Entry

START, END = "<!-- ledger: written by benchmarks/gpu.py --ledger -->\n\n", "\n<!-- end of the ledger -->\n"
HEADINGS = ("", "aim", "prediction", "measured", "", "card", "torch", "commit")
MACHINE = ("card", "torch", "commit")


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
        tables.append(markdown([section, *names, "note"], cells))
    return "\n".join(tables)


def ledger_table(entries: Iterable[Entry]) -> str:
    """The ledger."""
    return markdown(HEADINGS, [_cells(entry) for entry in entries])


def _cells(entry: Entry) -> list[str]:
    line, machine = entry.line, entry.machine
    figures = [line.aim, number(entry.prediction), number(entry.figure), entry.verdict]
    return [line.name, *figures, *(machine.get(key, "") for key in MACHINE)]


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table.

    >>> print(markdown(["a", ""], [["1|2", "3"]]), end="")
    | a | |
    |---|---|
    | 1/2 | 3 |
    """
    lines = [[cell.replace("|", "/") for cell in row] for row in (headings, *rows)]
    listed = ["".join(f"| {cell} " if cell else "| " for cell in line) + "|\n" for line in lines]
    return "".join([listed[0], "|" + "---|" * len(headings) + "\n", *listed[1:]])


def replace_ledger(page: Path, table: str) -> None:
    """Replace what stands between the two markers of a page.

    Raises:
        UserError: the page has no markers.
    """
    head, start, tail = page.read_text(encoding="utf-8").partition(START)
    _, end, tail = tail.partition(END)
    if not start or not end:
        raise UserError(f"{page}: no ledger; its markers are missing")
    with atomic_write(page) as partial:
        partial.write_text(head + START + table + END + tail, encoding="utf-8")
