"""Fills an HTML template with style, script and data, so that the page is one self-contained file."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attnx.errors import UserError
from attnx.files.atomic_files import write_text

# What all pages have: the document, and the script that comes before a page's.
DOCUMENT, DOM = (Path(__file__).with_name(name) for name in ("document.html", "dom.js"))

BEGINNING = DOCUMENT.read_bytes().partition(b"; style-src")[0]
"""How every page begins."""


def fill_page(body: Path, title: str, data: Any, parts: Sequence[str] = ()) -> str:
    """The text of a page, whose script reads ``data`` as JSON.

    ``body`` is the HTML file of its body, which may hold ``{{title}}``. ``.css`` and ``.js`` lie beside it; those of
    ``parts``, by their names, come before the body's.
    """
    names = [*parts, body.stem]
    fields = {"body": _read(body), "title": html.escape(title), "data": embedded_json(data)}
    fields["style"] = _join(body.with_name(f"{name}.css") for name in names)
    fields["script"] = _join([DOM, *(body.with_name(f"{name}.js") for name in names)])
    fields["body"] = fields["body"].replace("{{title}}", fields["title"])
    return re.sub(r"\{\{(\w+)\}\}", lambda match: fields[match[1]], DOCUMENT.read_text(encoding="utf-8"))


def refuse_foreign(path: Path) -> None:
    """Refuse to replace a file that is no page by attnx; an empty one is replaced."""
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            content = file.read(len(BEGINNING))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    if content and content != BEGINNING:
        raise UserError(f"{path}: is there already, and was not written by attnx; move it away, or name another file")


def write_files(texts: Mapping[Path, str], advice: str = "") -> list[Path]:
    """Write texts into files of one folder, the page first, and return their paths; a UserError if that fails."""
    paths = [*texts]
    try:
        paths[0].parent.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            write_text(path, text)
    except OSError as error:
        raise UserError(f"{paths[0]}: cannot be written ({error.strerror}){advice}") from error
    return paths


def _join(files: Iterable[Path]) -> str:
    """The texts of those files that exist."""
    return "\n".join(_read(file) for file in files if file.is_file())


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8").rstrip("\n")


def embedded_json(data: Any) -> str:
    """JSON escaped for a script element: no text in it can end the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&\u2028\u2029\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)
