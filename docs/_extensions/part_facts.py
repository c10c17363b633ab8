"""Docstrings as fields: ``Formula:`` and ``Source:`` of a part get lines of their own, and a NamedTuple's fields none.

The fields of a NamedTuple are in its signature; their docstrings are Python's own "Alias for field number 0".
"""

from __future__ import annotations

import re

from sphinx.application import Sphinx

FACT = re.compile(r"^(Formula|Source):(?= )")


def set_facts(app: Sphinx, what: str, name: str, item: object, options: dict[str, object], lines: list[str]) -> None:
    """Turn the facts of a docstring into a field list, with the blank lines that reStructuredText needs around it."""
    separated: list[str] = []
    for line, previous in zip(lines, ["", *lines], strict=False):
        is_fact, follows_fact = FACT.match(line), separated and separated[-1].startswith(":")
        if is_fact and previous.strip() and not follows_fact:
            separated.append("")
        separated.append(FACT.sub(r":\1:", line))
    lines[:] = separated


def skip_tuple_field(
    app: Sphinx, what: str, name: str, item: object, skip: bool, options: dict[str, object]
) -> bool | None:
    """Leave out the accessor of a NamedTuple's field."""
    return True if type(item).__name__ == "_tuplegetter" else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Change what autodoc reads."""
    app.connect("autodoc-process-docstring", set_facts)
    app.connect("autodoc-skip-member", skip_tuple_field)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
