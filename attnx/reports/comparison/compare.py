"""Several runs, or evaluations of runs, side by side: which won, and how surely."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from attnx.errors import UserError
from attnx.files.printable import printable
from attnx.reports.comparison.run_differences import ABSENT, Compared, difference_by_draws, differences_by_examples
from attnx.reports.comparison.shared_examples import Examples, count_errors, error_rates, read_examples, shared_part
from attnx.reports.measure_names import COUNTED, MACRO, TEST, is_higher_better, label, measure_base
from attnx.reports.significant_digits import format_value, format_with_interval
from attnx.reports.stats.bootstrap_file import read_draws
from attnx.reports.stats.lengths import BINS, bin_label, by_length
from attnx.runs.layout import EVALUATIONS
from attnx.runs.predictions import read_run_or_evaluation
from attnx.runs.results_json import Interval
from attnx.runs.run import Run

EXAMPLES = "test_examples"
DIFFERENCES = (
    "last rows: difference and 95 % interval, paired bootstrap over the test; below zero is better than the first, "
    "but for measures of which more is better"
)


def compare(folders: Sequence[Path | str]) -> Table:
    """Lay runs side by side: a column a run, a row a measure, the best of a row in bold.

    Below the test results come the task's error rates by source length, and the differences from the first run in each
    measure of the test, with their 95 % intervals and p-values.

    Runs that were not tested on the same examples are compared on those that all of them share: the rates are counted
    again on these alone, and the caption says how many examples are left out. A measure that cannot be counted again
    is left out, too. Of runs that share nothing the whole tests are shown, and no value is the best.

    A run that cannot be read is left out, with a line on standard error.

    Raises:
        UserError: no folders, or too few of them are readable run folders, or their tasks differ.
    """
    if not folders:
        raise UserError("nothing to compare: name at least one run folder")
    runs = _read(folders)
    _refuse_mixed([one.run for one in runs])
    shared, differ = _shared(runs)
    table = Table(title=_title(shared, differ), title_justify="left", title_style="bold")
    table.add_column("measure")
    for one in runs:
        table.add_column(Text(one.heading), justify="right")
    rates = _rates(runs)
    if differ and shared:
        _add_rates(table, rates, shared)
    for measure in dict.fromkeys(name for one in runs for name in one.run.results):
        of_test = differ and measure.startswith(TEST) and measure != EXAMPLES
        if not (of_test and shared):
            values = [_number(one.run.results.get(measure)) for one in runs]
            intervals = [one.run.intervals.get(measure) for one in runs]
            _add(table, Text(printable(measure)), values, None if of_test else _better(measure), intervals)
    _add_signatures(table, [one.run for one in runs])
    _add_lengths(table, rates, shared or [one.test for one in runs])
    differences = _add_differences(table, runs, rates, differ)
    said = [*_left_out(runs, shared, rates)] if differ else []
    table.caption_justify = "left"
    table.caption = Text("\n".join([*([DIFFERENCES] if differences else []), *said])) if differences or said else None
    return table


def _read(folders: Sequence[Path | str]) -> list[Compared]:
    """The runs that can be read."""
    found, unread = [], []
    for folder in folders:
        try:
            run = read_run_or_evaluation(folder)
            found.append(Compared(run, run.name, read_examples(run.path), read_draws(run.path)))
        except UserError as error:
            unread.append(error)
    if unread and len(found) < 2:
        raise unread[0]
    for refusal in unread:
        print(f"attnx: left out: {printable(str(refusal))}", file=sys.stderr)
    unique = len({one.heading for one in found}) == len(found)
    return [one._replace(heading=printable(one.run.name if unique else _place(one.run))) for one in found]


def _place(run: Run) -> str:
    """The folder's name; of an evaluation behind that of its run."""
    *_, above, between, name = ("", "", *run.path.resolve().parts)
    return f"{above}/{name}" if between == EVALUATIONS else name


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
    """The task and the main measure of a run, or of the run that was evaluated, as far as they are known.

    A mean over tags is of the measure that a run without tags has.
    """
    run = run.evaluated_run
    task, measure = run.config.get("task"), run.monitor.removesuffix(f"_{MACRO}")
    known = {"task": task.get("name") if isinstance(task, dict) else task, "main measure": measure}
    return {what: str(value) for what, value in known.items() if value}


