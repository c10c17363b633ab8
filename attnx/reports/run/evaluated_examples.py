"""The examples that a run was tested on, and the errors in each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnx.data.vocabulary import tag_symbol
from attnx.errors import UserError
from attnx.files.bounded_files import read_arrays
from attnx.metrics.nearest_reference import nearest_reference
from attnx.reports.metric_names import COUNTED, MACRO, MICRO, metric_base
from attnx.reports.stats.bootstrap import SAMPLES, Numbers, bootstrap_rates, read_draws
from attnx.runs.layout import MATRICES, PREDICTIONS
from attnx.runs.predictions import parse_edits, read_field, read_symbols, read_table, write_symbols

Row = Mapping[str, str]
DIGEST_LENGTH = 12  # hexadecimal digits
# The columns by which the tests of two runs are equal; what was predicted does not count. Text references identify an
# example without symbols, since tokenizers split the same text differently.
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
    """The examples of a run's test, sorted by what identifies them."""

    tags: NDArray[np.str_]  #: (n,) the language of each; "" without
    lengths: NDArray[np.int64]  #: (n,) source symbols of each, a language's symbol aside
    #: (n, 2) edits between each output and its closest reference, and its symbols; None if they are numbers
    errors: Numbers | None = None
    digest: str = ""  #: equal for equal examples, in whatever order, on every machine; "" without a test
    order: str = ""  #: equal for equal examples in the same order, for which ``resampled`` has the same samples
    resampled: Mapping[str, Numbers] = {}  #: metrics of bootstrap samples

    def count_errors(self, metric: str) -> Numbers:
        """(n, 2) the errors of each example by a rate such as ``per`` or ``wer``, and what they are divided by."""
        assert self.errors is not None, "only symbols have error rates"
        if COUNTED[metric] == SYMBOLS:
            return self.errors
        return np.stack([np.minimum(self.errors[:, 0], 1), np.ones(len(self.errors))], axis=1)


NO_EXAMPLES = EvaluatedExamples(np.array([], dtype=np.str_), np.array([], dtype=np.int64))


def read_examples(folder: Path) -> EvaluatedExamples:
    """Read the test examples of a run or an evaluation; ``NO_EXAMPLES`` without a test.

    Raises:
        UserError: the predictions are malformed.
    """
    if not (folder / PREDICTIONS).is_file():
        return NO_EXAMPLES
    columns, rows, keys = _read_rows(folder)
    order = sorted(range(len(keys)), key=keys.__getitem__)
    tags = np.array([read_field(row.get("tag", "")) for row in rows])[order]
    lengths, errors = np.array([_source_length(row) for row in rows])[order], None
    if "edits" in columns:
        path = str(folder / PREDICTIONS)
        counts = [(parse_edits(row, f"{path}:{n}"), _reference_symbols(row)) for n, row in enumerate(rows, start=2)]
        errors = np.array(counts, dtype=np.float64)[order]
    return EvaluatedExamples(tags, lengths, errors, _digest(sorted(keys)), _digest(keys), read_draws(folder))


def _read_rows(folder: Path) -> tuple[list[str], list[dict[str, str]], list[str]]:
    """The columns of predictions.tsv, the fields of each line, and as text what two runs of one test have in common."""
    columns, rows = read_table(folder / PREDICTIONS)
    if not {"source", "reference"} - {*columns}:  # to a matrix of numbers, known by its name and its true numbers
        arrays = read_arrays(folder / MATRICES, [row["reference"] for row in rows])
        return columns, rows, ["\t".join(_numeric_key(row, arrays[row["reference"]])) for row in rows]
    if missing := {"source", "prediction", "references"} - {*columns}:
        raise UserError(f"{folder / PREDICTIONS}:1: has no column {min(missing)!r}")
    names = [name for name in (TEXT_KEY_COLUMNS if "texts" in columns else KEY_COLUMNS) if name in columns]
    # A test of one language is the same for a run that knows several, whose sources may begin with its symbol.
    if "tag" in names and len({row["tag"] for row in rows}) == 1:
        names.remove("tag")
        sign = write_symbols([tag_symbol(read_field(rows[0]["tag"])), ""])
        return columns, rows, ["\t".join(row[name].removeprefix(sign) for name in names) for row in rows]
    return columns, rows, ["\t".join(row[name] for name in names) for row in rows]


def _numeric_key(row: Row, reference: NDArray[np.float32 | np.float64]) -> tuple[str, str, str]:
    """Sources may differ between runs of one test: a longer lookback says more of the same steps."""
    numbers = reference.astype(np.float32) if reference.dtype == np.float64 else reference  # as older folders have them
    digest = hashlib.sha256(repr(reference.shape).encode() + numbers.tobytes()).hexdigest()
    return row.get("name") or row["source"], digest, row.get("tag", "")


def _digest(keys: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(keys).encode()).hexdigest()[:DIGEST_LENGTH]


def _source_length(row: Row) -> int:
    symbols = row.get("source", "").split()
    return len(symbols) - (symbols[:1] == [tag_symbol(read_field(row.get("tag", "")))])


def _reference_symbols(row: Row) -> int:
    """The number of symbols of the reference closest to the output."""
    references = row["references"].split(" | ")
    if len(references) == 1:
        return len(row["references"].split())
    return len(nearest_reference(read_symbols(row["prediction"]), tuple(map(read_symbols, references)))[1])


def count_by_length(examples: EvaluatedExamples) -> dict[int, LengthErrors]:
    """The errors by source length, shortest first; empty if they are numbers."""
    if examples.errors is None:
        return {}
    counts = {}
    for length in np.unique(examples.lengths).tolist():
        edits, symbols = examples.errors[examples.lengths == length].astype(np.int64).T
        counts[length] = LengthErrors(len(edits), int((edits > 0).sum()), int(edits.sum()), int(symbols.sum()))
    return counts


def sum_lengths(errors: Mapping[int, LengthErrors], ends: tuple[float, float]) -> LengthErrors:
    """The counts of all lengths from the first of two ends to the last."""
    chosen = [counts for length, counts in errors.items() if ends[0] <= length <= ends[1]]
    return LengthErrors(*map(sum, zip(*chosen, strict=True))) if chosen else LengthErrors(0, 0, 0, 0)


def resample_rates(
    tests: Sequence[EvaluatedExamples], metric: str, samples: int = SAMPLES
) -> tuple[Numbers, Numbers] | None:
    """An error rate of runs in percent, and those on the same bootstrap samples of their equal examples.

    ``metric`` may be that of a tag: ``per``, ``wer_macro``, ``per_fra``. The rates are (runs,) and (samples, runs);
    None for a metric that is not counted from predictions.
    """
    base, tags = metric_base(metric, COUNTED), tests[0].tags
    group = metric.removeprefix(base).removeprefix("_")
    mask = tags == group if group not in ("", MACRO, MICRO) else np.full(len(tags), True)
    if not base or tests[0].errors is None or not mask.any():
        return None
    groups = tags[mask].tolist() if group == MACRO else None
    return bootstrap_rates(*(test.count_errors(base)[mask] for test in tests), groups=groups, samples=samples)
