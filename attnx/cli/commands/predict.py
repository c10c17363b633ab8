"""The command ``attnx predict``: from lines to what a run writes for each, in order, however many there are."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from attnx.cli.commands.half_written import ResumableOutput
from attnx.cli.commands.inputs import Line, Reader, lines_of
from attnx.cli.commands.outputs import JSON_LINES, aligned, written
from attnx.cli.commands.request import FLAGS, KEYS, PredictArgs, read_request
from attnx.cli.commands.words import split
from attnx.errors import UserError
from attnx.files.printable import printable, text_for
from attnx.models.resolve import resolve

if TYPE_CHECKING:
    from attnx.inference.trained_run import OpenRun
    from attnx.training.lightning_module import Prediction

USAGE = """\
attnx predict RUN [RUN ...] [FILE] [decoding=NAME] [decoding.KNOB=VALUE ...]

What a run writes for each line of FILE, or of standard input, a line each and in the same order. Several runs answer
together, by the mean of their probabilities.

  --column N            the source is column N of a tab-separated line, counted from 1
  --tag TAG             the language of every line, where the run knows several
  --tag-column N        ... or the column that holds it
  --out FILE            where to write; the same command again goes on with it after an interruption
  --nbest N             the best N for each: columns line, rank, score, text
  --scores              the score, a tab, the text
  --alignments FILE     what was read: .txt or .pharaoh (links 0-0 1-2), .jsonl (with the weights)
  --batch N             lines decoded at once (128); changes no result, and 1 answers each line as it comes
  --unknown WHAT        source symbols that the run does not know: replace (by the unknown symbol), refuse, keep
  --on-error WHAT       a line that cannot be read: stop, skip (leave it out), keep (an empty line in its place)
  --checkpoint WHICH    best, last, or average (the mean of the best that were kept)

  attnx predict multirun/mine words.txt --nbest 5
  cut -f1 words.tsv | attnx predict multirun/mine decoding=beam decoding.beam_size=5 --out phones.txt"""


def predict(words: Sequence[str]) -> int:
    """Carry out ``attnx predict WORDS``.

    Raises:
        UserError: a mistake in what is asked, or in a line if such are to stop it.
    """
    request = read_request(split(words, FLAGS, KEYS))
    half = ResumableOutput(request.out, [request.alignments] if request.alignments else [], request.decisive)
    lines = half.rest(lines_of(request.asked, request.features))
    try:
        left_out = _stream(_reader(request), lines, request, half)
    except KeyboardInterrupt:
        onward = "; the same command goes on" if request.out else ""
        raise KeyboardInterrupt(f"{half.lines:,} lines are done{onward}") from None
    if left_out:
        print(f"attnx: {left_out:,} of {half.lines:,} lines could not be read", file=sys.stderr)
    if request.out:
        print(f"{request.out}: {half.lines:,} lines")
    return 0


def _reader(request: PredictArgs) -> Reader:
    """Open the runs, and see that they can do what is asked for."""
    from attnx.inference.load import open_ensemble

    run = open_ensemble([run.path for run in request.runs], request.checkpoint, request.search)
    gc.freeze()  # what was imported stays: to look through it for garbage takes as long as hundreds of words
    if request.asked.unknown == "keep":
        run.check_copies()
    if request.alignments and not run.gives_weights():
        raise UserError(
            f"--alignments {request.alignments}: these runs do not read alike, so their weights have no mean"
        )
    if request.alignments and request.alignments.suffix != JSON_LINES and not run.reads_source:
        raise UserError(f"--alignments {request.alignments}: this run reads no source; {JSON_LINES} holds its weights")
    if request.asked.file is None and sys.stdin.isatty():
        print("reading from the terminal, a line each; Ctrl-D ends", file=sys.stderr)
    return Reader(run, request.asked)


def _stream(reader: Reader, lines: Iterator[tuple[int, bytes]], request: PredictArgs, half: ResumableOutput) -> int:
    """Answer the lines, window by window; return how many could not be read."""
    half.open()
    write = _writer(request, half, reader.run)
    wrong, finished = 0, False
    try:
        with _progress(request) as advance:
            while window := list(islice(lines, request.window)):
                found = [reader.read(*line) for line in window]
                stop = next((place for place, line in enumerate(found) if line.mistake), None)
                if stop is None or request.on_error != "stop":
                    stop = len(found)
                _answer(reader.run, found[:stop], request, write)
                half.mark([raw for _, raw in window[:stop]])
                advance(stop, sum(len(raw) for _, raw in window[:stop]))
                if stop < len(found):
                    raise UserError(found[stop].mistake)
                wrong += _tell(found)
        finished = True
    finally:
        half.close(finished)
    return wrong


def _answer(
    run: OpenRun, lines: Sequence[Line], request: PredictArgs, write: Callable[[Line, Prediction | None], None]
) -> None:
    """Decode lines, and write what was found in their order."""
    pairs = [line.pair for line in lines if line.pair is not None]
    copies = request.asked.unknown == "keep"
    found = iter(run.decode(pairs, request.alignments is not None, request.batch, copies))
    for line in lines:
        if line.pair is not None:
            write(line, next(found))
        elif not line.mistake or request.on_error == "keep":
            write(line, None)
    if not request.out:
        sys.stdout.flush()


def _writer(request: PredictArgs, half: ResumableOutput, run: OpenRun) -> Callable[[Line, Prediction | None], None]:
    """What writes an answer to where it belongs."""
    files = list(half.files)
    out = files.pop(0) if request.out else None
    alignments = files.pop(0) if request.alignments else None
    task, sites = run.experiment.task, getattr(resolve(run.config), "sites", ())

    def write(line: Line, prediction: Prediction | None) -> None:
        text = written(line, prediction, request.form, task)
        if out is None:
            sys.stdout.buffer.write(text_for(sys.stdout, text).encode())
        else:
            out.write(text)
        if alignments is not None:
            assert request.alignments is not None
            alignments.write(aligned(line, prediction, request.alignments.suffix, sites))

    return write


def _tell(lines: Sequence[Line]) -> int:
    """Tell which lines could not be read; return how many."""
    mistakes = [line.mistake for line in lines if line.mistake]
    for mistake in mistakes:
        print(f"attnx: {printable(mistake)}", file=sys.stderr)
    return len(mistakes)


@contextmanager
def _progress(request: PredictArgs) -> Iterator[Callable[[int, int], None]]:
    """Show progress on the terminal, where the output does not stand there itself."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    shown = console.is_terminal and (request.out is not None or not sys.stdout.isatty())
    file = request.asked.file
    size = file.stat().st_size if file is not None and file.suffix != ".gz" else None
    columns = (TextColumn("{task.fields[lines]:,} lines"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not shown) as progress:
        bar, done = progress.add_task("", total=size, lines=0), 0

        def advance(lines: int, characters: int) -> None:
            nonlocal done
            done += lines
            progress.update(bar, advance=characters, lines=done)

        yield advance