def _shared(runs: Sequence[Compared]) -> tuple[list[Examples | None], bool]:
    """The test examples that all tested runs share, and whether any of them was tested on others, too.

    Returns:
        of each run the shared part of its test, None of a run that was not tested; empty if nothing is shared.
    """
    tests = [one.test for one in runs if one.test is not None]
    if len(tests) < 2:
        return [], False
    part = iter(shared_part(tests))
    cut = [None if one.test is None else next(part) for one in runs]
    differ = any(test.counts != tests[0].counts for test in tests)
    return (cut if any(one is not None and one.identities for one in cut) else []), differ


def _title(shared: Sequence[Examples | None], differ: bool) -> str:
    size = max((len(test.identities) for test in shared if test is not None), default=0)
    return f"runs compared on the test examples that all share: {size:,}" if differ and size else "runs compared"


def _rates(runs: Sequence[Compared]) -> list[str]:
    """The error rates that can be counted again on any part of a test: those that all results have."""
    tested = [one for one in runs if one.test is not None and one.test.predictions]
    bases = [{measure_base(key, COUNTED) for key in one.run.results if key.startswith(TEST)} for one in tested]
    return [name for name in COUNTED if bases and all(name in some for some in bases)]


def _left_out(runs: Sequence[Compared], shared: Sequence[Examples | None], rates: Sequence[str]) -> Iterator[str]:
    """Lines on what tests that are not the same leave out."""
    if not shared:
        yield "the runs share no test example: their results are of different tests and say nothing of which is better"
        return
    left = []
    for one, test in zip(runs, shared, strict=True):
        if one.test is not None and test is not None and (more := len(one.test.identities) - len(test.identities)):
            left.append(f"{more:,} of the {len(one.test.identities):,} test examples of {one.heading}")
    if left:
        yield f"not shared: {', '.join(left)}; results of the whole tests are of different tests, see each README.md"
    keys = dict.fromkeys(key for one in runs for key in one.run.results if key.startswith(TEST) and key != EXAMPLES)
    if lost := [key for key in keys if measure_base(key, COUNTED) not in rates]:
        yield (
            f"not counted again on what is shared: {', '.join(map(printable, lost))}; to compare these, evaluate all "
            "runs on one file: attnx evaluate RUN task.test=FILE"
        )


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) else None


def _better(measure: str) -> Callable[[Sequence[float]], float] | None:
    more = is_higher_better(measure)
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


def _add_rates(table: Table, rates: Sequence[str], shared: Sequence[Examples | None]) -> None:
    """Rows of the error rates that were counted again on the examples that all share."""
    for rate in rates:
        again = [{} if test is None else error_rates(test, rate) for test in shared]
        for name in dict.fromkeys(name for found in again for name in found):
            cells = [found.get(name) for found in again]
            values = [None if cell is None else cell.percent for cell in cells]
            intervals = [None if cell is None else cell.interval for cell in cells]
            _add(table, Text(printable(TEST + name)), values, min, intervals)


def _add_lengths(table: Table, rates: Sequence[str], tests: Sequence[Examples | None]) -> None:
    binned = [by_length(test.predictions) if test is not None else {} for test in tests]
    for measure in rates:
        table.add_section()
        for length in (bin_label(BINS, number) for number in range(len(BINS) + 1)):
            counts = [count_errors(of[length], measure).sum(0) if length in of else None for of in binned]
            if any(count is not None for count in counts):
                values = [None if count is None else float(100 * count[0] / max(count[1], 1)) for count in counts]
                name = Text(f"{label(TEST + measure)}, length {length}")
                _add(table, name, values, min, [None] * len(values))


def _add_differences(table: Table, runs: Sequence[Compared], rates: Sequence[str], differ: bool) -> bool:
    """How surely each run differs from the first: rates by the examples they share, the rest by what was kept.

    Returns:
        whether there is anything to tell.
    """
    first, *others = runs
    rows: dict[str, list[str]] = {}
    for rate in rates:
        if differ or TEST + rate in first.run.results:
            found = [differences_by_examples(first, other, rate) for other in others]
            for name in sorted({name for cells in found for name in cells}):
                rows[label(TEST + name)] = [cells.get(name, ABSENT) for cells in found]
    for measure in first.run.results:
        if (more := is_higher_better(measure)) is not None and measure.removeprefix(TEST) not in rates:
            name = label(measure) + (", more is better" if more else "")
            rows.setdefault(name, [difference_by_draws(measure, first, other) for other in others])
    rows = {name: cells for name, cells in rows.items() if any(cell != ABSENT for cell in cells)}
    if rows:
        table.add_section()
    for name, cells in rows.items():
        table.add_row(Text(printable(f"{name} against the first")), ABSENT, *cells)
    return bool(rows)
