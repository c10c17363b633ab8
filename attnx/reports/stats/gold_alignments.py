"""Gold word alignments in Pharaoh format, and the alignment error rate (AER) of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from attnx.errors import UserError
from attnx.files.bounded_files import BYTE_ORDER_MARK, read_text
from attnx.runs.alignments import END, Alignment, Weights, without_end

Link = tuple[int, int]
LINK = re.compile(r"(\d+)([-p?])(\d+)")


class GoldLinks(NamedTuple):
    """The links of one example, each a source and a reference position from 0; ``possible`` includes ``sure``."""

    sure: frozenset[Link]
    possible: frozenset[Link]


def read_gold(path: Path | str) -> list[GoldLinks]:
    """Read a line per example: ``0-0 2-1`` are sure links, ``3p2`` or ``3?2`` a possible one, source first.

    Raises:
        UserError: no such file, or a malformed line.
    """
    if not Path(path).is_file():
        raise UserError(f"{path}: {'is a folder; name a file of links' if Path(path).is_dir() else 'no such file'}")
    lines = read_text(Path(path)).removeprefix(BYTE_ORDER_MARK).splitlines()
    return [_parse(line, f"{path}:{index}") for index, line in enumerate(lines, start=1)]


def _parse(line: str, where: str) -> GoldLinks:
    links: dict[bool, set[Link]] = {True: set(), False: set()}
    for word in line.split():
        match = LINK.fullmatch(word)
        if not match:
            raise UserError(f"{where}: {word!r} is no link; write 0-0 for a sure one and 0p0 or 0?0 for a possible one")
        links[match[2] == "-"].add((int(match[1]), int(match[3])))
    return GoldLinks(frozenset(links[True]), frozenset(links[True] | links[False]))


def predicted_links(alignment: Alignment, weights: Weights) -> set[Link]:
    """Link each output symbol to its source symbol of largest weight; end symbols and decoder states have no link.

    Source: Luong et al. 2015, section 5.4, https://arxiv.org/abs/1508.04025
    """
    return {
        (int(row.argmax()), step)
        for step, (symbol, row) in enumerate(zip(alignment.output, weights, strict=True))
        if symbol != END and row.argmax() < len(alignment.source_symbols) and row.max() > 0
    }


def alignment_error_rate(examples: Iterable[tuple[set[Link], GoldLinks]]) -> float | None:
    """The alignment error rate of predicted links, from 0 to 1; None without links.

    Formula: ``AER = 1 - (|A n S| + |A n P|) / (|A| + |S|)``
    Source: Och and Ney 2003, section 5, https://aclanthology.org/J03-1002
    """
    matches = total = 0
    for links, gold in examples:
        matches += len(links & gold.sure) + len(links & gold.possible)
        total += len(links) + len(gold.sure)
    return 1 - matches / total if total else None


def check_links(gold: GoldLinks, alignment: Alignment, where: str) -> None:
    """Check that all links are within the example.

    Raises:
        UserError: a link is outside.
    """
    source, reference = len(alignment.source_symbols), len(without_end(alignment.reference))
    for i, j in sorted(gold.possible):
        if i >= source or j >= reference:
            raise UserError(
                f"{where}: the link {i}-{j} is outside {source} source and {reference} reference symbols, counted from "
                "0; is it the gold file of this run's test?"
            )
