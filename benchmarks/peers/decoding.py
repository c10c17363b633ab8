"""The decoding task of all libraries and its timing: from words in memory to output symbols."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from request import Training
from stopwatch import Stopwatch

Loaded = TypeVar("Loaded")


@dataclass(frozen=True)
class Decoding(Training):
    """Words to decode with the model that was trained in the working folder."""

    words: str
    """A file with a word a line, at least as many as a batch has."""
    width: int
    """Of the beam; 1 is greedy."""
    batch_words: int
    """Words in a batch."""
    out: str
    """A file to write: for each word a line of symbols, apart by spaces."""


def read_words(request: Decoding) -> list[str]:
    """The words, in order."""
    return Path(request.words).read_text(encoding="utf-8").splitlines()


def write_outputs(request: Decoding, outputs: list[str]) -> None:
    """Write the outputs in the order of the words."""
    Path(request.out).write_text("".join(f"{output}\n" for output in outputs), encoding="utf-8")


def measure(
    package: str, request: Decoding, load: Callable[[list[str]], Loaded], decode: Callable[[Loaded], list[str]]
) -> None:
    """Decode the first batch untimed, then all words; write the outputs and print words per second."""
    words = read_words(request)
    first, every = load(words[: request.batch_words]), load(words)
    watch = Stopwatch(warmup=1, steps=1)
    watch.step_begins(request.batch_words)
    decode(first)
    watch.step_begins(len(words))
    outputs = decode(every)
    watch.step_begins(0)
    write_outputs(request, outputs)
    watch.report(package)
