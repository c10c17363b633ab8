"""The command ``attnx pictures``: draws a run's alignments again, as PNG or SVG."""

from __future__ import annotations

from collections.abc import Sequence

from attnx.cli.commands.words import split
from attnx.errors import UserError
from attnx.runs.run import read_run

USAGE = """\
attnx pictures RUN [--format png|svg]

Draws what a run read, from its folder: up to twelve of the alignments it kept, from short to long, each beside its
array in RUN/alignments, and six of them on one page, RUN/alignments.png or .svg.

  --format WHAT         png or svg

  attnx pictures multirun/mine --format svg"""

FLAGS = {"--format": "png or svg"}


def pictures(words: Sequence[str]) -> int:
    """Carry out ``attnx pictures WORDS``.

    Raises:
        UserError: a mistake in what is asked, or a run without alignments.
    """
    asked = split(words, FLAGS, ())
    form = asked.one_of("--format", ("png", "svg"))
    if len(asked.named) != 1:
        raise UserError("say which run to draw: attnx pictures RUN")
    read_run(asked.named[0])
    from attnx.reports.figures.entity_slots import draw_slots
    from attnx.reports.figures.heatmaps import Format, draw_alignments

    drawn: Format = "svg" if form == "svg" else "png"
    written = draw_slots(asked.named[0], drawn) or draw_alignments(asked.named[0], drawn)
    if not written:
        raise UserError(f"{asked.named[0]}: it kept no alignments; a run with attention=none has none")
    for path in written:
        print(path)
    return 0
