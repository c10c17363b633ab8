"""Folders with a word list per language, as in the SIGMORPHON shared tasks: ``ady_train.tsv`` ..."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import chain, zip_longest
from pathlib import Path

from attnx.data.examples import Pair, read_pairs
from attnx.errors import UserError, suggest

# The part of the data, after the language in a file's name.
PART_SUFFIX = re.compile(r"[_.](all|train|dev|devel|development|val|valid|validation|test|eval)$", re.IGNORECASE)
LANGUAGE_CODE = re.compile(r"[^\W_]+([-_][^\W_]+)*")


def has_languages(path: Path) -> bool:
    """Whether a path is a folder or a pattern such as ``folder/*_train.tsv``, not a single word list."""
    return "*" in path.name or path.is_dir()


def read_languages(
    path: Path,
    languages: Sequence[str] | None = None,
    compose: bool = False,
    columns: Sequence[str] = (),
    notes: list[str] | None = None,
) -> list[Pair]:
    """Read the word list of every language; a pair's tag is its language, the start of its file's name.

    The language of ``por_latn_bz_train.tsv`` is ``por_latn_bz``: the name without its ending and a suffix ``_train``,
    ``_dev``, ``_valid``, ``_test`` and the like. If a pattern starts with a star, the star matches the language:
    ``fre`` of ``fre_gold.tsv`` in ``*_gold.tsv``.

    A word of two languages is a pair in each. Pairs of the languages alternate. ``path`` is a folder of ``.tsv`` or
    ``.tsv.gz`` files, or a pattern of such files; ``languages`` are those to read, None for all; ``columns`` and
    ``notes`` come from :func:`attnx.data.examples.read_pairs`. No files, two of one
    language, none of a language in ``languages``, and malformed ones are UserErrors.
    """
    files = _files_by_language(path)
    for language in languages or ():
        if language not in files:
            raise UserError(f"{path}: has no file of the language {language!r}{suggest(language, files)}")
    selected = sorted(set(files if languages is None else languages))
    lists = [[pair._replace(tag=tag) for pair in read_pairs(files[tag], compose, columns, notes)] for tag in selected]
    return [pair for pair in chain.from_iterable(zip_longest(*lists)) if pair is not None]


def _files_by_language(path: Path) -> dict[str, Path]:
    folder, pattern = (path.parent, path.name) if "*" in path.name else (path, "*")
    files: dict[str, Path] = {}
    for file in sorted(folder.iterdir() if folder.is_dir() else ()):
        if not fnmatchcase(file.name, pattern) or not re.fullmatch(r"[^.].*\.tsv(\.gz)?", file.name):
            continue
        name = file.name
        prefix, _, suffix = pattern.partition("*")
        if not prefix and "*" not in suffix:
            name = name.removesuffix(suffix)
        language = PART_SUFFIX.sub("", re.sub(r"\.tsv(\.gz)?$", "", name))
        if not LANGUAGE_CODE.fullmatch(language):
            raise UserError(f"{file}: its name does not start with a language, like por_latn_bz_train.tsv; rename it")
        if language in files:
            raise UserError(
                f"{folder}: {files[language].name} and {file.name} are both of the language {language!r}; "
                "remove one, or use a pattern of files such as *_train.tsv"
            )
        files[language] = file
    if not files:
        raise UserError(f"{path}: holds no word lists; expected a .tsv file for each language, such as ady_train.tsv")
    return files
