"""Reading tables of inflection, as in the SIGMORPHON shared tasks: a lemma, its features and the form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from attnx.data.examples import Pair, Symbols, merge_references
from attnx.data.readers.columns import CHECKED_LINES, MIN_SHARE, TableRow, header_note, read_text_rows
from attnx.data.readers.lines import are_column_names
from attnx.errors import UserError
from attnx.files.printable import quoted

Bundles = Literal["split", "composite", "whole"]
FIELDS: Final = ("lemma", "features", "form")
UNIMORPH: Final = ("1", "3", "2")  # the columns of the lemma, the features and the form
# Features, not a word: `V;PST`, `N`, `N;ACC(PL)`, `pos=N,case=NOM`.
BUNDLE: Final = re.compile(r"(?=.*[A-Z])(?:[^a-z\s]+|[^\s;=]*[;=]\S*)")


def split_features(text: str, bundles: Bundles) -> Symbols:
    """Split a bundle of features into source symbols, in brackets, so that none equals a letter.

    >>> split_features("N;ACC(PL;PSS(2,SG))", "split")
    ('[N]', '[ACC]', '[PL]', '[PSS]', '[2]', '[SG]')
    >>> split_features("N;ACC(PL;PSS(2,SG))", "composite")
    ('[N]', '[ACC(PL;PSS(2,SG))]')
    >>> split_features("V;PST", "whole")
    ('[V;PST]',)
    """
    if bundles == "whole":
        features = [text]
    elif bundles == "split":
        features = re.split("[;,()]", text)
    else:
        features = []
        for part in text.split(";"):
            if features and features[-1].count("(") > features[-1].count(")"):
                features[-1] += f";{part}"
            else:
                features.append(part)
    return tuple(f"[{feature.strip()}]" for feature in features if feature.strip())


def inflection_source(lemma: str, features: str, bundles: Bundles) -> Symbols:
    """The source symbols: the features, then the letters of the lemma; a UserError if there are none of either."""
    symbols = split_features(features, bundles)
    if not lemma or not symbols:
        raise UserError(f"the {'features are' if lemma else 'lemma is'} empty")
    return (*symbols, *lemma)


def read_inflections(path: Path, columns: Sequence[str], bundles: Bundles, notes: list[str]) -> list[Pair]:
    """Read a UTF-8 table with tabs, plain or ``.gz``: a pair for each lemma with features, its forms the references.

    ``columns`` are of the lemma, its features and the form, by number from 1, or by name in the first line, which is
    then noted. Blank lines are skipped.

    Raises:
        UserError: ``file:line: problem`` for a bad line, or for a first one whose form looks like features; ``file:
            problem`` for a bad file.
    """
    rows = [row for row in read_text_rows(path, columns) if row is not None]
    if rows and are_column_names(rows[0].cells):
        notes.append(header_note(path, rows.pop(0).cells))
    _check_order(rows[:CHECKED_LINES], columns)
    entries = []
    for row in rows:
        lemma, features, form = row.cells
        try:
            source = inflection_source(lemma, features, bundles)
        except UserError as error:
            raise UserError(f"{row.where}: {error} in {quoted(row.line)}") from None
        if not form:
            raise UserError(f"{row.where}: the form is empty in {quoted(row.line)}")
        entries.append((source, tuple(form)))
    if not entries:
        raise UserError(f"{path}: holds no forms; expected lines of a lemma, its form and its features")
    return merge_references(entries)


def _check_order(rows: Sequence[TableRow], columns: Sequence[str]) -> None:
    """Refuse lemmas or forms that look like features beside features that look like words."""
    lemma, features, form = (
        sum(bool(BUNDLE.fullmatch(row.cells[place])) for row in rows) >= MIN_SHARE * len(rows) for place in range(3)
    )
    if not rows or features or not (lemma or form):
        return
    place, order = (2, (0, 2, 1)) if form else (0, (1, 0, 2))
    cells = rows[0].cells
    raise UserError(
        f"{rows[0].where}: the {FIELDS[place]} {quoted(cells[place])} looks like features, and the features "
        f"{quoted(cells[1])} like a word; name the columns of the lemma, the features and the form: "
        f"task.columns=[{','.join(columns[index] for index in order)}]"
    )
