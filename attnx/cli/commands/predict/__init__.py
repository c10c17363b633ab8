"""The command ``attnx predict``: the output for each line of a file of any length, in order."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from attnx.cli.commands.predict.args import PredictArgs, add_arguments, check_args
from attnx.cli.commands.predict.read import Line, LineReader, numbered_lines
from attnx.cli.commands.predict.write import JSON_LINES, format_alignments, format_output
from attnx.cli.resumable_output import ResumableOutput
from attnx.errors import UserError
from attnx.files.printable import printable, text_for
from attnx.models.resolve import resolve_model

if TYPE_CHECKING:
    from attnx.inference.predictor import Prediction
    from attnx.inference.trained_run import TrainedRun

__all__ = ["add_arguments", "run"]


def run(arguments: argparse.Namespace) -> int:
    """Write the output for each line.

    Raises:
        UserError: a wrong argument, or a line that cannot be read if ``--on-error`` is stop.
    """
    request = check_args(arguments)
    alignments = [request.alignments] if request.alignments else []
    output = ResumableOutput(request.out, alignments, request.fingerprint)
    lines = output.remaining(numbered_lines(request.lines, request.has_feature_files))
    try:
        unreadable = _stream(_open_reader(request), lines, request, output)
    except KeyboardInterrupt:
        hint = "; the same command continues" if request.out else ""
        raise KeyboardInterrupt(f"{output.lines:,} lines are done{hint}") from None
    if unreadable:
        print(f"attnx: {unreadable:,} of {output.lines:,} lines could not be read", file=sys.stderr)
    if request.out:
        print(f"{request.out}: {output.lines:,} lines")
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
    if request.lines.file is None and sys.stdin.isatty():
        print("reading from the terminal, a line each; Ctrl-D ends", file=sys.stderr)
    return LineReader(run, request.lines)


def _stream(
    reader: LineReader, lines: Iterator[tuple[int, bytes]], request: PredictArgs, output: ResumableOutput
) -> int:
    """Answer the lines, window by window; return how many could not be read."""
    output.open()
    write = _line_writer(request, output, reader.run)
    unreadable, is_finished = 0, False
    try:
        with _progress(request) as advance:
            while window := list(islice(lines, request.window)):
                parsed = [reader.read(*line) for line in window]
                stop = next((index for index, line in enumerate(parsed) if line.error), None)
                if stop is None or request.on_error != "stop":
                    stop = len(parsed)
                _answer(reader.run, parsed[:stop], request, write)
                output.mark([raw for _, raw in window[:stop]])
                advance(stop, sum(len(raw) for _, raw in window[:stop]))
                if stop < len(parsed):
                    raise UserError(parsed[stop].error)
                unreadable += _report_errors(parsed)
        is_finished = True
    finally:
        output.close(is_finished)
    return unreadable


def _answer(
    run: TrainedRun, lines: Sequence[Line], request: PredictArgs, write: Callable[[Line, Prediction | None], None]
) -> None:
    """Decode lines and write the outputs in the lines' order."""
    pairs = [line.pair for line in lines if line.pair is not None]
    copies = request.lines.unknown == "keep"
    predictions = iter(run.decode(pairs, request.alignments is not None, request.batch, copies))
    for line in lines:
        if line.pair is not None:
            write(line, next(predictions))
        elif not line.error or request.on_error == "keep":
            write(line, None)
    if not request.out:
        sys.stdout.flush()


def _line_writer(
    request: PredictArgs, output: ResumableOutput, run: TrainedRun
) -> Callable[[Line, Prediction | None], None]:
    """The function that writes one line's output and alignments."""
    files = list(output.files)
    out = files.pop(0) if request.out else None
    alignments = files.pop(0) if request.alignments else None
    task, sites = run.task, getattr(resolve_model(run.config), "sites", ())

    def write(line: Line, prediction: Prediction | None) -> None:
        text = format_output(line, prediction, request.layout, task)
        if out is None:
            sys.stdout.buffer.write(text_for(sys.stdout, text).encode())
        else:
            out.write(text)
        if alignments is not None:
            assert request.alignments is not None
            alignments.write(format_alignments(line, prediction, request.alignments.suffix, sites))

    return write


def _report_errors(lines: Sequence[Line]) -> int:
    """Print the lines that could not be read; return how many there are."""
    errors = [line.error for line in lines if line.error]
    for error in errors:
        print(f"attnx: {printable(error)}", file=sys.stderr)
    return len(errors)


@contextmanager
def _progress(request: PredictArgs) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on the terminal, if the output goes elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    is_shown = console.is_terminal and (request.out is not None or not sys.stdout.isatty())
    file = request.lines.file
    size = file.stat().st_size if file is not None and file.suffix != ".gz" else None
    columns = (TextColumn("{task.fields[lines]:,} lines"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not is_shown) as progress:
        bar, done = progress.add_task("", total=size, lines=0), 0

        def advance(lines: int, characters: int) -> None:
            nonlocal done
            done += lines
            progress.update(bar, advance=characters, lines=done)

        yield advance
