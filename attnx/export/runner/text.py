"""How an exported model's lines become symbols or matrices, and its symbols text; nothing of attnx.

A tokenizer needs the package that it was trained by, sentencepiece or tokenizers.
"""

from __future__ import annotations

import csv
import re
import sys
import unicodedata
from collections.abc import Callable
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

SPACE, GLUE, LOOKALIKE = "▁", "￭", "■"
MATRICES = (".csv", ".npy", ".npz")


class WrongLine(Exception):
    """A line that cannot be read."""


def tokenizer(rule: dict[str, Any], folder: Path) -> tuple[Callable[[str], list[str]], Callable[[list[str]], str]]:
    """How a tokenizer cuts a text and joins its symbols."""
    file, kind = folder / rule["file"], rule["tokenizer"]
    if kind in ("bpe", "unigram"):
        import sentencepiece

        pieces = sentencepiece.SentencePieceProcessor(model_proto=file.read_bytes())
        return lambda text: pieces.encode(text, out_type=str), joined
    if kind in ("wordpiece", "bytes"):
        import tokenizers

        fast = tokenizers.Tokenizer.from_file(str(file))
        names = {number: piece for piece, number in fast.get_vocab().items()}
        decoder = tokenizers.decoders.ByteLevel()
        join = joined if kind == "wordpiece" else lambda symbols: " ".join(decoder.decode(list(symbols)).split())
        return lambda text: [names[number] for number in fast.encode(text).ids], join
    if kind == "character":
        return lambda text: list(text.replace(" ", SPACE)), joined
    return cut_words, lambda symbols: re.sub(f"{GLUE} | {GLUE}|{GLUE}", "", " ".join(symbols))


def joined(symbols: list[str]) -> str:
    """Symbols that mark where a word begins, as text."""
    return " ".join("".join(symbols).replace(SPACE, " ").split())


def cut_words(text: str) -> list[str]:
    """Words, and marks that know on which sides they had no space."""
    behind, before = word_marks()
    return before.sub(rf"\1{GLUE} ", behind.sub(rf" {GLUE}\1", text.replace(GLUE, LOOKALIKE))).split()


@cache
def word_marks() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A mark with no space before it, and one with a word right behind it."""
    codes = [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)).startswith("M")]
    runs = [[code for _, code in run] for _, run in groupby(enumerate(codes), key=lambda item: item[1] - item[0])]
    word = r"\w" + "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs) + "\u200c\u200d"
    return re.compile(rf"(?<=\S)([^\s{word}])"), re.compile(rf"([^\s{word}])(?=[{word}])")


def cutter(rule: dict[str, Any], folder: Path) -> Callable[[str, str], Any]:
    """What makes symbols, or a matrix, of a line and its tag."""
    if rule["kind"] == "pieces":
        cut, _ = tokenizer(rule, folder)
        return lambda text, tag: cut(clean(text, rule))
    if rule["kind"] == "characters":
        return lambda text, tag: [*([f"<tag:{tag}>"] if rule.get("tag_token") else []), *letters(text, rule)]
    return {"words": lambda text, tag: text.split(), "ids": lambda text, tag: ids(text),
            "story": lambda text, tag: story(text)}[rule["kind"]]  # fmt: skip


def joiner(rule: dict[str, Any], folder: Path) -> Callable[[list[str]], str]:
    """What makes a text of symbols."""
    if rule["kind"] == "pieces":
        _, join = tokenizer(rule, folder)
        return lambda symbols: join(["⁇" if symbol == "<unk>" else symbol for symbol in symbols])
    return ("" if rule["kind"] == "characters" else " ").join


def clean(text: str, rule: dict[str, Any]) -> str:
    """A text in the form and case that the tokenizer was taught."""
    text = text.lower() if rule["lower"] else text
    return " ".join((text if rule["form"] == "none" else unicodedata.normalize(rule["form"].upper(), text)).split())


def letters(text: str, rule: dict[str, Any]) -> str:
    """The characters of a text in Unicode's form; of ``jamo`` syllables of Hangul alone are cut."""
    form = rule.get("form", "as_is")
    if form == "jamo":
        composed = unicodedata.normalize("NFC", text)
        return "".join(unicodedata.normalize("NFD", one) if "\uac00" <= one <= "\ud7a3" else one for one in composed)
    return text if form == "as_is" else unicodedata.normalize(form.upper(), text)


def ids(text: str) -> list[str]:
    """Whole numbers, without leading zeros."""
    if wrong := next((word for word in text.split() if not re.fullmatch("[0-9]+", word)), None):
        raise WrongLine(f"{wrong!r} is no id: ids are whole numbers, 0 or more, with spaces between")
    return [word.lstrip("0") or "0" for word in text.split()]


def story(text: str) -> list[str]:
    """The words of a story's sentences, each with its full stop, and of its question."""
    *sentences, question = (piece.lower().rstrip(".? \t").split() for piece in re.split(r"\.(?=\s|$)", text))
    if not question:
        raise WrongLine(f"{text!r}: a story ends with its question: Mary went home. Where is Mary?")
    return [*(word for words in sentences if words for word in (*words, ".")), *question, "?"]


def matrix(path: Path, step_names: str | None, columns: list[str]) -> Any:
    """The rows of numbers of a .npy, .npz or .csv file; a header must name the columns that were trained on."""
    try:
        if path.suffix == ".csv":
            rows = list(filter(any, csv.reader(path.read_text(encoding="utf-8-sig").splitlines())))
            names = [name.strip() for name in rows[0]]
            kept = [place for place, name in enumerate(names) if name != step_names]
            if not any(map(is_number, names)):
                rows = rows[1:]
                if columns and columns != [names[place] for place in kept]:
                    raise WrongLine(f"{path}: its columns are not {', '.join(columns)}, in this order")
            return np.array([[float(row[place]) for place in kept] for row in rows], dtype=np.float32)
        held = np.load(path, allow_pickle=False)
        arrays = {"features": held} if isinstance(held, np.ndarray) else {one: held[one] for one in held.files}
        arrays.pop(step_names, None)
        return arrays.get("features", next(iter(arrays.values()))).astype(np.float32)
    except (OSError, ValueError, IndexError) as error:
        raise WrongLine(f"{path}: no .npy, .npz or .csv file of numbers ({error})") from error


def is_number(text: str) -> bool:
    """Whether a text is one."""
    return re.fullmatch(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", text) is not None
