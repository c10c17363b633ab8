"""The columns of a table of texts: which are read, whether the first line names them, and what may not be meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from attnx.data.readers.lines import are_column_names, read_lines
from attnx.errors import UserError, suggest
from attnx.files.parse_number import is_number
from attnx.files.printable import quoted

CHECKED_LINES: Final = 2_000
MIN_LINES: Final = 20  # to call a column one of few values, or a line one of names, by the others
MIN_LINES_FOR_VALUES: Final = 200
MAX_VALUES: Final = 10
MIN_SHARE: Final = 0.95
ADDRESS: Final = re.compile(r"(?:https?|ftp)://\S+|\S+@\S+\.\w+")


class TableRow(NamedTuple):
    """The cells of a line that are read, without white space around them, and where it is, ``file:line``."""

    cells: list[str]
    where: str
    line: str


def read_text_rows(path: Path, columns: Sequence[str] = ()) -> Iterator[TableRow | None]:
    """Read the lines of a UTF-8 table with tabs, plain or ``.gz``; None for a blank one.

    ``columns`` are those to read, in this order, by their numbers from 1 or by their names in the first line; all if
    there are none.

    Raises:
        UserError: a bad file, a line that lacks a column, or a name that is not in the first line.
    """
    places: list[int] | None = None if columns else []
    for number, line in read_lines(path, "TSV"):
        if not line.strip() and "\t" not in line:
            yield None
            continue
        where, cells = f"{path}:{number}", [cell.strip() for cell in line.split("\t")]
        if places is None:
            places = [_place(column, cells, path) for column in columns]
            if not all(map(str.isdecimal, columns)):
                continue
        if places:
            if max(places) >= len(cells):
                missing = f"column {max(places) + 1}, which task.columns names"
                raise UserError(f"{where}: {len(cells)} columns, so there is no {missing}, in {quoted(line)}")
            cells = [cells[place] for place in places]
        yield TableRow(cells, where, line)


def _place(column: str, names: Sequence[str], path: Path) -> int:
    """The index of a column by its number from 1, or its name."""
    if column.isdecimal() and int(column) > 0:
        return int(column) - 1
    if column in names:
        return names.index(column)
    raise UserError(f"task.columns: {path} has no column {column!r} in its first line{suggest(column, names)}")


def check_columns(
    rows: Iterable[TableRow], kinds: Sequence[str], path: Path, has_further_columns: bool = False
) -> None:
    """Refuse columns of a table's first lines that hold something else than they would be read as.

    ``kinds`` are what is expected in each column, ``word`` and ``pronunciation``; the last one also in further ones,
    unless these are not read.
    """
    table = [row.cells for row in rows]
    width = max(map(len, table), default=0)
    checked = len(kinds) if has_further_columns else width
    columns = [[cells[place] for cells in table if place < len(cells)] for place in range(width)]
    problems = {place: text for place, cells in enumerate(columns) if (text := _problem(cells, width > len(kinds)))}
    place = min(problems, default=checked)
    if place >= checked:
        return
    kind = kinds[min(place, len(kinds) - 1)]
    fitting = [str(index + 1) for index in range(width) if index not in problems]
    choice = ",".join(fitting) if len(fitting) > 1 else "1,3"
    raise UserError(
        f"{path}: column {place + 1} has {problems[place]}, and would be read as a {kind}; name the columns to read, "
        f"task.columns=[{choice}]"
    )


def _problem(cells: Sequence[str], has_others: bool) -> str:
    """What the cells of a column are, if that is no text to learn; empty if it may be.

    ``has_others`` says whether there are columns that may be meant instead of one of few values.
    """
    example = quoted(cells[0])
    if len(cells) >= MIN_LINES:
        if sum(map(is_number, cells)) >= MIN_SHARE * len(cells):
            return f"numbers, such as {example}"
        if sum(bool(ADDRESS.fullmatch(cell)) for cell in cells) >= MIN_SHARE * len(cells):
            return f"addresses, such as {example}"
    if has_others and len(cells) >= MIN_LINES_FOR_VALUES and len(values := set(cells)) <= MAX_VALUES:
        return f"only {len(values)} different values, such as {example}"
    return ""


def is_header(
    cells: Sequence[str], symbols: Iterable[str], counts: Mapping[str, int], known: Collection[str] = ()
) -> bool:
    """Whether the first line of a table names its columns.

    It does if each cell is a typical name; or if none of the symbols of its target occurs in any other line, while most
    symbols of many other lines recur, by their ``counts``. The second does not hold of a line of numbers, nor of a
    target whose symbols are all ``known`` from the training data.
    """
    target = set(symbols)
    is_data = target.issubset(known) or all(is_number(word) for cell in cells for word in cell.split())
    recurring = sum(count > 1 for count in counts.values())
    has_recurring = sum(counts.values()) >= MIN_LINES and 2 * recurring > len(counts)
    return are_column_names(cells) or (has_recurring and not is_data and target.isdisjoint(counts))


def header_note(path: Path, cells: Sequence[str], separator: str = "\t") -> str:
    """What is said of a first line that is taken for names."""
    return f"the first line of {path} is taken for names of columns, and not read: {quoted(separator.join(cells))}"
