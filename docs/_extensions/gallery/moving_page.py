"""The page of parts with pictures that move, as one self-contained HTML file (moving_page.html, .css, .js).

Every number of its pictures is a part's own, computed when the page is written; its script draws, and computes no part.
"""

from __future__ import annotations

from pathlib import Path

from attnx import registry
from attnx.reports.pages.html_template import fill_page
from gallery.animation import animate
from gallery.frames import PLANE_EXTENT, PLANE_POINTS, QUERY_LENGTH, make_frame, vectors_to_select
from gallery.markdown_page import EXAMPLE, HEADINGS
from gallery.variants import MOVING_KINDS, PartVariant, drawable_parts


def moving_page() -> str:
    """The page's text.

    Raises:
        UserError: a part cannot be imported.
    """
    data = {
        "headings": {kind: HEADINGS[kind] for kind in MOVING_KINDS},
        "example": EXAMPLE.split("\n\n"),
        "parts": [animate(part) for part in drawable_parts(MOVING_KINDS)],
        "plane": {"points": PLANE_POINTS, "extent": PLANE_EXTENT, "query_length": QUERY_LENGTH},
        "vectors": vectors_to_select(),
        "softmax": make_frame(PartVariant(registry.describe("normalizer", "softmax"))),
    }
    return fill_page(Path(__file__).with_suffix(".html"), "The parts of attention", data)
