"""Links of Markdown pages that leave docs/: to the page that includes the file, else to the file in the repository.

The same link works on a code host, where it is relative to the file that holds it. A link to a page that the build
writes has the address of the site, and becomes a link within it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util import logging

SITE = "https://attnx.github.io/attnx/"
SITE_LINK = re.compile(rf"(?<=\]\(){SITE}([^)\s#]+)\.html(?=[)#])")
LINK = re.compile(r"(?<=\]\()(?!#|[a-z]+:)([^)\s#]+)(#[^)\s]+)?(?=\))")
INCLUDED = re.compile(r"^```\{include\} (\S+)\n```\s*$")

logger = logging.getLogger(__name__)


class SiteLinks:
    """Where links lead on the site."""

    def __init__(self, docs: Path, repository_url: str) -> None:
        self.docs, self.root, self.url = docs, docs.parent, repository_url
        texts = {page: page.read_text(encoding="utf-8") for page in docs.glob("*.md")}
        self.pages = {
            (docs / match[1]).resolve(): page for page, text in texts.items() if (match := INCLUDED.match(text))
        }

    def rewrite(self, text: str, file: Path, folder: Path) -> str:
        """The text of a file with links as a page in a folder of the site needs them."""
        text = SITE_LINK.sub(lambda match: os.path.relpath(self._written(match[1]), file.parent), text)
        return LINK.sub(lambda match: self._target(match[1], file, folder) + (match[2] or ""), text)

    def _written(self, page: str) -> Path:
        markdown = self.docs / f"{page}.md"
        return markdown if markdown.exists() else markdown.with_suffix(".rst")

    def _target(self, link: str, file: Path, folder: Path) -> str:
        target = (file.parent / link).resolve()
        if target in self.pages:
            target = self.pages[target]
        if target.is_relative_to(self.docs):
            return Path(os.path.relpath(target, folder)).as_posix()
        if not target.is_relative_to(self.root):
            return link
        if not target.exists():
            logger.warning("link to a file that does not exist: %s", link, location=str(file))
        return f"{self.url}/{'tree' if target.is_dir() else 'blob'}/main/{target.relative_to(self.root).as_posix()}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Rewrite the links of every Markdown page, and of every file that one includes."""
    app.add_config_value("repository_url", "", "env", str)
    app.connect("config-inited", _connect)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _connect(app: Sphinx, config: Config) -> None:
    links = SiteLinks(Path(app.srcdir), config.repository_url)

    def rewrite_page(app: Sphinx, docname: str, source: list[str]) -> None:
        page = app.env.doc2path(docname)
        if page.suffix == ".md":
            source[0] = links.rewrite(source[0], page, page.parent)

    def rewrite_included(app: Sphinx, file: Path, docname: str, source: list[str]) -> None:
        path = (links.docs / file).resolve()
        if path.suffix == ".md":
            source[0] = links.rewrite(source[0], path, links.docs)

    app.connect("source-read", rewrite_page)
    app.connect("include-read", rewrite_included)
