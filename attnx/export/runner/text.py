"""Conversion of lines to symbols or matrices, and of symbols to texts; without attnx.

A tokenizer needs the package that trained it, sentencepiece or tokenizers.
"""

from __future__ import annotations

import csv
import re
import sys
import unicodedata
import zipfile
import zlib
from collections.abc import Callable
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

SPACE, GLUE, LOOKALIKE = "▁", "￭", "■"
MATRIX_ENDINGS = (".csv", ".npy", ".npz")


class InvalidLine(Exception):
    """An invalid line."""


def load_tokenizer(rule: dict[str, Any], folder: Path) -> tuple[Callable[[str], list[str]], Callable[[list[str]], str]]:
    """Return the functions that tokenize and detokenize."""
    file, kind = folder / rule["file"], rule["tokenizer"]
    if kind in ("bpe", "unigram"):
        import sentencepiece

        pieces = sentencepiece.SentencePieceProcessor(model_proto=file.read_bytes())
        return lambda text: pieces.encode(text, out_type=str), join_pieces
    if kind in ("wordpiece", "bytes"):
        import tokenizers

        model = tokenizers.Tokenizer.from_file(str(file))
        names = {index: piece for piece, index in model.get_vocab().items()}
        decoder = tokenizers.decoders.ByteLevel()
        join = join_pieces if kind == "wordpiece" else lambda symbols: " ".join(decoder.decode(list(symbols)).split())
        return lambda text: [names[index] for index in model.encode(text).ids], join
    if kind == "character":
        return lambda text: list(text.replace(" ", SPACE)), join_pieces
    if kind != "word":
        raise InvalidLine(f"unknown tokenizer {kind!r}")
    return split_words, lambda symbols: re.sub(f"{GLUE} | {GLUE}|{GLUE}", "", " ".join(symbols))


def join_pieces(symbols: list[str]) -> str:
    """Join symbols that mark the start of a word."""
    return " ".join("".join(symbols).replace(SPACE, " ").split())


def split_words(text: str) -> list[str]:
    """Split a text into words and marks, which record on which sides they had no space."""
    attached_left, attached_right = mark_patterns()
    return attached_right.sub(rf"\1{GLUE} ", attached_left.sub(rf" {GLUE}\1", text.replace(GLUE, LOOKALIKE))).split()


@cache
def word_characters() -> str:
    """Return the characters of words as the inside of a character class, combining marks among them."""
    codes = [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)).startswith("M")]
    runs = [[code for _, code in run] for _, run in groupby(enumerate(codes), key=lambda item: item[1] - item[0])]
    return r"\w" + "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs) + "\u200c\u200d"


@cache
def mark_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns of a mark without a space before it, and of one followed by a word."""
    word = word_characters()
    return re.compile(rf"(?<=\S)([^\s{word}])"), re.compile(rf"([^\s{word}])(?=[{word}])")


def input_function(rule: dict[str, Any], folder: Path) -> Callable[[str, str], Any]:
    """Return the function from a line and its tag to symbols."""
    if rule["kind"] == "pieces":
        tokenize, _ = load_tokenizer(rule, folder)
        return lambda text, tag: tokenize(normalize(text, rule))
    if rule["kind"] == "characters":
        return lambda text, tag: [*([f"<tag:{tag}>"] if rule.get("tag_token") else []), *split_graphemes(text, rule)]
    return {"words": lambda text, tag: text.split(), "ids": lambda text, tag: parse_ids(text),
            "story": lambda text, tag: tokenize_story(text, rule["sentences"].get(tag)),
            "sentences": lambda text, tag: tokenize_texts(text, rule)}[rule["kind"]]  # fmt: skip


def output_function(rule: dict[str, Any], folder: Path) -> Callable[[list[str]], str]:
    """Return the function from symbols to a text."""
    if rule["kind"] == "pieces":
        _, detokenize = load_tokenizer(rule, folder)
        return lambda symbols: detokenize(["⁇" if symbol == "<unk>" else symbol for symbol in symbols])
    return ("" if rule["kind"] == "characters" else " ").join


def normalize(text: str, rule: dict[str, Any]) -> str:
    """Apply case and Unicode form of the tokenizer's training texts."""
    form = rule["unicode_form"]
    unify: Callable[[str], str] = str if form == "none" else partial(unicodedata.normalize, form.upper())
    text = unify(text)
    return " ".join((unify(text.lower()) if rule["lower"] else text).split())


def split_graphemes(text: str, rule: dict[str, Any]) -> str:
    """Convert a text to a Unicode form; ``jamo`` decomposes Hangul syllables alone."""
    form = rule.get("form", "as_is")
    if form == "jamo":
        composed = unicodedata.normalize("NFC", text)
        return "".join(
            unicodedata.normalize("NFD", char) if "\uac00" <= char <= "\ud7a3" else char for char in composed
        )
    return text if form == "as_is" else unicodedata.normalize(form.upper(), text)


