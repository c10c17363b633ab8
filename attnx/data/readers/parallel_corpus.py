"""Sentences with their translations: two text files in step, tab-separated files, one or several target languages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from attnx.data.readers.lines import read_lines, refuse_header
from attnx.errors import UserError, suggest
from attnx.files.printable import quoted


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


def read_parallel(paths: Sequence[Path], languages: Sequence[str] = (), whole: bool = False) -> Iterator[Sentence]:
    """Read sentences and translations from UTF-8 files, plain or ``.gz``; how follows from their number.

    With one target language, one file is a TSV (sentence, tab, translation; further columns are ignored), and two
    files are parallel: line n of the second translates line n of the first. With several, either each language has a
    TSV of its own, or its own parallel file behind that of the source, or one TSV names each line's language in its
    third column. The languages take turns.

    Args:
        paths: the files; a line of each is in memory at a time.
        languages: the names of the target languages, in the order of the files; empty for one without a name.
        whole: nothing may be blank, as in data to test on; without it blank sides are left to the caller.

    Raises:
        UserError: ``file:line: what is wrong`` for a bad line, ``file: what is wrong`` for a bad file.
    """
    names = list(languages) or [""]
    if len(paths) == len(names) + 1:
        yield from _in_step(paths, names, whole)
    elif len(paths) == len(names):
        tables = [_table(path, name, (), whole) for path, name in zip(paths, names, strict=True)]
        yield from (sentence for sentence in chain.from_iterable(zip_longest(*tables)) if sentence is not None)
    elif len(paths) == 1:
        yield from _table(paths[0], "", names, whole)
    else:
        raise UserError(_expected(paths, names))


def _expected(paths: Sequence[Path], names: Sequence[str]) -> str:
    listed = ", ".join(map(str, paths))
    if len(names) == 1:
        return f"[{listed}]: {len(paths)} files; expected a TSV file, or the source's and the translations' text files"
    return (
        f"[{listed}]: {len(paths)} files for {len(names)} languages; expected a TSV file for each, or the source's "
        "text file and one for each, or a single TSV file with the language in its third column"
    )


def _in_step(paths: Sequence[Path], names: Sequence[str], whole: bool) -> Iterator[Sentence]:
    """Parallel files, the source's first: line by line, a sentence for each language."""
    texts = [(line for _, line in read_lines(path)) for path in paths]
    for number, lines in enumerate(zip_longest(*texts), 1):
        if None in lines:
            counts = [number - (line is None) + sum(1 for _ in text) for line, text in zip(lines, texts, strict=True)]
            raise UserError(_out_of_step(paths, counts))
        if whole and (blank := next((path for path, line in zip(paths, lines, strict=True) if not line.strip()), None)):
            raise UserError(f"{blank}:{number}: the line is blank; remove it from both files, or fill it in")
        source, *translations = lines
        for name, translation in zip(names, translations, strict=True):
            yield Sentence(source, (translation,), name)


def _out_of_step(paths: Sequence[Path], counts: Sequence[int]) -> str:
    path, count = next((path, count) for path, count in zip(paths, counts, strict=True) if count != counts[0])
    return (
        f"{path}: has {count:,} lines, but {paths[0]} has {counts[0]:,}; "
        "parallel files hold a line for each line of the other"
    )


def _table(path: Path, name: str, languages: Sequence[str], whole: bool) -> Iterator[Sentence]:
    """A TSV file of one language, or of several if ``languages`` says which; lines without any text are skipped."""
    columns = "a sentence, a tab, its translation" + (", a tab and its language" if languages else "")
    for number, line in read_lines(path):
        if not line.strip():
            continue
        fields = line.split("\t")
        if len(fields) < (3 if languages else 2):
            raise UserError(f"{path}:{number}: {len(fields) - 1 or 'no'} tab in {quoted(line)}; expected {columns}")
        if number == 1:
            refuse_header([field.strip() for field in fields], f"{path}:{number}")
        tag = fields[2].strip() if languages else name
        if languages and tag not in languages:
            raise UserError(f"{path}:{number}: unknown language {tag!r}{suggest(tag, languages)} in {quoted(line)}")
        sentence = Sentence(fields[0], (fields[1],), tag)
        if whole and sentence.blank:
            raise UserError(f"{path}:{number}: a side of {quoted(line)} is blank; remove the line, or fill it in")
        yield sentence
