"""The output for each line of FILE, or of standard input, a line each and in the
same order. Several runs answer together, by the mean of their probabilities.
The input is streamed, 16 batches at a time; with --batch 1 each line is
answered at once. Lines that you type are, too, with the attention weights.

Examples:
  attnx predict multirun/runs/mine
  attnx predict multirun/runs/mine words.txt --nbest 5
  cut -f1 words.tsv | attnx predict multirun/runs/mine decoding=beam
"""

from __future__ import annotations

import argparse
import gc
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from attnx.cli.args import add_checkpoint, decoding_override, split_overrides, whole_number
from attnx.cli.commands.predict.read import InputOptions, LineReader, ParsedLine
from attnx.cli.commands.predict.write import (
    JSON_LINES,
    PHARAOH,
    Layout,
    format_alignments,
    format_output,
    heatmap,
)
from attnx.decoding.select import choose_decoding
from attnx.errors import UserError, report_interrupt
from attnx.files.atomic_files import atomic_write
from attnx.files.printable import can_redraw, print_line, printable, text_for
from attnx.inference.validate import read_complete_run, refuse_unlike
from attnx.runs.run import Run

if TYPE_CHECKING:
    from attnx.inference.trained_run import TrainedRun

KEYS = ("decoding", "decoding.")
UNKNOWN, ON_ERROR = ("replace", "refuse", "keep"), ("stop", "skip", "keep")
UNKNOWN_HELP = "unknown source symbols: replace (by the unknown symbol), refuse, keep"
ON_ERROR_HELP = "a line that cannot be read: stop, skip (leave it out), keep (an empty line in its place)"
WINDOW_BATCHES = 16
"""Batches that are read, sorted by length and written together."""


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
    def is_typed(self) -> bool:
        """Whether somebody types the lines."""
        return self.lines.file is None and sys.stdin.isatty()

    @property
    def shows_weights(self) -> bool:
        """Whether the attention is drawn below each output: for somebody who types and reads."""
        return self.is_typed and self.out is None and sys.stdout.isatty()

    @property
    def window(self) -> int:
        """Lines read at once: one if somebody waits for each answer."""
        return 1 if self.batch == 1 or self.is_typed else WINDOW_BATCHES * self.batch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "%(prog)s RUN [RUN ...] [FILE] [OVERRIDE ...] [FLAGS]"
    add = parser.add_argument
    add("words", nargs="*", metavar="RUN", help="run folders, then a file; - or none is standard input")
    add("--column", metavar="N", type=whole_number, help="the source is column N of a tab-separated line, from 1")
    add("--tag", help="the language of every line, if the run knows several")
    add("--tag-column", metavar="N", type=whole_number, help="... or the column that holds it")
    add("--out", metavar="FILE", type=Path, help="where to write; the file appears when all lines are done")
    add("--nbest", metavar="N", type=whole_number, help="the N best of each: columns line, rank, score, text")
    add("--scores", action="store_true", help="the score, a tab, the text")
    add("--alignments", metavar="FILE", type=Path, help="links 0-0 1-2 (.txt, .pharaoh), or weights (.jsonl)")
    add("--batch", metavar="N", type=whole_number, default=128, help="lines decoded at once (128); changes no result")
    add("--unknown", metavar="WHAT", choices=UNKNOWN, default=UNKNOWN[0], help=UNKNOWN_HELP)
    add("--on-error", metavar="WHAT", choices=ON_ERROR, default=ON_ERROR[0], help=ON_ERROR_HELP)
    add_checkpoint(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the output for each line."""
    request = check_args(arguments)
    with report_interrupt(f"{request.out} was not written" if request.out else ""):
        reader = _open_reader(request)
        num_lines, unreadable = _stream(reader, request)
    if unreadable:
        print_line(f"attnx: {unreadable:,} of {num_lines:,} lines could not be read", file=sys.stderr)
    if reader.unknown_symbols:
        print(f"attnx: {printable(reader.unknown_note)}", file=sys.stderr)
    if request.out:
        print_line(f"{request.out}: {num_lines:,} lines")
    return 0


def _open_reader(request: PredictArgs) -> LineReader:
    """Load the runs and check that they can do what is requested."""
    from attnx.inference.load import open_ensemble

    run = open_ensemble([run.path for run in request.runs], request.checkpoint, request.search)
    gc.freeze()  # a garbage collection over all imported objects takes as long as hundreds of words
    if request.lines.unknown == "keep":
        run.check_unk_replacement()
    if request.alignments and not run.has_weights():
        raise UserError(f"--alignments {request.alignments}: the attention of these runs cannot be averaged")
    if request.alignments and request.alignments.suffix != JSON_LINES and not run.reads_source:
        raise UserError(f"--alignments {request.alignments}: this run reads no source; {JSON_LINES} holds its weights")
    if request.is_typed:
        print("reading from the terminal, a line each; Ctrl-D ends", file=sys.stderr)
    return LineReader(run, request.lines)


def _stream(reader: LineReader, request: PredictArgs) -> tuple[int, int]:
    """Answer the lines, window by window; return how many there are, and how many of them cannot be read.

    A line that ends it keeps the outputs of the lines before it, and raises a UserError.
    """
    lines = reader.lines()
    num_lines, unreadable, reason = 0, 0, ""
    # A progress bar is on the terminal if the output goes elsewhere.
    console, file = Console(stderr=True), request.lines.file
    is_shown = can_redraw(console) and (request.out is not None or not sys.stdout.isatty())
    columns = (TextColumn("{task.fields[lines]:,} lines"), BarColumn(), TimeElapsedColumn())
    with ExitStack() as stack:
        streams: dict[Path, BinaryIO] = {}  # files that get their names if the block ends without an exception
        for path in filter(None, (request.out, request.alignments)):
            try:
                partial = stack.enter_context(atomic_write(path))
                streams[path] = stack.enter_context(partial.open("wb"))
            except OSError as error:
                raise UserError(f"{path}: cannot be written: {error.strerror}") from error
        progress = stack.enter_context(Progress(*columns, console=console, disable=not is_shown))
        size = file.stat().st_size if file is not None and file.suffix != ".gz" else None
        bar = progress.add_task("", total=size, lines=0)
        while window := list(islice(lines, request.window)):
            parsed = [reader.read(*line) for line in window]
            errors = [line for line in parsed if line.error]
            must_stop = bool(errors) and request.on_error == "stop" and not request.is_typed
            done = parsed.index(errors[0]) if must_stop else len(parsed)
            _answer(reader.run, parsed[:done], request, streams)
            num_lines += done
            progress.update(bar, advance=sum(len(raw) for _, raw in window[:done]), lines=num_lines)
            if must_stop:
                reason = errors[0].error
                break
            for line in errors:
                print(f"attnx: {printable(line.error)}", file=sys.stderr)
            unreadable += len(errors)
        if reason and not num_lines:
            raise UserError(reason)  # within the block, so that no file appears
    if reason:
        raise UserError(reason)
    return num_lines, unreadable


def _answer(
    run: TrainedRun, lines: Sequence[ParsedLine], request: PredictArgs, streams: Mapping[Path, BinaryIO]
) -> None:
    """Decode lines and write the outputs in the lines' order."""
    pairs = [line.pair for line in lines if line.pair is not None]
    copies = request.lines.unknown == "keep"
    need_weights = request.alignments is not None or request.shows_weights
    predictions = iter(run.decode(pairs, need_weights, request.batch, copies))
    for line in lines:
        if line.error and request.on_error != "keep":
            continue
        prediction = None if line.pair is None else next(predictions)
        text = format_output(line, prediction, request.layout, run.task)
        if request.out:
            streams[request.out].write(text.encode())
        else:
            sys.stdout.buffer.write(text_for(sys.stdout, text).encode())
            if request.shows_weights and prediction is not None and (alignment := prediction.alignment):
                width, states = shutil.get_terminal_size().columns, alignment.num_decoder_states
                for row in heatmap(alignment.weights, alignment.output, alignment.source, width, states):
                    sys.stdout.buffer.write(f"{printable(row)}\n".encode())
        if request.alignments:
            text = format_alignments(line, prediction, request.alignments.suffix, run.sites)
            streams[request.alignments].write(text.encode())
    if not request.out:
        sys.stdout.flush()


def check_args(arguments: argparse.Namespace) -> PredictArgs:
    """Check arguments.

    Raises:
        UserError: anything that is wrong with them, except what only the loaded model can tell.
    """
    names, overrides = split_overrides(arguments.words, KEYS)
    runs, file = _runs_and_file(names, arguments.checkpoint)
    name, options = decoding_override(overrides)
    search = choose_decoding(runs[0].config["decoding"], name, options, arguments.nbest)
    layout = Layout(is_ranked=search.get("nbest", 1) > 1 or arguments.nbest is not None, has_scores=arguments.scores)
    if arguments.tag and arguments.tag_column:
        raise UserError("--tag and --tag-column cannot go together; leave one out")
    lines = InputOptions(file, arguments.column, arguments.tag or "", arguments.tag_column, arguments.unknown)
    out, alignments = arguments.out, arguments.alignments
    if out and out.suffix == ".gz":
        raise UserError(f"--out {out}: is written as plain text; leave .gz out")
    for path in filter(None, (out, alignments)):
        _refuse_to_write(path)
    if alignments:
        if alignments.suffix not in (*PHARAOH, JSON_LINES):
            formats = f"{' and '.join(PHARAOH)} are Pharaoh links, {JSON_LINES} is JSON with the weights"
            raise UserError(f"--alignments {alignments}: unknown format; {formats}")
        if any(run.config.get("attention", {}).get("name", "none") == "none" for run in runs):
            raise UserError(f"--alignments {alignments}: this run has no attention; leave it out")
        if out and alignments.resolve() == out.resolve():
            raise UserError(f"--out and --alignments both name {out}; name two files")
    return PredictArgs(
        runs, lines, search, arguments.checkpoint, layout, out, alignments, arguments.batch, arguments.on_error
    )


def _refuse_to_write(path: Path) -> None:
    """Refuse an output that is there, or that has no folder."""
    if path.is_dir():
        raise UserError(f"{path}: is a folder; name a file to write")
    if not path.parent.is_dir():
        raise UserError(f"{path}: there is no folder {path.parent} to write it into")
    if path.exists():
        raise UserError(f"{path}: is there already; move it away, or name another file")


def _runs_and_file(names: Sequence[str], checkpoint: str) -> tuple[list[Run], Path | None]:
    """Split names into runs and the file to read, which comes last; None and ``-`` are standard input."""
    if not names:
        raise UserError("say which run is meant: attnx predict RUN [FILE]")
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
