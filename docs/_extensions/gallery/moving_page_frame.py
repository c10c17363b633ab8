"""Shows the page of pictures that move in ``docs/parts.md``, and links to it from each part there."""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

PAGE, MOVING_PAGE = "parts", "moving-parts.html"
FRAME = f'''<iframe class="moving-parts" src="{MOVING_PAGE}" title="Parts whose pictures move" loading="lazy"></iframe>
<script>
addEventListener("message", (event) => {{
  const frame = document.querySelector(".moving-parts");
  if (event.source === frame.contentWindow) frame.style.height = `${{Number(event.data) + 24}}px`;
}});
</script>'''


def show_page(app: Sphinx, doctree: nodes.document) -> None:
    """Show the page above the example, and link to a part's place on it below the part's first picture."""
    if app.env.docname != PAGE:
        return
    example = next(section for section in doctree.findall(nodes.section) if "the-example" in section["ids"])
    example.parent.insert(example.parent.index(example), nodes.raw("", FRAME, format="html"))
    pictures: dict[str, nodes.Element] = {}
    for image in doctree.findall(nodes.image):
        pictures.setdefault(image["alt"].split()[0], image.parent)
    for address, picture in pictures.items():
        if address.startswith(("attention=", "model.mixer=")):  # whose pictures do not move
            continue
        link = nodes.reference("", "Move its options", refuri=f"{MOVING_PAGE}#{address}")
        picture.parent.insert(picture.parent.index(picture) + 1, nodes.paragraph("", "", link))


def write_page(app: Sphinx, exception: Exception | None) -> None:
    """Write the page whose pictures move."""
    if exception is None and app.builder.format == "html":
        from gallery.moving_page import moving_page

        (Path(app.outdir) / MOVING_PAGE).write_text(moving_page(), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Show the page where the parts are drawn, and write it when a build ends."""
    app.connect("doctree-read", show_page)
    app.connect("build-finished", write_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
