"""Reading parallel corpora: text files aligned by line, or TSV files; one or several target languages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from attnx.data.readers.lines import check_not_header, read_lines
from attnx.errors import UserError, suggest
from attnx.files.printable import quoted


class Sentence(NamedTuple):
    """A sentence and its translations into one language, the tag; "" if there is only one."""

    source: str
    references: tuple[str, ...]
    tag: str = ""

    @property
    def is_blank(self) -> bool:
        """Whether a side is only whitespace."""
        return not self.source.strip() or not all(reference.strip() for reference in self.references)


def read_parallel(paths: Sequence[Path], languages: Sequence[str] = (), allow_blank: bool = True) -> Iterator[Sentence]:
    """Read sentences and translations from UTF-8 files, plain or ``.gz``; their number decides on the format.

    With one target language, one file is a TSV (sentence, tab, translation; further columns are ignored), and two files
    are aligned by line. With several languages there is a TSV for each, or a source file and an aligned file for each,
    or one TSV with the language in its third column. Sentences of the languages alternate. A line of each file is in
    memory at a time. Bad lines, and sentences with a blank side unless ``allow_blank``, are UserErrors.
    """
    names = list(languages) or [""]
    if len(paths) == len(names) + 1:
        yield from _read_aligned(paths, names, allow_blank)
    elif len(paths) == len(names):
        tables = [_read_table(path, name, (), allow_blank) for path, name in zip(paths, names, strict=True)]
        yield from (sentence for sentence in chain.from_iterable(zip_longest(*tables)) if sentence is not None)
    elif len(paths) == 1:
        yield from _read_table(paths[0], "", names, allow_blank)
    else:
        which, expected = "", "a TSV file, or the source's and the translations' text files"
        if len(names) > 1:
            which = f" for {len(names)} languages"
            expected = "a TSV file for each, or the source's text file and one for each, or a single TSV file with the "
            expected += "language in its third column"
        raise UserError(f"[{', '.join(map(str, paths))}]: {len(paths)} files{which}; expected {expected}")


def _read_aligned(paths: Sequence[Path], names: Sequence[str], allow_blank: bool) -> Iterator[Sentence]:
    """Read aligned files, the source's first: a sentence per line and language."""
    texts = [(line for _, line in read_lines(path)) for path in paths]
    for line_number, lines in enumerate(zip_longest(*texts), 1):
        if None in lines:
            counts = [
                line_number - (line is None) + sum(1 for _ in text) for line, text in zip(lines, texts, strict=True)
            ]
            path, count = next(pair for pair in zip(paths, counts, strict=True) if pair[1] != counts[0])
            raise UserError(f"{path}: has {count:,} lines, but {paths[0]} has {counts[0]:,}; align them by line")
        blank = [path for path, line in zip(paths, lines, strict=True) if not line.strip()]
        if blank and not allow_blank:
            raise UserError(f"{blank[0]}:{line_number}: the line is blank; remove it from all files, or fill it in")
        source, *translations = lines
        for name, translation in zip(names, translations, strict=True):
            yield Sentence(source, (translation,), name)


def _read_table(path: Path, name: str, languages: Sequence[str], allow_blank: bool) -> Iterator[Sentence]:
    """Read a TSV file of one language, or of ``languages``; blank lines are skipped."""
    columns = "a sentence, a tab, its translation" + (", a tab and its language" if languages else "")
    for line_number, line in read_lines(path):
        if not line.strip():
            continue
        where, fields = f"{path}:{line_number}", line.split("\t")
        if len(fields) < (3 if languages else 2):
            raise UserError(f"{where}: {len(fields) - 1 or 'no'} tab in {quoted(line)}; expected {columns}")
        if line_number == 1:
            check_not_header([field.strip() for field in fields], where)
        tag = fields[2].strip() if languages else name
        if languages and tag not in languages:
            raise UserError(f"{where}: unknown language {tag!r}{suggest(tag, languages)} in {quoted(line)}")
        sentence = Sentence(fields[0], (fields[1],), tag)
        if sentence.is_blank and not allow_blank:
            raise UserError(f"{where}: a side of {quoted(line)} is blank; remove the line, or fill it in")
        yield sentence
