"""Fills an HTML template with style, script and data, so that the page is one self-contained file."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any


def fill_page(template: Path, title: str, data: Any) -> str:
    """The text of a page.

    Args:
        template: with ``{{title}}``, ``{{style}}``, ``{{script}}`` and ``{{data}}``;
            style and script are the ``.css`` and ``.js`` of the same name.
        title: of the page.
        data: JSON values.
    """
    style, script, text = (
        template.with_suffix(suffix).read_text(encoding="utf-8").rstrip("\n") for suffix in (".css", ".js", ".html")
    )
    parts = {"title": html.escape(title), "style": style, "script": script, "data": embedded_json(data)}
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], text)


def embedded_json(data: Any) -> str:
    """JSON escaped for a script element: no text in it can end the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&\u2028\u2029\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)
