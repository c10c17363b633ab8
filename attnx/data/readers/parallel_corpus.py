"""Reading parallel corpora, text files aligned by line or TSV files, and what of them is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from attnx.data.examples import Pair
from attnx.data.readers.columns import CHECKED_LINES, check_columns, header_note, read_text_rows
from attnx.data.readers.lines import are_column_names, read_lines, separator_hint
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


def read_parallel(
    paths: Sequence[Path],
    languages: Sequence[str] = (),
    allow_blank: bool = True,
    columns: Sequence[str] = (),
    notes: list[str] | None = None,
) -> Iterator[Sentence]:
    """Read sentences and translations from UTF-8 files, plain or ``.gz``; their number decides on the format.

    With one target language, one file is a TSV (sentence, tab, translation; further columns are ignored; ``columns``
    names others by number or name), and two files are aligned by line. With several languages there is a TSV for each,
    or a source file and an aligned file for each, or one TSV with the language in its third column. Sentences of the
    languages alternate, line by line. A line of each file is in memory at a time. Bad lines, columns of a table that
    hold no texts, and sentences with a blank side unless ``allow_blank``, are UserErrors. ``notes`` gets a line on each
    first line of a table that names columns.
    """
    names = list(languages) or [""]
    notes = [] if notes is None else notes
    rows: Iterator[Sequence[Sentence | None]]
    if len(paths) == max(1, len(languages)) + 1:  # a text file of sources, and one of each language
        if columns:
            raise UserError(f"task.columns=[{','.join(columns)}] is for tables; {paths[0]} is a text of lines")
        rows = _read_aligned(paths, names, allow_blank)
    elif len(paths) == len(names):
        files = zip(paths, names, strict=True)
        rows = zip_longest(*(_read_table(path, name, (), allow_blank, columns, notes) for path, name in files))
    elif len(paths) == 1:
        rows = zip(_read_table(paths[0], "", names, allow_blank, columns, notes))
    else:
        which, expected = "", "a TSV file, or the source's and the translations' text files"
        if len(names) > 1:
            which = f" for {len(names)} languages"
            expected = "a TSV file for each, or the source's text file and one for each, or a single TSV file with the "
            expected += "language in its third column"
        raise UserError(f"[{', '.join(map(str, paths))}]: {len(paths)} files{which}; expected {expected}")
    for row in rows:
        yield from filter(None, row)


def _read_aligned(paths: Sequence[Path], names: Sequence[str], allow_blank: bool) -> Iterator[list[Sentence]]:
    """Read aligned files, the source's first: the sentences of each line, one per language."""
    texts = [(line for _, line in read_lines(path)) for path in paths]
    for line_number, lines in enumerate(zip_longest(*texts), 1):
        if None in lines:
            counts = [
                line_number - (line is None) + sum(1 for _ in text) for line, text in zip(lines, texts, strict=True)
            ]
            for path, count in zip(paths, counts, strict=True):
                if count != counts[0]:
                    raise UserError(
                        f"{path}: has {count:,} lines, but {paths[0]} has {counts[0]:,}; align them by line"
                    )
        blank = [path for path, line in zip(paths, lines, strict=True) if not line.strip()]
        if blank and not allow_blank:
            raise UserError(f"{blank[0]}:{line_number}: the line is blank; remove it from all files, or fill it in")
        source, *translations = lines
        yield [Sentence(source, (translation,), name) for name, translation in zip(names, translations, strict=True)]


def _read_table(
    path: Path, name: str, languages: Sequence[str], allow_blank: bool, columns: Sequence[str], notes: list[str]
) -> Iterator[Sentence | None]:
    """Read a TSV file of one language, or of ``languages``; None for a blank line.

    Its first lines are checked, unless the ``columns`` were named.
    """
    rows = read_text_rows(path, columns)
    first = list(islice(rows, CHECKED_LINES))
    texts = [row for row in first if row is not None]
    if texts and are_column_names(texts[0].cells):
        notes.append(header_note(path, texts[0].cells))
        first.remove(texts[0])
    elif not columns:
        check_columns(texts[1:], ("sentence", "translation"), path, has_further_columns=True)
    for row in chain(first, rows):
        if row is None or not any(row.cells):
            yield None
            continue
        if len(row.cells) < (3 if languages else 2):
            expected = "a sentence, a tab, its translation" + (", a tab and its language" if languages else "")
            tabs, hint = len(row.cells) - 1 or "no", separator_hint(row.line)
            raise UserError(f"{row.where}: {tabs} tab in {quoted(row.line)}; expected {expected}{hint}")
        tag = row.cells[2] if languages else name
        if languages and tag not in languages:
            raise UserError(f"{row.where}: unknown language {tag!r}{suggest(tag, languages)} in {quoted(row.line)}")
        sentence = Sentence(row.cells[0], (row.cells[1],), tag)
        if sentence.is_blank and not allow_blank:
            raise UserError(f"{row.where}: a side of {quoted(row.line)} is blank; remove the line, or fill it in")
        yield sentence


EMPTY_SIDE = "with an empty side"


def drop_blank(sentences: Iterable[Sentence], dropped: Counter[str]) -> Iterator[Sentence]:
    """Yield sentences without a blank side; ``dropped`` counts the others by reason."""
    for sentence in sentences:
        if sentence.is_blank:
            dropped[EMPTY_SIDE] += 1
        else:
            yield sentence


def filter_by_length(
    pairs: Iterable[Pair], dropped: Counter[str], max_length: int | None = None, max_ratio: float | None = None
) -> Iterator[Pair]:
    """Yield pairs without an empty side, a side that is too long, or sides of too different lengths.

    A pair of several references is dropped if any of them is. ``dropped`` counts dropped pairs by their first reason;
    ``max_length`` is the most symbols of a side, ``max_ratio`` of a side per symbol of the other.
    """
    for pair in pairs:
        reasons = (_reason(len(pair.source), len(reference), max_length, max_ratio) for reference in pair.references)
        if reason := next(filter(None, reasons), ""):
            dropped[reason] += 1
        else:
            yield pair


def _reason(source: int, reference: int, max_length: int | None, max_ratio: float | None) -> str:
    """Return why a pair of such lengths is dropped; "" if it is not."""
    shorter, longer = sorted((source, reference))
    if not shorter:
        return EMPTY_SIDE
    if max_length is not None and longer > max_length:
        return f"longer than {max_length} symbols"
    if max_ratio is not None and longer > max_ratio * shorter:
        return f"with a side over {max_ratio:g} times as long as the other"
    return ""


def dropped_note(dropped: Counter[str], total: int) -> str:
    """Return a note on the dropped pairs by reason; "" if there are none.

    >>> dropped_note(Counter({"longer than 5 symbols": 2, "with an empty side": 1}), 1700)
    'left out 3 of 1,700 training pairs: 2 longer than 5 symbols, 1 with an empty side'
    """
    if not dropped.total():
        return ""
    most_first = sorted(dropped.items(), key=lambda item: (-item[1], item[0]))
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in most_first)
    return f"left out {dropped.total():,} of {total:,} training pairs: {reasons}"
