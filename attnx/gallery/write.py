"""Draws the parts named on the command line, or all parts with their pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attnx.errors import UserError
from attnx.files.atomic_files import write_text
from attnx.gallery.markdown_page import markdown_page
from attnx.gallery.select import select_variants

PICTURES, PAGE, MOVING_PAGE = "parts", "parts.md", "parts.html"


def draw_parts(words: Sequence[str], folder: Path) -> list[Path]:
    """Draw parts as pictures, and as pages with pictures that move; return the files.

    Each named part gets a picture and a page of its own in the folder's folder ``parts``. Without a name all parts are
    drawn, with two pages in the folder: ``parts.md`` shows the pictures, ``parts.html`` the pictures that move.

    Args:
        words: as in :func:`attnx.gallery.select.select_variants`.
        folder: where to write.

    Raises:
        UserError: no such part, knob or value; nothing was written.
    """
    for path in (folder, folder / PICTURES):
        if path.exists() and not path.is_dir():
            raise UserError(f"--out {folder}: {path} is a file; name another folder")
    selected = select_variants(words)

    from attnx.gallery.moving_page import moving_page
    from attnx.gallery.pictures import draw_variant, save_picture, variants_to_draw

    variants = selected if words else [drawn for variant in selected for drawn in variants_to_draw(variant.part)]
    figures = {variant.file: draw_variant(variant) for variant in variants}
    if words:
        pages = {f"{PICTURES}/{Path(variant.file).stem}.html": moving_page([variant]) for variant in selected}
    else:
        pages = {PAGE: markdown_page(variants), MOVING_PAGE: moving_page(selected)}
    (folder / PICTURES).mkdir(parents=True, exist_ok=True)
    files = [save_picture(figure, folder / PICTURES / file) for file, figure in figures.items()]
    for name, text in pages.items():
        write_text(folder / name, text)
    return [*files, *(folder / name for name in pages)]
