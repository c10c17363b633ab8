"""Names in signatures and docstrings that are written without their module, as the source writes them.

Annotations name classes that are imported for type checkers alone, of which Sphinx sees only the last word. It leads to
the nearest public object of that name. In a signature a name of another library stays text.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from itertools import takewhile

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode


class NameLinks:
    """Links by the last word of a name, of which Sphinx would compare each with all objects."""

    def __init__(self) -> None:
        self.objects: dict[str, list[str]] = defaultdict(list)  # the names of all objects by their last word

    def leave_to_resolve(self, app: Sphinx, doctree: nodes.document) -> None:
        """Have Sphinx find whole names alone, and leave all others to `resolve`."""
        for node in doctree.findall(addnodes.pending_xref):
            if node.get("refdomain") == "py":
                node.attributes.pop("refspecific", None)

    def collect(self, app: Sphinx, env: BuildEnvironment) -> list[str]:
        """Collect the objects, all of which are read."""
        self.objects.clear()
        for name in env.domains["py"].objects:
            self.objects[name.rpartition(".")[2]].append(name)
        return []  # no page is out of date

    def resolve(
        self, app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.TextElement
    ) -> nodes.Node | None:
        """A link to the nearest object of a name, text if another library has it; None is a broken reference."""
        if node.get("refdomain") != "py":
            return None
        target, module = node["reftarget"], str(node.get("py:module") or "")
        named = self.objects.get(target.rpartition(".")[2], [])
        matches = [name for name in named if name == target or name.endswith(f".{target}")]
        if matches:
            nearest = max(matches, key=lambda name: _shared_packages(name, module))
            entry = env.domains["py"].objects[nearest]
            return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, content, nearest)
        is_foreign = not target.startswith("attnx.") and target.partition(".")[0] in sys.modules
        return content if is_foreign or not isinstance(content, nodes.literal) else None


def _shared_packages(name: str, module: str) -> int:
    """The number of packages that hold both."""
    pairs = zip(name.split("."), module.split("."), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def setup(app: Sphinx) -> dict[str, bool]:
    """Resolve what Sphinx cannot."""
    links = NameLinks()
    app.connect("doctree-read", links.leave_to_resolve)
    app.connect("env-updated", links.collect)
    app.connect("missing-reference", links.resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
