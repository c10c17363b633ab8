"""Alignments made by people, in Pharaoh format, and how far those of a run are from them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from attnx.errors import UserError
from attnx.files.bounded_files import read_text
from attnx.runs.alignments import END, Alignment, Weights, without_end

Link = tuple[int, int]
LINK = re.compile(r"(\d+)([-p?])(\d+)")


class Gold(NamedTuple):
    """The links of one example, each a source and a reference position from 0; ``sure`` are among ``possible``."""

    sure: frozenset[Link]
    possible: frozenset[Link]


class Agreement(NamedTuple):
    """How links that were found agree with gold ones, counted over one example or several.

    Attributes:
        found: links of the run.
        sure: sure gold links.
        found_sure: found links that are sure.
        found_possible: found links that are possible, sure ones included.
    """

    found: int = 0
    sure: int = 0
    found_sure: int = 0
    found_possible: int = 0

    @property
    def error(self) -> float | None:
        """The alignment error rate, from 0 to 1; None where there is nothing to agree on.

        Formula: ``AER = 1 - (|A n S| + |A n P|) / (|A| + |S|)``
        Source: Och and Ney 2003, section 5, https://aclanthology.org/J03-1002
        """
        links = self.found + self.sure
        return 1 - (self.found_sure + self.found_possible) / links if links else None


def read_gold(path: Path | str) -> list[Gold]:
    """Read a line an example: ``0-0 2-1`` are sure links, ``3p2`` or ``3?2`` a possible one, source first.

    Raises:
        UserError: no such file, or something else in a line.
    """
    if not Path(path).is_file():
        raise UserError(f"{path}: {'is a folder; name a file of links' if Path(path).is_dir() else 'no such file'}")
    return [_gold(line, f"{path}:{number}") for number, line in enumerate(read_text(Path(path)).splitlines(), start=1)]


def _gold(line: str, where: str) -> Gold:
    links: dict[bool, set[Link]] = {True: set(), False: set()}
    for word in line.split():
        found = LINK.fullmatch(word)
        if not found:
            raise UserError(f"{where}: {word!r} is no link; write 0-0 for a sure one and 0p0 or 0?0 for a possible one")
        links[found[2] == "-"].add((int(found[1]), int(found[3])))
    return Gold(frozenset(links[True]), frozenset(links[True] | links[False]))


def links(alignment: Alignment, weights: Weights) -> set[Link]:
    """Link each output symbol to the source symbol that it read most; the end, and what read itself most, has none.

    Source: Luong et al. 2015, section 5.4, https://arxiv.org/abs/1508.04025
    """
    return {
        (int(row.argmax()), step)
        for step, (symbol, row) in enumerate(zip(alignment.output, weights, strict=True))
        if symbol != END and row.argmax() < len(alignment.read) and row.max() > 0
    }


def agreement(examples: Iterable[tuple[Alignment, Weights, Gold]]) -> Agreement:
    """Count over examples."""
    counted = [
        (len(found), len(gold.sure), len(found & gold.sure), len(found & gold.possible))
        for alignment, weights, gold in examples
        for found in [links(alignment, weights)]
    ]
    return Agreement(*map(sum, zip(*counted, strict=True))) if counted else Agreement()


def check_fits(gold: Gold, alignment: Alignment, where: str) -> None:
    """Check that the links are those of this example.

    Raises:
        UserError: a link leads to a position that is not there.
    """
    source, written = len(alignment.read), len(without_end(alignment.reference))
    for one, other in sorted(gold.possible):
        if one >= source or other >= written:
            raise UserError(f"{where}: the link {one}-{other}, where there are {source} source and {written} reference "
                            f"symbols, counted from 0; is it the gold file of this run's test?")  # fmt: skip
