"""Pages that are written from the program: they lie in docs/reference/, which git ignores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write_pages(folder: Path, texts: Mapping[str, str]) -> None:
    """Write pages by file name, and remove what an earlier build wrote; a page without changes is not read again."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.is_file() and path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