def parse_ids(text: str) -> list[str]:
    """Return whole numbers without leading zeros."""
    if wrong := next((word for word in text.split() if not re.fullmatch("[0-9]+", word)), None):
        raise InvalidLine(f"{wrong!r} is not an id: ids are whole numbers, 0 or more, separated by spaces")
    return [word.lstrip("0") or "0" for word in text.split()]


def tokenize_story(text: str, last: int | None) -> list[str]:
    """Return the words of a story's last sentences, each with its full stop, and of its question."""
    *sentences, question = (piece.lower().rstrip(".? \t").split() for piece in re.split(r"\.(?=\s|$)", text))
    if not question:
        raise InvalidLine(f"{text!r}: a story must end with a question: Mary went home. Where is Mary?")
    read = [words for words in sentences if words][-(last or len(sentences)) :]
    return [*(word for words in read for word in (*words, ".")), *question, "?"]


def tokenize_texts(text: str, rule: dict[str, Any]) -> list[str]:
    """Return the words and marks of a text, or of two with a separator between them."""
    texts = text.split("\t") if rule["texts"] == 2 else [text]
    symbols = [split_sentences(part.lower() if rule["lower"] else part) for part in texts]
    if len(texts) != rule["texts"] or not all(symbols):
        raise InvalidLine(f"{text!r}: expected {'two texts with a tab between' if rule['texts'] == 2 else 'a text'}")
    return [*symbols[0], *(symbol for second in symbols[1:] for symbol in ("<sep>", *second))]


@cache
def sentence_symbols() -> re.Pattern[str]:
    """Return the pattern of a number, a word with its apostrophes, marks that end a sentence, or another mark."""
    word = word_characters()
    return re.compile(rf"\d+(?:[.,]\d+)+|\w[{word}]*(?:['\u2019]\w[{word}]*)*|[.!?]+|[^\w\s]")


def split_sentences(text: str) -> list[str]:
    """Return words and marks; each sentence ends with a full stop, behind its ``!`` or ``?``."""
    symbols: list[str] = []
    for symbol in sentence_symbols().findall(text):
        is_end = not symbol.strip(".!?")
        symbols += [*(mark for mark in "!?" if mark in symbol), "."] if is_end else [symbol]
    return symbols if not symbols or symbols[-1] == "." else [*symbols, "."]


def read_matrix(path: Path, rule: dict[str, Any], width: int) -> Any:
    """Read a .npy, .npz or .csv file of rows of ``width`` numbers; a header names the columns of the training data."""
    matrix = load_matrix(path, rule["step_names"], rule["columns"])
    if matrix.ndim != 2 or matrix.shape[1] != width:
        raise InvalidLine(f"{path}: the model reads {width} features, not a matrix of shape {matrix.shape}")
    with np.errstate(over="ignore"):
        is_finite = np.isfinite(matrix.astype(np.float32))
    if not is_finite.all():
        raise InvalidLine(f"{path}: has a number that is not finite")
    if len(matrix) > rule.get("most", len(matrix)):
        raise InvalidLine(f"{path}: has {len(matrix)} points, more than {rule['most']}")
    if rule.get("distinct") and len(np.unique(matrix, axis=0)) < len(matrix):
        raise InvalidLine(f"{path}: has two equal points")
    return matrix


def load_matrix(path: Path, step_names: str | None, columns: list[str]) -> Any:
    """Read the numbers of a file; a header must name the columns of the training data."""
    try:
        if path.suffix == ".csv":
            lines = path.read_text(encoding="utf-8-sig").splitlines()
            rows = list(csv.reader(filter(str.strip, lines)))
            names = [name.strip() for name in rows[0]]
            used = [index for index, name in enumerate(names) if name != step_names]
            if not any(map(is_number, names)):
                rows = rows[1:]
                if columns and columns != [names[index] for index in used]:
                    raise InvalidLine(f"{path}: its columns are not {', '.join(columns)}, in this order")
            if any(len(row) != len(names) for row in rows):
                raise InvalidLine(f"{path}: its rows have different lengths")
            return np.array([[float(row[index]) for index in used] for row in rows])
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            is_array = isinstance(loaded, np.ndarray)
            arrays = {"features": loaded} if is_array else {name: loaded[name] for name in loaded.files}
        arrays.pop(step_names, None)
        if not arrays:
            raise InvalidLine(f"{path}: holds no array of numbers")
        return arrays.get("features", next(iter(arrays.values()))).astype(np.float64)
    except (OSError, ValueError, IndexError, EOFError, csv.Error, zlib.error, zipfile.BadZipFile) as error:
        raise InvalidLine(f"{path}: not a .npy, .npz or .csv file of numbers ({error})") from error


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    return re.fullmatch(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", text) is not None
