"""Several runs, or evaluations of runs, side by side: which won, and how surely."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from attnx.errors import UserError
from attnx.printable import printable
from attnx.read_run import Interval, Run, mapping
from attnx.reports.folder import read_outcome, wrote_symbols
from attnx.reports.lengths import BINS, Row, bin_label, error_by_length
from attnx.reports.measure_names import label, more_is_better
from attnx.reports.significance import Difference, Measure, judged
from attnx.reports.significance import paired_bootstrap as paired_bootstrap
from attnx.reports.significant_digits import format_difference, format_value, format_with_interval
from attnx.reports.sweep.tested import Tested, read_tested
from attnx.run_format import CONFIG, EVALUATIONS, RUN

ABSENT = "-"
MEASURES: tuple[Measure, ...] = ("per", "wer")
OF_ANY = {"per": "symbols wrong", "wer": "outputs wrong"}  # what they are called where no phones are written
RATES = {"per": "symbol_error_rate", "wer": "sequence_error_rate"}  # as errors by length call them
COUNTED = {"test_per", "test_wer"}  # what can be counted again of the words that two runs share
DIFFERENCES = (
    "last rows: difference and 95 % interval, paired bootstrap over the test; below zero is better than the first, "
    "but for measures of which more is better"
)


def compare(folders: Sequence[Path | str]) -> Table:
    """Lay runs side by side: a column a run, a row a measure, the best of a row in bold.

    Below the test results come PER and WER by source length, for runs that wrote symbols, and the differences from the
    first run in each measure of the test, with their 95 % intervals and p-values, for runs tested on the same examples.

    A run that cannot be read is left out, with a line on standard error.

    Raises:
        UserError: no folders, or too few of them are readable run folders, or their tasks differ.
    """
    if not folders:
        raise UserError("nothing to compare: name at least one run folder")
    runs, lengths = _read(folders)
    _refuse_mixed(runs)
    table = Table(title="runs compared", title_justify="left", title_style="bold")
    table.add_column("measure")
    for heading in _headings(runs):
        table.add_column(heading, justify="right")
    for measure in dict.fromkeys(name for run in runs for name in run.results):
        values = [_number(run.results.get(measure)) for run in runs]
        intervals = [run.intervals.get(measure) for run in runs]
        _add(table, Text(printable(measure)), values, _better(measure), intervals)
    _add_signatures(table, runs)
    _add_lengths(table, runs, lengths)
    _add_differences(table, runs)
    return table


def _read(folders: Sequence[Path | str]) -> tuple[list[Run], list[dict[str, Row]]]:
    """The runs that can be read, and the error rates of each by length."""
    runs, lengths, unread = [], [], []
    for folder in folders:
        try:
            run = read_outcome(folder)
            lengths.append(_by_label(run))
            runs.append(run)
        except UserError as error:
            unread.append(error)
    if unread and len(runs) < 2:
        raise unread[0]
    for refusal in unread:
        print(f"attnx: left out: {printable(str(refusal))}", file=sys.stderr)
    return runs, lengths


def _refuse_mixed(runs: Sequence[Run]) -> None:
    """Refuse what a report keeps apart: runs of different tasks, or with different main measures."""
    known: dict[str, tuple[str, Path]] = {}
    for run in runs:
        for what, value in _judgment(run).items():
            held, first = known.setdefault(what, (value, run.path))
            if value != held:
                raise UserError(
                    f"{run.path}: its {what} is {value}, that of {first} is {held}; such runs are not compared with "
                    "each other; attnx report shows them apart"
                )


def _judgment(run: Run) -> dict[str, str]:
    """The task and the main measure of a run, or of the run that was evaluated, as far as they are known."""
    folder = run.path if (run.path / RUN).is_file() else run.path.resolve().parent.parent
    task, monitor = mapping(folder / CONFIG).get("task"), mapping(folder / RUN).get("monitor")
    known = {"task": task.get("name") if isinstance(task, dict) else task, "main measure": monitor}
    return {what: str(value) for what, value in known.items() if value}


def _headings(runs: Sequence[Run]) -> list[Text]:
    names = [run.name for run in runs]
    unique = len(set(names)) == len(names)
    return [Text(printable(run.name if unique else _place(run))) for run in runs]


def _place(run: Run) -> str:
    """The folder's name; of an evaluation behind that of its run."""
    *_, above, between, name = ("", "", *run.path.resolve().parts)
    return f"{above}/{name}" if between == EVALUATIONS else name


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) else None


