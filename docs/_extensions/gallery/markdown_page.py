"""The page of all parts in Markdown: what each does, and its pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from part_docs import doc_paragraphs, formula_markdown

from gallery.variants import DRAWN_KINDS, PartVariant

HEADINGS = {
    "scorer": ("Scorers", "How relevant is a memory position to a query?"),
    "scope": ("Scopes", "Which memory positions can a query read?"),
    "query": ("Query inputs", "What is compared with the memory? The selected vector of the decoder step is in color."),
    "normalizer": ("Normalizers", "How do scores become weights?"),
    "bias": ("Biases", "What does the distance of a position from the query's step add to its score?"),
    "attention": (
        "Attentions",
        "What is composed around the parts? Softmax of `dot` with bounded scores; else two heads that compare by "
        "`scaled`, fitted to read position t at step t.",
    ),
    "mixer": (
        "Mixers",
        "How much does what a position reads depend on each earlier one, without a memory? Shares of the derivative's "
        "length, with initial parameters of width 24.",
    ),
}
INTRODUCTION = """\
# The parts, drawn

What each part of attention does on one small example. Variants of a part are drawn if an option changes the picture.
Every number is computed by the part itself. On the [site](https://attnx.github.io/attnx/parts.html) the pictures move
with the options. `attnx list NAME` has the source and the options of a part."""
EXAMPLE = """\
Rows are steps, columns are memory positions. Ten queries move along a memory of nine positions and two of padding: step
t should read position t, and the last step has the query of the step before. States have a size of 13; nearer states
are more similar. Two things make it hard:

- Step 6 has the query of step 2, and position 6 is almost equal to position 2. A part that uses only query and memory
  gives both the same weights; a window, or a scorer that knows the previous weights, can distinguish them.
- The vector of position 4 is one and a half times as long as the rest.

Scorers are drawn with `global` and `softmax`, scopes with `dot` and `softmax`. Parts with parameters were fitted for 40
small steps to read position t at step t: the picture shows what a part can do, not how it starts. Decoder states, if a
scope reads them, are the queries of the steps. Normalizers are compared with softmax on one row of scores and on one
score that rises past a fixed one. Biases are those of the first of eight heads, added to the scores of `dot`."""


def markdown_page(variants: Sequence[PartVariant]) -> str:
    """The page in Markdown; its pictures are in the folder ``parts`` next to it."""
    by_part: dict[tuple[str, str], list[PartVariant]] = {}
    for variant in variants:
        by_part.setdefault((variant.part.kind, variant.part.name), []).append(variant)
    sections = [INTRODUCTION, f"## The example\n\n{EXAMPLE}"]
    for kind in DRAWN_KINDS:
        heading, question = HEADINGS[kind]
        sections.append(f"## {heading}\n\n{question}")
        sections += ["\n\n".join(_section(drawn)) for (part_kind, _), drawn in by_part.items() if part_kind == kind]
    return "\n\n".join(sections) + "\n"


def _section(variants: Sequence[PartVariant]) -> Iterator[str]:
    part = variants[0].part
    summary, *_ = doc_paragraphs(part)
    yield f"### {part.name}"
    yield summary
    yield formula_markdown(part)
    yield from (f"![{variant}](parts/{variant.file})" for variant in variants)
