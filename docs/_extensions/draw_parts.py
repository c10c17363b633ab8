"""Writes ``docs/parts.md`` and its pictures: ``python docs/_extensions/draw_parts.py``."""

from __future__ import annotations

from pathlib import Path

from gallery.drawings import draw_variant, save_picture, variants_to_draw
from gallery.markdown_page import markdown_page
from gallery.variants import drawable_parts

DOCS = Path(__file__).parents[1]


def main() -> None:
    """Draw every part of the repository, and remove the pictures of parts that are gone."""
    variants = [variant for part in drawable_parts() for variant in variants_to_draw(part)]
    for file in (DOCS / "parts").iterdir():
        if file.name not in {variant.file for variant in variants}:
            file.unlink()
    for variant in variants:
        save_picture(draw_variant(variant), DOCS / "parts" / variant.file)
    (DOCS / "parts.md").write_text(markdown_page(variants), encoding="utf-8")


if __name__ == "__main__":
    main()
