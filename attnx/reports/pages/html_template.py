"""Fills an HTML template with style, script and data, so that the page is one self-contained file."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).parent / "document.html"


def fill_page(body: Path, title: str, data: Any) -> str:
    """The text of a page with a body, which may hold ``{{title}}``, and the ``.css`` and ``.js`` of the same name."""
    files = {"body": body, "style": body.with_suffix(".css"), "script": body.with_suffix(".js")}
    parts = {name: file.read_text(encoding="utf-8").rstrip("\n") for name, file in files.items()}
    parts |= {"title": html.escape(title), "data": embedded_json(data)}
    parts["body"] = parts["body"].replace("{{title}}", parts["title"])
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], DOCUMENT.read_text(encoding="utf-8"))


def embedded_json(data: Any) -> str:
    """JSON escaped for a script element: no text in it can end the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&\u2028\u2029\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)
