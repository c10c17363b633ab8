"""Folders with a word list for each language, as the SIGMORPHON shared tasks lay them out: ``ady_train.tsv`` ..."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, zip_longest
from pathlib import Path

from attnx.data.examples import Pair, read_pairs
from attnx.errors import UserError, suggest

# What may stand behind a language in a file's name, and is no part of its code.
PART = re.compile(r"[_.](all|train|dev|devel|development|val|valid|validation|test|eval)$", re.IGNORECASE)
CODE = re.compile(r"[^\W_]+([-_][^\W_]+)*")


def holds_languages(path: Path) -> bool:
    """Whether a path is a folder, or a pattern such as ``folder/*_train.tsv``, and not one word list."""
    return "*" in path.name or path.is_dir()


def read_languages(path: Path, languages: Sequence[str] | None = None, compose: bool = False) -> list[Pair]:
    """Read the word list of every language; a pair's tag is its language, which its file's name begins with.

    The language of ``por_latn_bz_train.tsv`` is ``por_latn_bz``: the name without its ending and the part behind it,
    ``_train``, ``_dev``, ``_valid``, ``_test`` and the like. In a pattern that begins with a star it is what the star
    stands for: ``fre`` in ``*_gold.tsv`` of ``fre_gold.tsv``.

    A spelling that two languages share is a pair of each. The languages take turns.

    Args:
        path: a folder of ``.tsv`` or ``.tsv.gz`` files, or a pattern of some of them: ``folder/*_train.tsv``.
        languages: which to take; None takes all.
        compose: as in :func:`attnx.data.examples.read_pairs`, which reads the files.

    Raises:
        UserError: there is no such file, two of one language, none of a language asked for, or one is malformed.
    """
    files = _by_language(path)
    for language in languages or ():
        if language not in files:
            raise UserError(f"{path}: has no file of the language {language!r}{suggest(language, files)}")
    chosen = sorted(set(files if languages is None else languages))
    lists = [[pair._replace(tag=one) for pair in read_pairs(files[one], compose)] for one in chosen]
    return [pair for pair in chain.from_iterable(zip_longest(*lists)) if pair is not None]


def _by_language(path: Path) -> dict[str, Path]:
    folder, pattern = (path.parent, path.name) if "*" in path.name else (path, "*")
    files: dict[str, Path] = {}
    for file in sorted(folder.glob(pattern)):
        if not re.fullmatch(r"[^.].*\.tsv(\.gz)?", file.name):
            continue
        language = _language(file.name, pattern)
        if not CODE.fullmatch(language):
            raise UserError(
                f"{file}: its name does not begin with a language, as ady_train.tsv and por_latn_bz_train.tsv do; "
                "rename it"
            )
        if language in files:
            raise UserError(
                f"{folder}: {files[language].name} and {file.name} are both of the language {language!r}; "
                "keep one of them there, or name a pattern of files such as *_train.tsv"
            )
        files[language] = file
    if not files:
        raise UserError(f"{path}: holds no word lists; expected a .tsv file for each language, such as ady_train.tsv")
    return files


def _language(name: str, pattern: str) -> str:
    star, _, behind = pattern.partition("*")
    if not star and "*" not in behind:
        name = name.removesuffix(behind)
    return PART.sub("", re.sub(r"\.tsv(\.gz)?$", "", name))
