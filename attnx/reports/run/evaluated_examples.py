"""The examples that a run was tested on, and its errors by source length."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attnx.data.vocabulary import tag_symbol
from attnx.errors import UserError
from attnx.files.bounded_files import read_arrays
from attnx.metrics.nearest_reference import nearest_reference
from attnx.reports.stats.bootstrap import Numbers, read_draws
from attnx.runs.layout import MATRICES, PREDICTIONS
from attnx.runs.predictions import parse_edits, read_field, read_symbols, read_table, write_symbols

Row = Mapping[str, str]
DIGEST_LENGTH = 12  # hexadecimal digits
# The columns by which the tests of two runs are equal; what was predicted does not count. Text references identify an
# example without symbols, since tokenizers split the same text differently; an identity stands for a source.
KEY_COLUMNS, TEXT_KEY_COLUMNS = ("source", "references", "tag", "name"), ("texts", "tag", "name")
SYMBOLS = "symbols"


class LengthErrors(NamedTuple):
    """Counts of the test examples of a source length: all, the wrong ones, their edits, and reference symbols."""

    examples: int
    wrong: int
    edits: int
    symbols: int

    def rate(self, counted: str) -> float:
        """The error rate in percent of ``symbols`` or of ``sequences``."""
        wrong, total = (self.edits, self.symbols) if counted == SYMBOLS else (self.wrong, self.examples)
        return 100 * wrong / max(total, 1)


class EvaluatedExamples(NamedTuple):
    """The examples of a run's test, and how it did on them; without a test there is none of it."""

    num_examples: int = 0
    digest: str = ""  #: equal for equal examples, in whatever order, on every machine; "" without a test
    order: str = ""  #: equal for equal examples in the same order, for which ``resampled`` has the same samples
    length_errors: Mapping[int, LengthErrors] = {}  #: by source length, shortest first; empty if outputs are numbers
    resampled: Mapping[str, Numbers] = {}  #: (SAMPLES,) each metric of the test on bootstrap samples of it


def read_examples(folder: Path) -> EvaluatedExamples:
    """Read the test examples of a run or an evaluation.

    Raises:
        UserError: the predictions are malformed.
    """
    if not (folder / PREDICTIONS).is_file():
        return EvaluatedExamples()
    columns, rows = read_table(folder / PREDICTIONS)
    keys = _keys(folder, columns, [{**row, "source": row.get("identity") or row.get("source", "")} for row in rows])
    errors = _count_by_length(rows, folder / PREDICTIONS) if "edits" in columns else {}
    return EvaluatedExamples(len(rows), _digest(sorted(keys)), _digest(keys), errors, read_draws(folder))


def _keys(folder: Path, columns: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """What two runs of one test have in common in each line of predictions.tsv, as text."""
    if not {"source", "reference"} - {*columns}:  # to a matrix of numbers, known by its name and its true numbers
        arrays = read_arrays(folder / MATRICES, [row["reference"] for row in rows])
        keys = []
        for row in rows:  # without the source, which may differ: a longer lookback says more of the same steps
            numbers = arrays[row["reference"]].astype(np.float32)
            digest = hashlib.sha256(repr(numbers.shape).encode() + numbers.tobytes()).hexdigest()
            keys.append("\t".join([row.get("name") or row["source"], digest, row.get("tag", "")]))
        return keys
    if missing := {"source", "prediction", "references"} - {*columns}:
        raise UserError(f"{folder / PREDICTIONS}:1: has no column {min(missing)!r}")
    names = [name for name in (TEXT_KEY_COLUMNS if "texts" in columns else KEY_COLUMNS) if name in columns]
    # A test of one language is the same for a run that knows several, whose sources may begin with its symbol.
    if "tag" in names and len({row["tag"] for row in rows}) == 1:
        names.remove("tag")
        sign = write_symbols([tag_symbol(read_field(rows[0]["tag"])), ""])
        return ["\t".join(row[name].removeprefix(sign) for name in names) for row in rows]
    return ["\t".join(row[name] for name in names) for row in rows]


def _digest(keys: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(keys).encode()).hexdigest()[:DIGEST_LENGTH]


def _count_by_length(rows: Iterable[Row], path: Path) -> dict[int, LengthErrors]:
    by_length: dict[int, list[LengthErrors]] = {}
    for line, row in enumerate(rows, start=2):
        edits = parse_edits(row, f"{path}:{line}")
        references = row["references"].split(" | ")
        num_symbols = len(row["references"].split())
        if len(references) > 1:  # of the one closest to the output
            output = read_symbols(row["prediction"])
            num_symbols = len(nearest_reference(output, tuple(map(read_symbols, references)))[1])
        source = row.get("source", "").split()
        length = len(source) - (source[:1] == [tag_symbol(read_field(row.get("tag", "")))])
        by_length.setdefault(length, []).append(LengthErrors(1, int(edits > 0), edits, num_symbols))
    return {length: _add_up(by_length[length]) for length in sorted(by_length)}


def sum_lengths(errors: Mapping[int, LengthErrors], ends: tuple[float, float]) -> LengthErrors:
    """The counts of all lengths from the first of two ends to the last."""
    chosen = [counts for length, counts in errors.items() if ends[0] <= length <= ends[1]]
    return _add_up(chosen) if chosen else LengthErrors(0, 0, 0, 0)


def _add_up(counts: Iterable[LengthErrors]) -> LengthErrors:
    return LengthErrors(*map(sum, zip(*counts, strict=True)))
