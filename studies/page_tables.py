"""The tables of a page that studies write."""

from __future__ import annotations

from collections.abc import Mapping


def replace_tables(page: str, tables: Mapping[str, str]) -> str:
    """The text of a page with other tables, each of which stands between ``<!-- NAME -->`` and ``<!-- end -->``.

    Raises:
        ValueError: the page has no place for one.
    """
    for name, text in tables.items():
        start, end = f"<!-- {name} -->\n", "<!-- end -->"
        head, found, tail = page.partition(start)
        if not found:
            raise ValueError(f"the page has no place for {name}")
        page = f"{head}{start}\n{text}\n\n{end}{tail.partition(end)[2]}"
    return page
