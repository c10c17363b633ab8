"""Run this exported model: python run.py [FILE] [--width N] [--nbest N] [--scores] [--tag NAME], a source per line.

The output is that of attnx predict, with the run's search or a beam of N. It needs numpy, onnxruntime or torch, and the
package of the run's tokenizer, if it has one; attnx is not needed.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from model import Model  # type: ignore[import-not-found]
from text import MATRIX_ENDINGS, InvalidLine, input_function, output_function, read_matrix  # type: ignore[import-not-found]

DEFAULT_BEAM_SIZE = 5
BREAKS = str.maketrans("\t\r\n", "   ")


def predict(model: Model, lines: Iterable[bytes], options: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Yield the output lines of each input line; those of an empty line are empty."""
    rules, model_folder, settings = model.config["text"], Path(__file__).parent, search_settings(model, options)
    is_matrix = rules["cut"]["kind"] == "matrix"
    if is_matrix:
        read = matrix_reader(rules["cut"], folder, len(model.source["mean"]))
    else:
        read = input_function(rules["cut"], model_folder)
    join = output_function(rules["join"], model_folder)
    has_ranks = options.nbest is not None or settings["nbest"] > 1
    for line_number, raw in enumerate(lines, 1):
        try:
            if b"\0" in raw:
                raise InvalidLine("it holds a NUL")
            text = raw.decode("utf-8-sig" if line_number == 1 else "utf-8").strip()
            source = read(text, options.tag) if text else []
        except (UnicodeDecodeError, InvalidLine) as error:
            raise InvalidLine(f"line {line_number}: {error}") from error
        if text and not len(source):
            raise InvalidLine(f"line {line_number}: {text!r} is empty")
        if not text:
            yield f"{line_number}\t1\t\t\n" if has_ranks else "\t\n" if options.scores else "\n"
            continue
        for rank, (score, _, output) in enumerate(model.search(source, options.tag, settings), 1):
            score_column = f"{score:.6f}\t" if has_ranks or options.scores else ""
            rank_columns = f"{line_number}\t{rank}\t" if has_ranks else ""
            yield f"{rank_columns}{score_column}{join(output).translate(BREAKS)}\n"


def matrix_reader(rule: dict[str, Any], folder: Path, width: int) -> Callable[[str, str], Any]:
    """Return the function that reads the matrix file that a line names, whose rows have a number of features."""
    return lambda name, tag: read_matrix(folder / name, rule, width)


def search_settings(model: Model, options: argparse.Namespace) -> dict[str, Any]:
    """Return the run's search settings, or those of ``--width`` and ``--nbest``."""
    settings: dict[str, Any] = model.config["decoding"]
    if options.width is not None:
        settings = {
            **settings,
            "nbest": 1,
            "length_penalty": "none",
            "coverage_penalty": 0.0,
            "beam_size": options.width,
        }
    if options.nbest is not None:
        if options.width is not None and options.width < options.nbest:
            raise InvalidLine(f"--width {options.width} is less than --nbest {options.nbest}; raise it, or remove it")
        use_default = settings["name"] == "greedy" and options.nbest > 1 and options.width is None
        beam_size = DEFAULT_BEAM_SIZE if use_default else settings["beam_size"]
        settings = {**settings, "nbest": options.nbest, "beam_size": max(beam_size, options.nbest)}
    return settings


def main() -> int:
    """Predict the lines of a file, or of standard input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", default="-", help="a source per line; default: standard input")
    parser.add_argument("--width", type=positive, help="beam size, instead of the run's search; 1 is greedy")
    parser.add_argument("--nbest", type=positive, help="the N best outputs: columns line, rank, score, text")
    parser.add_argument("--scores", action="store_true", help="print the score and a tab before the text")
    parser.add_argument("--tag", default="", help="the language, if there are several")
    options, model = parser.parse_args(), Model(Path(__file__).parent)
    tags = model.config["tags"] or [""]
    if options.tag not in tags:
        parser.error(f"--tag {options.tag!r}: expected " + (f"one of {', '.join(tags)}" if tags[0] else "none"))
    try:
        with open_lines(options.file, model.config["text"]["cut"]["kind"] == "matrix") as lines:
            for line in predict(model, lines, options, Path(options.file).parent):
                sys.stdout.buffer.write(line.encode())
                sys.stdout.flush()
    except (InvalidLine, OSError, EOFError, zlib.error, ImportError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0


def open_lines(file: str, has_matrix_names: bool) -> AbstractContextManager[Iterable[bytes]]:
    """Open the lines of a file, or of standard input; a matrix file is one line, its name."""
    if has_matrix_names and Path(file).suffix in MATRIX_ENDINGS:
        return nullcontext([Path(file).name.encode()])
    if file == "-":
        return nullcontext(sys.stdin.buffer)
    return gzip.open(file) if file.endswith(".gz") else Path(file).open("rb")


def positive(text: str) -> int:
    """Parse a whole number from 1."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number from 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
