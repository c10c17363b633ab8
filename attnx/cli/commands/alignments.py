"""The command ``attnx alignments``: how widely, how much and how straight a run read, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attnx.cli.commands.words import split
from attnx.errors import UserError

USAGE = """\
attnx alignments RUN [--gold FILE]
attnx alignments FILE.jsonl

How a run read: entropy, coverage, diagonality, and with gold alignments the alignment error rate; counted over the
alignments it kept, and written to RUN/alignment_statistics.json. Any number of others can be counted, too:
attnx predict RUN --alignments FILE.jsonl writes them.

  --gold FILE           a line for each line of RUN/predictions.tsv: links SOURCE-REFERENCE, counted from 0; 3-2 is a
                        sure one, 3p2 or 3?2 a possible one

  attnx alignments multirun/mine --gold test.pharaoh"""

FLAGS = {"--gold": "a file of links"}


def alignments(words: Sequence[str]) -> int:
    """Carry out ``attnx alignments WORDS``.

    Raises:
        UserError: a mistake in what is asked, a run without alignments, or a gold file that is not of its test.
    """
    asked = split(words, FLAGS, ())
    if len(asked.named) != 1:
        raise UserError("say which run's alignments to count: attnx alignments RUN")
    (place,), gold = asked.named, asked.flags.get("--gold")
    from rich.console import Console

    from attnx.reports.stats.alignment_statistics import (
        file_statistics,
        run_statistics,
        statistics_table,
        write_statistics,
    )

    if Path(place).is_file():
        if gold is not None:
            raise UserError("--gold goes with a run's folder, whose references say which examples the links hold for")
        found = file_statistics(place)
    else:
        found = run_statistics(place, gold)
    Console().print(statistics_table(found, f"alignments of {place}"))
    if Path(place).is_dir():
        print(write_statistics(place, found))
    return 0
