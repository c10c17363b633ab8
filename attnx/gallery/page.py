"""The page of all parts: what each does in words, its formula, its pictures, its knobs and its source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attnx.gallery.part_choice import DRAWN, Choice, knob_of, spelled
from attnx.registry.source_scan import Part

HEADINGS = {
    "scorer": ("Scorers", "How relevant is a memory position to a query?"),
    "scope": ("Scopes", "Which positions may a query read?"),
    "query": ("Query inputs", "What is compared with the memory? In color, what is picked from the decoder's step."),
    "normalizer": ("Normalizers", "How do scores become weights?"),
}
BEGINNING = """\
# The parts, drawn

What each part of attention does on one tiny example. `attnx gallery --out docs` writes this page and its pictures;
`attnx gallery` with the name of a part draws that part, also with other knobs:

```sh
attnx gallery local scope.window=1 scope.center=predictive
```

## The example

Rows are steps, columns memory positions. Ten queries move along a memory of nine positions and two of padding: step t
asks for position t, and the last step asks what the one before it asked. States have a width of 13, and are the more
alike the nearer they are. Two things make it hard:

- Step 6 asks what step 2 asked, and position 6 holds almost what position 2 holds. Who knows only query and memory
  gives one answer to both; a window, or a scorer that knows what was read before, can tell them apart.
- The vector of position 4 is one and a half times as long as the others.

Scorers are drawn under `global` and `softmax`, scopes with `dot` and `softmax`. What has parameters was fitted for 60
small steps to read position t at step t: its picture shows what it can do, not how it starts. The decoder's own states,
where a scope reads them, are the queries of the steps. Normalizers are drawn beside softmax, on one row of scores and
on one score that rises past another. Beside a part's defaults stand those of its choices that change its picture."""


def page(choices: Sequence[Choice]) -> str:
    """The page in Markdown; its pictures lie in the folder ``parts`` beside it."""
    by_part: dict[tuple[str, str], list[Choice]] = {}
    for choice in choices:
        by_part.setdefault((choice.part.kind, choice.part.name), []).append(choice)
    sections = [BEGINNING]
    for kind in DRAWN:
        heading, question = HEADINGS[kind]
        sections.append(f"## {heading}\n\n{question}")
        sections += ["\n\n".join(_section(shown)) for (of, _), shown in by_part.items() if of == kind]
    return "\n\n".join(sections) + "\n"


def _section(shown: Sequence[Choice]) -> Iterator[str]:
    part = shown[0].part
    first, *more = _prose(part)
    yield f"### {part.name}"
    yield first
    yield f"`{part.doc_line('Formula')}`"
    yield from (f"![{choice}](parts/{choice.file})" for choice in shown)
    yield from more
    yield "\n".join(_facts(part))


def _prose(part: Part) -> list[str]:
    """The paragraphs of its docstring, but for formula, source and example."""
    text = re.sub(r"^(Formula|Source):.*(?:\n[ \t]+\S.*)*", "", part.doc.split(">>>")[0], flags=re.MULTILINE)
    text = text.replace("``", "`")
    return [paragraph.strip() for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()] or [part.name]


def _facts(part: Part) -> Iterator[str]:
    for knob in part.knobs:
        yield f"- `{knob_of(part, knob.name)}={spelled(knob.default)}`: {knob.type.phrase}"
    yield f"- Source: {part.doc_line('Source') or 'not stated'}"
    yield f"- In `{part.module}`" + ("" if part.origin == "core" else f", {part.origin}")
