"""Fills a page that needs nothing but a browser: a template, its style and script beside it, and what it shows."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any


def filled(page: Path, title: str, content: Any) -> str:
    """The text of a page.

    Args:
        page: beside it lie the template, ``.html``, with ``{{title}}``, ``{{style}}``, ``{{script}}`` and ``{{data}}``,
            and its ``.css`` and ``.js``.
        title: as it is to be read.
        content: what JSON can hold.
    """
    style, script, template = (
        page.with_suffix(suffix).read_text(encoding="utf-8").rstrip("\n") for suffix in (".css", ".js", ".html")
    )
    parts = {"title": html.escape(title), "style": style, "script": script, "data": embedded(content)}
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def embedded(content: Any) -> str:
    """JSON that can stand in a script element, whatever it holds: nothing in it ends the element or begins another."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&\u2028\u2029\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)
