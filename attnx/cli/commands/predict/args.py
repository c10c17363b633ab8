"""The arguments of ``attnx predict``, checked before torch is loaded."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attnx.cli.args import add_checkpoint, choice, decoding_override, split_overrides, text, whole_number
from attnx.cli.commands.predict.read import InputOptions, has_feature_files
from attnx.cli.commands.predict.write import Layout, check_alignments
from attnx.decoding.select import choose_decoding
from attnx.errors import UserError
from attnx.inference.validate import checkpoint_files, file_digest, read_complete_run, refuse_unlike
from attnx.runs.plugin_copies import current_code
from attnx.runs.run import Run

KEYS = ("decoding", "decoding.")
UNKNOWN, ON_ERROR = ("replace", "refuse", "keep"), ("stop", "skip", "keep")
UNKNOWN_HELP = "replace (by the unknown symbol), refuse, keep"
ON_ERROR_HELP = "a line that cannot be read: stop, skip (leave it out), keep (an empty line in its place)"
WINDOW_BATCHES = 16
"""Batches that are read, sorted by length and written together."""
DESCRIPTION = """\
The output for each line of FILE, or of standard input, a line each and in the
same order. Several runs answer together, by the mean of their probabilities.
The input is streamed, 16 batches at a time; with --batch 1 each line is
answered at once."""
EPILOG = """\
examples:
  attnx predict multirun/mine words.txt --nbest 5
  cut -f1 words.tsv | attnx predict multirun/mine decoding=beam"""


class PredictArgs(NamedTuple):
    """Checked arguments."""

    runs: list[Run]
    lines: InputOptions
    search: dict[str, Any]
    checkpoint: str
    layout: Layout
    out: Path | None
    alignments: Path | None
    batch: int
    on_error: str

    @property
    def has_feature_files(self) -> bool:
        """Whether the sources are feature files."""
        return has_feature_files(self.runs[0].config)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What decides the output: an interrupted output continues only if all of this is equal."""
        reading = {name: value for name, value in self.lines._asdict().items() if name != "file"}
        return {
            "weights": [file_digest(file) for run in self.runs for file in checkpoint_files(run.path, self.checkpoint)],
            "decoding": self.search,
            **reading,
            **self.layout._asdict(),
            "on_error": self.on_error,
            "alignments": self.alignments and str(self.alignments),
            "plugins": [current_code(run.config) for run in self.runs],
        }

    @property
    def window(self) -> int:
        """Lines read at once: one if somebody waits for each answer."""
        return 1 if self.batch == 1 or (self.lines.file is None and sys.stdin.isatty()) else WINDOW_BATCHES * self.batch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments and its help page."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.usage = "%(prog)s RUN [RUN ...] [FILE] [OVERRIDE ...] [FLAGS]"
    add = parser.add_argument
    add("words", nargs="*", metavar="RUN", help="run folders, then a file; - or none is standard input")
    add("--column", metavar="N", type=whole_number, help="the source is column N of a tab-separated line, from 1")
    add("--tag", type=text, help="the language of every line, if the run knows several")
    add("--tag-column", metavar="N", type=whole_number, help="... or the column that holds it")
    add("--out", metavar="FILE", type=Path, help="where to write; the same command continues it after an interruption")
    add("--nbest", metavar="N", type=whole_number, help="the N best of each: columns line, rank, score, text")
    add("--scores", action="store_true", help="the score, a tab, the text")
    add(
        "--alignments", metavar="FILE", type=Path, help="alignments: .txt or .pharaoh (links 0-0 1-2), .jsonl (weights)"
    )
    add("--batch", metavar="N", type=whole_number, default=128, help="lines decoded at once (128); changes no result")
    add_unknown(parser)
    add("--on-error", metavar="WHAT", type=choice(*ON_ERROR), default=ON_ERROR[0], help=ON_ERROR_HELP)
    add_checkpoint(parser)


def add_unknown(parser: argparse.ArgumentParser) -> None:
    """Add ``--unknown``."""
    parser.add_argument(
        "--unknown",
        metavar="WHAT",
        type=choice(*UNKNOWN),
        default=UNKNOWN[0],
        help=f"unknown source symbols: {UNKNOWN_HELP}",
    )


def check_args(arguments: argparse.Namespace) -> PredictArgs:
    """Check arguments.

    Raises:
        UserError: anything that is wrong with them, except what only the loaded model can tell.
    """
    names, overrides = split_overrides(arguments.words, KEYS)
    runs, file = runs_and_file(names, arguments.checkpoint, "attnx predict RUN [FILE]")
    search = choose_decoding(runs[0].config["decoding"], *decoding_override(overrides), arguments.nbest)
    layout = Layout(is_ranked=search.get("nbest", 1) > 1 or arguments.nbest is not None, has_scores=arguments.scores)
    if arguments.tag and arguments.tag_column:
        raise UserError("--tag and --tag-column cannot go together; leave one out")
    lines = InputOptions(file, arguments.column, arguments.tag or "", arguments.tag_column, arguments.unknown)
    out, alignments = arguments.out, arguments.alignments
    if alignments:
        check_alignments(alignments)
        if any(run.config["attention"]["name"] == "none" for run in runs):
            raise UserError(f"--alignments {alignments}: this run has no attention (attention=none); leave it out")
        if alignments == out:
            raise UserError(f"--out and --alignments both name {out}; name two files")
    return PredictArgs(
        runs, lines, search, arguments.checkpoint, layout, out, alignments, arguments.batch, arguments.on_error
    )


def runs_and_file(names: Sequence[str], checkpoint: str, usage: str) -> tuple[list[Run], Path | None]:
    """Split names into runs and the file to read, which comes last; None and ``-`` are standard input.

    Raises:
        UserError: no run, one that cannot be read, runs that do not fit together, or more than one file.
    """
    if not names:
        raise UserError(f"say which run is meant: {usage}")
    folders = [names[0], *(name for name in names[1:] if Path(name).is_dir())]
    files = [name for name in names[1:] if not Path(name).is_dir()]
    if len(files) > 1:
        raise UserError(f"{files[0]} and {files[1]} are both no folders; name one file to read")
    if files and names[-1] != files[0]:
        raise UserError(f"{files[0]}: is not a run folder; write the file to read after the runs")
    file = Path(files[0]) if files and files[0] != "-" else None
    runs = [read_complete_run(folder, checkpoint) for folder in folders]
    refuse_unlike(runs)
    if file is not None and not file.exists():
        raise UserError(f"{file}: no such file")
    return runs, file
