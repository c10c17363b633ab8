"""The docstring of a part in Markdown: its formula, and its paragraphs."""

from __future__ import annotations

import re

from attnx.registry.part import Part


def formula_markdown(part: Part) -> str:
    """The formula in Markdown: code, and words between pieces of code as they are; "" without one."""
    formula = part.doc_line("Formula")
    if not formula:
        return ""
    # The line begins with code, and ends with code unless one of its marks is without a partner.
    end = "" if formula.count("``") % 2 else "``"
    return f"``{formula}{end}".replace("``", "`")


def doc_paragraphs(part: Part) -> list[str]:
    """The paragraphs of the docstring in Markdown without formula, source and example; first its summary."""
    text = re.sub(r"^(Formula|Source):.*(?:\n[ \t]+\S.*)*", "", part.doc.split(">>>")[0], flags=re.MULTILINE)
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")
    paragraphs = map(str.strip, re.split(r"\n\s*\n", text))
    return list(filter(None, paragraphs)) or [part.name]
