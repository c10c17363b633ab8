"""Pictures are loaded when they come near the window: the gallery of parts has dozens."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx


def mark_images(app: Sphinx, doctree: nodes.document) -> None:
    """Mark every image but the first, which is often in view at once."""
    for image in list(doctree.findall(nodes.image))[1:]:
        image["loading"] = "lazy"


def setup(app: Sphinx) -> dict[str, bool]:
    """Mark the images of every page."""
    app.connect("doctree-read", mark_images)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
