"""Run this exported model: python run.py [FILE] [--width N] [--nbest N] [--scores] [--tag NAME], a source a line.

It prints what attnx predict prints, with the search of the run or by a beam of N. It needs numpy, onnxruntime or torch
as the files are, and what the run's tokenizer is made of, if it has one; nothing of attnx.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from model import Model  # type: ignore[import-not-found]
from text import MATRICES, WrongLine, cutter, joiner, matrix  # type: ignore[import-not-found]

BREAKS = str.maketrans("\t\r\n", "   ")


def answers(model: Model, lines: Iterable[bytes], asked: argparse.Namespace, folder: Path) -> Iterator[str]:
    """The lines of the output for each of the input; of an empty one the same, with nothing in them."""
    rules, here, settings = model.config["text"], Path(__file__).parent, settings_of(model, asked)
    read = reader(rules["cut"], folder) if rules["cut"]["kind"] == "matrix" else cutter(rules["cut"], here)
    join, several = joiner(rules["join"], here), asked.nbest is not None or settings["nbest"] > 1
    for number, raw in enumerate(lines, 1):
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            source = read(text, asked.tag) if text else []
        except (UnicodeDecodeError, WrongLine) as error:
            raise WrongLine(f"line {number}: {error}") from error
        if text and not len(source):
            raise WrongLine(f"line {number}: {text!r} holds nothing to read")
        if not text:
            yield f"{number}\t1\t\t\n" if several else "\t\n" if asked.scores else "\n"
            continue
        for rank, (score, _, output) in enumerate(model.search(source, asked.tag, settings), 1):
            before = f"{number}\t{rank}\t{score:.6f}\t" if several else f"{score:.6f}\t" if asked.scores else ""
            yield f"{before}{join(output).translate(BREAKS)}\n"


def reader(rule: dict[str, Any], folder: Path) -> Callable[[str, str], Any]:
    """What reads the matrix that a line names, seen from a folder."""
    return lambda name, tag: matrix(folder / name, rule["step_names"], rule["columns"])


def settings_of(model: Model, asked: argparse.Namespace) -> dict[str, Any]:
    """The search: the run's own, or as ``--width`` and ``--nbest`` say."""
    settings: dict[str, Any] = model.config["decoding"]
    if asked.width is not None:
        settings = {**settings, "nbest": 1, "length_penalty": "none", "coverage_penalty": 0.0, "beam_size": asked.width}
    if asked.nbest is not None:
        if asked.width is not None and asked.width < asked.nbest:
            raise WrongLine(f"--width {asked.width} holds fewer than the {asked.nbest} best; raise it, or leave it out")
        least = 5 if settings["beam_size"] == 1 < asked.nbest and asked.width is None else settings["beam_size"]
        settings = {**settings, "nbest": asked.nbest, "beam_size": max(least, asked.nbest)}
    return settings


def main() -> int:
    """Answer the lines of a file, or of standard input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", default="-", help="a source a line; left out, standard input")
    parser.add_argument(
        "--width", type=positive, help="of a beam that takes the place of the run's search; 1 is greedy"
    )
    parser.add_argument("--nbest", type=positive, help="the best N for each: columns line, rank, score, text")
    parser.add_argument("--scores", action="store_true", help="the score, a tab, the text")
    parser.add_argument("--tag", default="", help="the language, where there are several")
    asked, model = parser.parse_args(), Model(Path(__file__).parent)
    tags = model.config["tags"] or [""]
    if asked.tag not in tags:
        parser.error(f"--tag {asked.tag!r}: expected " + (f"one of {', '.join(tags)}" if tags[0] else "none"))
    try:
        with opened(asked.file, model.config["text"]["cut"]["kind"] == "matrix") as lines:
            for answer in answers(model, lines, asked, Path(asked.file).parent):
                sys.stdout.buffer.write(answer.encode())
                sys.stdout.flush()
    except (WrongLine, OSError, ImportError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0


def opened(file: str, names_files: bool) -> AbstractContextManager[Iterable[bytes]]:
    """The lines of a file, or of standard input; a matrix by itself is one line, its name."""
    if names_files and Path(file).suffix in MATRICES:
        return nullcontext([Path(file).name.encode()])
    return nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb")


def positive(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number from 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
