"""What a screen reader or a keyboard needs and the theme leaves out.

Captions of the navigation are headings without a level, code that is wider than its box could not be scrolled by keys,
the parameters of a signature on several lines are a list without terms, and the label of a folded cell is not its text.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx

CHANGES = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    "<pre>": '<pre tabindex="0">',
    "<dl>\n<dd><em": '<dl role="list">\n<dd><em',
    '<summary aria-label="Toggle hidden content">': "<summary>",
    '<dd><em class="sig-param">': '<dd role="listitem"><em class="sig-param">',
}
PARTS = ("body", "furo_navigation_tree")


def change_page(
    app: Sphinx, page: str, template: str, context: dict[str, object], doctree: nodes.document | None
) -> None:
    """Change the page's text and its navigation."""
    for part in PARTS:
        text = str(context.get(part, ""))
        for html, accessible in CHANGES.items():
            text = text.replace(html, accessible)
        context[part] = text


def setup(app: Sphinx) -> dict[str, bool]:
    """Change every page, when the theme has made its navigation."""
    app.connect("html-page-context", change_page, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