def _better(measure: str) -> Callable[[Sequence[float]], float] | None:
    more = more_is_better(measure)
    return None if more is None else max if more else min


def _shown(value: float | None, interval: Interval | None) -> str:
    if value is None or interval is None:
        return format_value(value)
    return format_with_interval(value, *interval)


def _add(
    table: Table,
    label: Text,
    values: Sequence[float | None],
    better: Callable[[Sequence[float]], float] | None,
    intervals: Sequence[Interval | None],
) -> None:
    """A row of the table; equal texts are equally good."""
    known = [value for value in values if value is not None]
    best = format_value(better(known)) if better and len(known) > 1 else None
    cells = zip(values, intervals, strict=True)
    table.add_row(
        label,
        *(Text(_shown(value, between), "bold" if format_value(value) == best else "") for value, between in cells),
    )


def _add_signatures(table: Table, runs: Sequence[Run]) -> None:
    """What exactly was computed; scores with unlike signatures cannot be compared."""
    for name in dict.fromkeys(name for run in runs for name in run.signatures):
        told = [run.signatures.get(name, ABSENT) for run in runs]
        unlike = ": unlike, so not to be compared" if len(set(told) - {ABSENT}) > 1 else ""
        table.add_row(Text(printable(f"{label(name)}, signature{unlike}")), *(Text(printable(one)) for one in told))


def _add_lengths(table: Table, runs: Sequence[Run], rows: Sequence[Mapping[str, Row]]) -> None:
    bins = [bin_label(BINS, number) for number in range(len(BINS) + 1)]
    for measure in MEASURES:
        name = _name(measure, runs)
        table.add_section()
        for length in bins:
            found = [row.get(length) for row in rows]
            if any(found):
                values = [None if row is None else getattr(row, RATES[measure]) for row in found]
                _add(table, Text(f"{name}, length {length}"), values, min, [None] * len(values))


def _name(measure: Measure, runs: Sequence[Run]) -> str:
    return measure.upper() if any(COUNTED & run.results.keys() for run in runs) else OF_ANY[measure]


def _by_label(run: Run) -> dict[str, Row]:
    return {row.length: row for row in error_by_length(run.path)} if wrote_symbols(run.path) else {}


def _add_differences(table: Table, runs: Sequence[Run]) -> None:
    """How surely each run differs from the first: PER and WER by the words they share, the rest by what was kept."""
    first, *others = [(run, read_tested(run.path)) for run in runs]
    rows: dict[str, list[str]] = {}
    for measure in first[0].results:
        if (more := more_is_better(measure)) is not None and measure not in COUNTED:
            name = label(measure) + (", more is better" if more else "")
            rows[name] = [_by_draws(measure, *first, *other) for other in others]
    rows = {name: found for name, found in rows.items() if _told_any(found)}
    if not rows or COUNTED & first[0].results.keys():
        counted = {_name(each, runs): [_by_words(first[0], run, each) for run, _ in others] for each in MEASURES}
        rows = {name: found for name, found in counted.items() if _told_any(found)} | rows
    if rows:
        table.add_section()
        table.caption = DIFFERENCES
    for name, found in rows.items():
        table.add_row(Text(printable(f"{name} against the first")), ABSENT, *found)


def _told_any(found: Sequence[str]) -> bool:
    return any(one != ABSENT for one in found)


def _by_words(first: Run, other: Run, measure: Measure) -> str:
    if not all(wrote_symbols(run.path) for run in (first, other)):
        return ABSENT
    try:
        return _told(paired_bootstrap(other.path, first.path, measure=measure))
    except UserError:  # the files were read for the rows above, so all that can be wrong is that nothing is shared
        return "no shared example"


def _by_draws(measure: str, first: Run, its: Tested | None, other: Run, others: Tested | None) -> str:
    """By what was measured of the same draws when the runs were tested; nothing to tell of what is the same."""
    if its is None or others is None or its.order != others.order:
        return ABSENT
    if measure not in its.drawn or measure not in others.drawn:
        return ABSENT
    apart, drawn = other.results[measure] - first.results[measure], others.drawn[measure] - its.drawn[measure]
    return _told(judged(apart, drawn)) if drawn.any() else ABSENT


def _told(found: Difference) -> str:
    return f"{format_difference(found.difference, found.low, found.high)}, p {found.p:.3f}"
