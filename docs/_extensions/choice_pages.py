"""A page for each kind of choice: every choice with its formula, options and source, from the catalog of parts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from gallery.variants import DRAWN_KINDS, drawable_parts
from generated_pages import write_pages
from part_docs import doc_paragraphs, formula_markdown
from sphinx.application import Sphinx

from attnx import registry
from attnx.cli.commands.list_ import TITLES
from attnx.config.groups import GROUPS, conf_folder, group_choices, option_key
from attnx.config.view import value_text
from attnx.registry.part import KINDS, Part

LINK = re.compile(r"(https?://[^ ,;)]+)")
INTRODUCTION = """\
# Choices and their options

`attnx KIND=NAME` chooses, `attnx KIND.OPTION=VALUE` sets an option of what is chosen. `attnx list` prints the same in a
terminal. Plug-ins add choices: the pages below show those of this repository.

```{{toctree}}
:maxdepth: 1
:hidden:

{entries}
```

| choice | names | |
|---|---|---|
{rows}

## The default composition

What `attnx` trains when nothing is chosen, with the values that belong to no part:

```yaml
{config}
```
"""


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages when a build begins."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Sphinx) -> None:
    kinds = [*GROUPS, *(kind for kind in KINDS if kind not in GROUPS)]
    texts = {f"{kind}.md": page(kind) for kind in kinds}
    write_pages(Path(app.srcdir) / "reference" / "choices", {**texts, "index.md": _index(kinds)})


def _index(kinds: list[str]) -> str:
    config = (conf_folder() / "config.yaml").read_text(encoding="utf-8").strip()
    rows = [f"| [{kind}]({kind}.md) | {_links(kind)} | {_purpose(kind)} |" for kind in kinds]
    return INTRODUCTION.format(entries="\n".join(kinds), rows="\n".join(rows), config=config)


def choices(kind: str) -> list[str]:
    """The names of what can be chosen of a kind."""
    return group_choices(kind) if kind in GROUPS else registry.names(kind)


def page(kind: str) -> str:
    """The page of a kind, in Markdown."""
    purpose = _purpose(kind)
    names = registry.names(kind) if kind in KINDS else []
    sections = ["\n\n".join(_part_section(registry.describe(kind, name))) for name in names]
    files = [conf_folder() / kind / f"{name}.yaml" for name in choices(kind)]
    sections += ["\n\n".join(_file_section(file)) for file in files if file.is_file()]
    return "\n\n".join([f"# {kind}", f"{purpose[:1].upper()}{purpose[1:]}.", *sections]) + "\n"


def _purpose(kind: str) -> str:
    return TITLES.get(kind, "").replace("|", "\\|")


def _links(kind: str) -> str:
    """A link to each choice of a kind."""
    return " ".join(f"[`{name}`]({kind}.md#{name})" for name in choices(kind))


def _part_section(part: Part) -> Iterator[str]:
    summary, *details = doc_paragraphs(part)
    yield f"## {part.name}"
    yield summary
    yield formula_markdown(part)
    yield from details
    if part.options:
        rows = [
            f"| `{option_key(part, option.name)}` | `{value_text(option.default)}` | {option.type.phrase} |"
            for option in part.options
        ]
        yield "\n".join(["| option | default | values |", "|---|---|---|", *rows])
    yield " · ".join(_facts(part))


def _facts(part: Part) -> Iterator[str]:
    if source := part.doc_line("Source"):
        yield "Source: " + LINK.sub(r"<\1>", source)
    if part.kind in DRAWN_KINDS and part in drawable_parts([part.kind]):
        yield f"[drawn in the gallery](../../parts.md#{part.name})"
    yield f"{{py:mod}}`{part.module}`" if part.origin == "core" else part.origin


def _file_section(file: Path) -> Iterator[str]:
    lines = file.read_text(encoding="utf-8").splitlines()
    head = list(takewhile(lambda line: line.startswith("#"), lines))
    yield f"## {file.stem}"
    yield " ".join(line.lstrip("# ") for line in head if not line.startswith("# @package"))
    yield "```yaml\n" + "\n".join(lines[len(head) :]).strip() + "\n```"
