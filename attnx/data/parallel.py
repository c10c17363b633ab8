"""Sentences with their translations: two text files in step, tab-separated files, one or several target languages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from attnx.data.lines import read_lines
from attnx.errors import UserError, near_misses


class Sentence(NamedTuple):
    """A sentence and its translations into one language.

    Attributes:
        source: the text to be translated.
        references: its translations, one or more.
        tag: their language, "" where there is only one.
    """

    source: str
    references: tuple[str, ...]
    tag: str = ""

    @property
    def blank(self) -> bool:
        """Whether a side holds nothing but space."""
        return not self.source.strip() or not all(reference.strip() for reference in self.references)


def read_parallel(paths: Sequence[Path], languages: Sequence[str] = (), whole: bool = False) -> list[Sentence]:
    """Read sentences and translations from UTF-8 files, plain or ``.gz``; how follows from their number.

    With one target language, one file is a TSV (sentence, tab, translation; further columns are ignored), and two
    files are parallel: line n of the second translates line n of the first. With several, either each language has a
    TSV of its own, or its own parallel file behind that of the source, or one TSV names each line's language in its
    third column. The languages take turns, so that the first so many sentences are as many of each.

    Args:
        paths: the files.
        languages: the names of the target languages, in the order of the files; empty for one without a name.
        whole: nothing may be blank, as in data to test on; without it blank sides are left to the caller.

    Raises:
        UserError: ``file:line: what is wrong`` for a bad line, ``file: what is wrong`` for a bad file.
    """
    names = list(languages) or [""]
    if len(paths) == len(names) + 1:
        lists = _in_step(paths, names, whole)
    elif len(paths) == len(names):
        lists = [list(_table(path, name, (), whole)) for path, name in zip(paths, names, strict=True)]
    elif len(paths) == 1:
        lists = [list(_table(paths[0], "", names, whole))]
    else:
        raise UserError(_expected(paths, names))
    return [sentence for sentence in chain.from_iterable(zip_longest(*lists)) if sentence is not None]


def _expected(paths: Sequence[Path], names: Sequence[str]) -> str:
    listed = ", ".join(map(str, paths))
    if len(names) == 1:
        return f"[{listed}]: {len(paths)} files; expected a TSV file, or the source's and the translations' text files"
    return (
        f"[{listed}]: {len(paths)} files for {len(names)} languages; expected a TSV file for each, or the source's "
        "text file and one for each, or a single TSV file with the language in its third column"
    )


def _in_step(paths: Sequence[Path], names: Sequence[str], whole: bool) -> list[list[Sentence]]:
    """Parallel files, the source's first: a list of sentences for each language."""
    texts = [[line for _, line in read_lines(path)] for path in paths]
    source, *targets = texts
    for path, lines in zip(paths, texts, strict=True):
        if len(lines) != len(source):
            raise UserError(
                f"{path}: has {len(lines):,} lines, but {paths[0]} has {len(source):,}; "
                "parallel files hold a line for each line of the other"
            )
        if whole and (blank := next((number for number, line in enumerate(lines, 1) if not line.strip()), None)):
            raise UserError(f"{path}:{blank}: the line is blank; remove it from both files, or fill it in")
    return [
        [Sentence(text, (translation,), name) for text, translation in zip(source, lines, strict=True)]
        for name, lines in zip(names, targets, strict=True)
    ]


def _table(path: Path, name: str, languages: Sequence[str], whole: bool) -> Iterator[Sentence]:
    """A TSV file of one language, or of several if ``languages`` says which; lines without any text are skipped."""
    columns = "a sentence, a tab, its translation" + (", a tab and its language" if languages else "")
    for number, line in read_lines(path):
        if not line.strip():
            continue
        fields = line.split("\t")
        if len(fields) < (3 if languages else 2):
            raise UserError(f"{path}:{number}: {len(fields) - 1 or 'no'} tab in {_short(line)!r}; expected {columns}")
        tag = fields[2].strip() if languages else name
        if languages and tag not in languages:
            raise UserError(f"{path}:{number}: unknown language {tag!r}{near_misses(tag, languages)}")
        sentence = Sentence(fields[0], (fields[1],), tag)
        if whole and sentence.blank:
            raise UserError(f"{path}:{number}: a side of it is blank; remove the line, or fill it in")
        yield sentence


def _short(line: str) -> str:
    return line if len(line) <= 60 else f"{line[:57]}..."
