"""Draws the parts named on the command line, or all parts with their page: what each does, its knobs and source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attnx import registry
from attnx.config.compose import compose
from attnx.config.view import value_text
from attnx.errors import UserError, suggest
from attnx.gallery.part_variant import DRAWN_KINDS, PartVariant, knob_key
from attnx.registry.source_scan import Part, catalog

PICTURES, PAGE = "parts", "parts.md"
HEADINGS = {
    "scorer": ("Scorers", "How relevant is a memory position to a query?"),
    "scope": ("Scopes", "Which memory positions can a query read?"),
    "query": ("Query inputs", "What is compared with the memory? The selected vector of the decoder step is in color."),
    "normalizer": ("Normalizers", "How do scores become weights?"),
}
INTRODUCTION = """\
# The parts, drawn

What each part of attention does on one small example. `attnx gallery --out docs` writes this page and its pictures;
`attnx gallery` with the name of a part draws that part, also with other knobs:

```sh
attnx gallery local scope.window=1 scope.center=predictive
```

## The example

Rows are steps, columns are memory positions. Ten queries move along a memory of nine positions and two of padding: step
t should read position t, and the last step has the query of the step before. States have a size of 13; nearer states
are more similar. Two things make it hard:

- Step 6 has the query of step 2, and position 6 is almost equal to position 2. A part that uses only query and memory
  gives both the same weights; a window, or a scorer that knows the previous weights, can distinguish them.
- The vector of position 4 is one and a half times as long as the rest.

Scorers are drawn with `global` and `softmax`, scopes with `dot` and `softmax`. Parts with parameters were fitted for 60
small steps to read position t at step t: the picture shows what a part can do, not how it starts. Decoder states, if a
scope reads them, are the queries of the steps. Normalizers are compared with softmax on one row of scores and on one
score that rises past a fixed one. Variants of a part are drawn if a knob changes the picture."""


def draw_parts(words: Sequence[str], folder: Path) -> list[Path]:
    """Draw the named parts; without a name all of them, and write their page; return the files, the page last.

    Words are names of parts or of kinds, and values of their knobs (``scope.window=1``). Pictures go to the folder's
    folder ``parts``, the page is ``parts.md``.

    Raises:
        UserError: no such part, knob or value; nothing was written.
    """
    for path in (folder, folder / PICTURES):
        if path.exists() and not path.is_dir():
            raise UserError(f"--out {folder}: {path} is a file; name another folder")
    knobs = [word for word in words if "." in word.partition("=")[0]]
    names = [word for word in words if word not in knobs]
    parts = _match(names) if names else drawable_parts()
    for word in knobs:
        if not names or not any(_belongs(word, part) for part in parts):
            raise UserError(f"{word}: name the part of this knob, too, as in attnx gallery local scope.window=1")
    variants = [PartVariant(part, _knob_values(part, knobs)) for part in parts]

    from attnx.gallery.pictures import draw_variant, save_picture, variants_to_draw

    if not names:
        variants = [variant for part in parts for variant in variants_to_draw(part)]
    figures = {variant.file: draw_variant(variant) for variant in variants}
    (folder / PICTURES).mkdir(parents=True, exist_ok=True)
    files = [save_picture(figure, folder / PICTURES / file) for file, figure in figures.items()]
    if names:
        return files
    (folder / PAGE).write_text(page(variants), encoding="utf-8")
    return [*files, folder / PAGE]


def drawable_parts() -> list[Part]:
    """Every part that can be drawn, by kind, plug-ins last."""
    return [registry.describe(kind, name) for kind in DRAWN_KINDS for name in registry.names(kind)]


def _match(names: Sequence[str]) -> list[Part]:
    parts = drawable_parts()
    selected: dict[tuple[str, str], Part] = {}
    for name in names:
        matches = [part for part in parts if name in (part.kind, part.name, f"{part.kind}={part.name}")]
        undrawn = next((part for part in catalog().parts.values() if name in (part.kind, part.name)), None)
        if not matches and undrawn is not None:
            kinds = ", ".join(DRAWN_KINDS)
            raise UserError(f"{name!r} is of the kind {undrawn.kind}; only parts of {kinds} are drawn")
        if not matches:
            similar = suggest(name, {*DRAWN_KINDS, *(part.name for part in parts)})
            raise UserError(f"no part or kind {name!r}{similar}")
        selected |= {(part.kind, part.name): part for part in matches}
    return list(selected.values())


def _belongs(word: str, part: Part) -> bool:
    return word.lstrip("+").startswith(f"query.{part.name}." if part.kind == "query" else f"{part.kind}.")


def _knob_values(part: Part, words: Sequence[str]) -> dict[str, Any]:
    """The part's knobs among the words, with values that the configuration has checked."""
    overrides = [word for word in words if _belongs(word, part)]
    if not overrides:
        return {}
    node = compose([f"{part.kind}={part.name}", *overrides])[part.kind]
    node = node[part.name] if part.kind == "query" else node
    names = [word.partition("=")[0].rpartition(".")[2] for word in overrides]
    return {name: node[name] for name in names}


def page(variants: Sequence[PartVariant]) -> str:
    """The page in Markdown; its pictures are in the folder ``parts`` next to it."""
    by_part: dict[tuple[str, str], list[PartVariant]] = {}
    for variant in variants:
        by_part.setdefault((variant.part.kind, variant.part.name), []).append(variant)
    sections = [INTRODUCTION]
    for kind in DRAWN_KINDS:
        heading, question = HEADINGS[kind]
        sections.append(f"## {heading}\n\n{question}")
        sections += ["\n\n".join(_section(drawn)) for (part_kind, _), drawn in by_part.items() if part_kind == kind]
    return "\n\n".join(sections) + "\n"


def _section(variants: Sequence[PartVariant]) -> Iterator[str]:
    part = variants[0].part
    # The paragraphs of the docstring without formula, source and example.
    text = re.sub(r"^(Formula|Source):.*(?:\n[ \t]+\S.*)*", "", part.doc.split(">>>")[0], flags=re.MULTILINE)
    paragraphs = map(str.strip, re.split(r"\n\s*\n", text.replace("``", "`")))
    summary, *details = list(filter(None, paragraphs)) or [part.name]
    yield f"### {part.name}"
    yield summary
    yield f"`{part.doc_line('Formula')}`"
    yield from (f"![{variant}](parts/{variant.file})" for variant in variants)
    yield from details
    facts = [f"`{knob_key(part, knob.name)}={value_text(knob.default)}`: {knob.type.phrase}" for knob in part.knobs]
    facts.append(f"Source: {part.doc_line('Source') or 'not stated'}")
    facts.append(f"In `{part.module}`" + ("" if part.origin == "core" else f", {part.origin}"))
    yield "\n".join(f"- {fact}" for fact in facts)
