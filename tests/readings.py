"""The same test file read under several options of a task."""

from pathlib import Path
from typing import Any

from attnx import registry
from attnx.data.examples import Pair

COUNT = 60
WORDS = [f"{first}{second}" for first in ("Ab", "c\u00e9", "ed") for second in "pqrs"]


def _text(number: int) -> str:
    return f"{WORDS[number % 12]} {WORDS[number // 12]} {WORDS[number % 7]}"


# For each task its options, and the lines of its file; some have the same answer.
READINGS: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "inflection": (
        [{"features": features} for features in ("split", "composite", "whole")],
        [f"{_text(n)}\tform{n % 5}\tN;ACC({'PL' if n % 2 else 'SG'};{n % 3})" for n in range(COUNT)],
    ),
    "classification": ([{"lower": lower} for lower in (True, False)], [f"{_text(n)}\t{n % 3}" for n in range(COUNT)]),
    "sequences": (
        [{"source": source} for source in ("words", "characters")],
        [f"{_text(n)}\t{n % 3} {n % 5}" for n in range(COUNT)],
    ),
    "g2p": (
        [{"graphemes": graphemes} for graphemes in ("as_is", "nfc", "nfd", "jamo")],
        [f"{_text(n)}\t{n % 3} {n % 5}" for n in range(COUNT)],
    ),
    "translation": (
        [{"tokenizer": "word"}, {"tokenizer": "character"}, {"tokenizer": "word", "lower": True}],
        [f"{_text(n)}\tthe {n % 4}" for n in range(COUNT)],
    ),
    "qa": (
        [{"sentences": count} for count in (None, 1, 2)],
        [
            f"1 {_text(n)} is here.\n2 Something else is {n % 2}.\n3 Somebody sleeps.\n4 Where is it?\t{n % 3}\t1"
            for n in range(COUNT)
        ],
    ),
}


def read_variously(name: str, folder: Path) -> list[list[Pair]]:
    """The test pairs of one file, read with each of the options."""
    variants, lines = READINGS[name]
    file = folder / "lines.tsv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    files: dict[str, Any] = {"train": str(file), "test": str(file)}
    if name == "qa":
        for part in ("train", "test"):
            (folder / f"qa1_a_{part}.txt").write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
        files = {"folder": str(folder)}
    readings = [registry.build("task", (name, {**files, **options})).load().pairs.test for options in variants]
    assert all(len(pairs) == COUNT for pairs in readings)
    return readings
