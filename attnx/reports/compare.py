"""Several runs, or evaluations of runs, side by side: which won, and how surely."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from attnx.errors import UserError
from attnx.read_run import Run
from attnx.reports.folder import read_outcome, wrote_symbols
from attnx.reports.lengths import BINS, Row, bin_label, error_by_length
from attnx.reports.significance import Measure
from attnx.reports.significance import paired_bootstrap as paired_bootstrap
from attnx.run_format import EVALUATIONS

ABSENT = "-"
MEASURES: tuple[Measure, ...] = ("per", "wer")
LESS_IS_BETTER = ("per", "wer", "cer", "ter", "error_rate", "error", "loss", "seconds", "memory_mb")
MORE_IS_BETTER = ("per_second", "accuracy", "bleu", "chrf")


def compare(folders: Sequence[Path | str]) -> Table:
    """Lay runs side by side: a column a run, a row a measure, the best of a row in bold.

    Below the test results come PER and WER by source length, and the differences in both from the first run, with
    their 95 % intervals and p-values, for the runs that kept their predictions, if these are symbols.

    Raises:
        UserError: no folders, or one of them is not a readable run folder.
    """
    if not folders:
        raise UserError("nothing to compare: name at least one run folder")
    runs = [read_outcome(folder) for folder in folders]
    table = Table(title="runs compared", title_justify="left", title_style="bold")
    table.add_column("measure")
    for heading in _headings(runs):
        table.add_column(heading, justify="right")
    for measure in dict.fromkeys(name for run in runs for name in run.results):
        _add(table, Text(measure), [_number(run.results.get(measure)) for run in runs], _better(measure))
    _add_lengths(table, runs)
    if len(runs) > 1 and any(wrote_symbols(run.path) for run in runs):
        table.add_section()
        table.caption = "last rows: points and 95 % interval, paired bootstrap; below zero is better than the first"
        for measure in MEASURES:
            against = (_against(runs[0], run, measure) for run in runs[1:])
            table.add_row(f"{measure.upper()} against the first", ABSENT, *against)
    return table


def _headings(runs: Sequence[Run]) -> list[Text]:
    names = [run.name for run in runs]
    unique = len(set(names)) == len(names)
    return [Text(run.name if unique else _place(run)) for run in runs]


def _place(run: Run) -> str:
    """The folder's name; of an evaluation behind that of its run."""
    *_, above, between, name = ("", "", *run.path.resolve().parts)
    return f"{above}/{name}" if between == EVALUATIONS else name


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) else None


def _better(measure: str) -> Callable[[Sequence[float]], float] | None:
    if measure.endswith(MORE_IS_BETTER):
        return max
    return min if measure.endswith(LESS_IS_BETTER) else None


def _shown(value: float | None) -> str:
    if value is None:
        return ABSENT
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _add(
    table: Table,
    label: Text,
    values: Sequence[float | None],
    better: Callable[[Sequence[float]], float] | None,
) -> None:
    known = [value for value in values if value is not None]
    best = _shown(better(known)) if better and len(known) > 1 else None
    shown = [_shown(value) for value in values]
    table.add_row(label, *(Text(text, "bold" if text == best else "") for text in shown))


def _add_lengths(table: Table, runs: Sequence[Run]) -> None:
    rows = [_by_label(run) for run in runs]
    labels = [bin_label(BINS, number) for number in range(len(BINS) + 1)]
    for measure in MEASURES:
        table.add_section()
        for label in labels:
            found = [row.get(label) for row in rows]
            if any(found):
                values = [None if row is None else float(getattr(row, measure)) for row in found]
                _add(table, Text(f"{measure.upper()}, length {label}"), values, min)


def _by_label(run: Run) -> dict[str, Row]:
    return {row.label: row for row in error_by_length(run.path)} if wrote_symbols(run.path) else {}


def _against(first: Run, other: Run, measure: Measure) -> str:
    if not all(wrote_symbols(run.path) for run in (first, other)):
        return ABSENT
    try:
        found = paired_bootstrap(other.path, first.path, measure=measure)
    except UserError:  # the files were read for the rows above, so all that can be wrong is that nothing is shared
        return "no shared word"
    return f"{found.difference:+.2f} ({found.low:+.2f} to {found.high:+.2f}), p {found.p:.3f}"
