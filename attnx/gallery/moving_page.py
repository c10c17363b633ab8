"""Writes a page of parts with pictures that move, as one self-contained HTML file (moving_page.html, .css, .js).

Every number of its pictures is a part's own, computed when the page is written; its script draws, and computes no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attnx import registry
from attnx.gallery.animation import animate
from attnx.gallery.decoder_step import vectors_to_select
from attnx.gallery.frames import PLANE_EXTENT, PLANE_POINTS, QUERY_LENGTH, make_frame
from attnx.gallery.markdown_page import EXAMPLE, HEADINGS
from attnx.gallery.part_variant import PartVariant
from attnx.gallery.select import select_variants
from attnx.reports.pages.html_template import fill_page, write_page_file


def write_moving_page(words: Sequence[str], path: Path) -> Path:
    """Write the page of the parts that words name, as in :func:`attnx.gallery.select.select_variants`.

    Raises:
        UserError: no such part, knob or value, or the file cannot be written.
    """
    return write_page_file(path, moving_page(select_variants(words)))


def moving_page(variants: Sequence[PartVariant]) -> str:
    """The page's text.

    Raises:
        UserError: a part cannot be imported, or it refuses its knobs.
    """
    data = {
        "headings": HEADINGS,
        "example": EXAMPLE.split("\n\n"),
        "parts": [animate(variant) for variant in variants],
        "plane": {"points": PLANE_POINTS, "extent": PLANE_EXTENT, "query_length": QUERY_LENGTH},
        "vectors": vectors_to_select(),
        "softmax": make_frame(PartVariant(registry.describe("normalizer", "softmax"))),
    }
    title = str(variants[0]) if len(variants) == 1 else "The parts of attention"
    return fill_page(Path(__file__).with_suffix(".html"), title, data)
