"""Compares runs, or evaluations of runs, in a table: the best value of each measure, and tests of the differences."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from attnx.errors import UserError
from attnx.files.printable import printable
from attnx.reports.comparison.run_differences import ABSENT, ComparedRun, difference_by_draws, differences_by_examples
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
    "last rows: difference from the first run with its 95 % interval (paired bootstrap over the test); below zero is "
    "better, unless higher is better"
)


def compare(folders: Sequence[Path | str]) -> Table:
    """Compare runs: a column per run, a row per measure, the best of a row in bold.

    Below the test results are the error rates by source length, and the differences from the first run in each test
    measure, with 95 % intervals and p-values.

    Runs tested on different examples are compared on the shared ones: the rates are computed on these, and the caption
    counts the examples left out. A measure that cannot be computed on them is left out, too. If no example is shared,
    the complete tests are shown, and no value is the best.

    A run that cannot be read is left out, with a line on standard error.

    Raises:
        UserError: there is no folder, too few are readable run folders, or their tasks differ.
    """
    if not folders:
        raise UserError("nothing to compare: name at least one run folder")
    runs = _read(folders)
    _refuse_mixed([item.run for item in runs])
    shared, differ = _shared_tests(runs)
    table = Table(title=_title(shared, differ), title_justify="left", title_style="bold")
    table.add_column("measure")
    for item in runs:
        table.add_column(Text(item.heading), justify="right")
    rates = _recomputable_rates(runs)
    if differ and shared:
        _add_rates(table, rates, shared)
    _add_results(table, runs, shared, differ)
    _add_signatures(table, [item.run for item in runs])
    _add_lengths(table, rates, shared or [item.test for item in runs])
    has_differences = _add_differences(table, runs, rates, differ)
    notes = [*([DIFFERENCES] if has_differences else []), *(_omissions(runs, shared, rates) if differ else [])]
    table.caption_justify, table.caption = "left", Text("\n".join(notes)) if notes else None
    return table


def _read(folders: Sequence[Path | str]) -> list[ComparedRun]:
    """The runs that can be read."""
    items, errors = [], []
    for folder in folders:
        try:
            run = read_run_or_evaluation(folder)
            items.append(ComparedRun(run, run.name, read_examples(run.path), read_draws(run.path)))
        except UserError as error:
            errors.append(error)
    if errors and len(items) < 2:
        raise errors[0]
    for refusal in errors:
        print(f"attnx: left out: {printable(str(refusal))}", file=sys.stderr)
    has_unique_names = len({item.heading for item in items}) == len(items)
    return [
        item._replace(heading=printable(item.run.name if has_unique_names else _folder_name(item.run)))
        for item in items
    ]


def _folder_name(run: Run) -> str:
    """The name of the folder; of an evaluation ``RUN/NAME``."""
    *_, grandparent, parent, name = ("", "", *run.path.resolve().parts)
    return f"{grandparent}/{name}" if parent == EVALUATIONS else name


def _refuse_mixed(runs: Sequence[Run]) -> None:
    """Refuse runs of different tasks, or with different main measures."""
    values: dict[str, tuple[str, Path]] = {}
    for run in runs:
        for name, value in _task_and_measure(run).items():
            expected, first = values.setdefault(name, (value, run.path))
            if value != expected:
                raise UserError(
                    f"{run.path}: its {name} is {value}, that of {first} is {expected}; such runs cannot be compared; "
                    "attnx report shows them separately"
                )


def _task_and_measure(run: Run) -> dict[str, str]:
    """The task and the main measure of a run, or of the evaluated run, as far as they are known.

    The mean over tags counts as the measure itself.
    """
    run = run.evaluated_run
    task, measure = run.config.get("task"), run.monitor.removesuffix(f"_{MACRO}")
    values = {"task": task.get("name") if isinstance(task, dict) else task, "main measure": measure}
    return {name: str(value) for name, value in values.items() if value}


def _shared_tests(runs: Sequence[ComparedRun]) -> tuple[list[Examples | None], bool]:
    """The test examples that all tested runs share, and whether their tests differ.

    Returns:
        the shared part of each run's test, None for a run without a test; empty if nothing is shared.
    """
    tests = [item.test for item in runs if item.test is not None]
    if len(tests) < 2:
        return [], False
    parts = iter(shared_part(tests))
    shared = [None if item.test is None else next(parts) for item in runs]
    differ = any(test.counts != tests[0].counts for test in tests)
    return (shared if any(test is not None and test.identities for test in shared) else []), differ


def _title(shared: Sequence[Examples | None], differ: bool) -> str:
    size = max((len(test.identities) for test in shared if test is not None), default=0)
    return f"runs compared on the test examples that all share: {size:,}" if differ and size else "runs compared"


def _recomputable_rates(runs: Sequence[ComparedRun]) -> list[str]:
    """The error rates that all results have; they can be computed on any part of a test."""
    tested = [item for item in runs if item.test is not None and item.test.predictions]
    bases = [{measure_base(key, COUNTED) for key in item.run.results if key.startswith(TEST)} for item in tested]
    return [name for name in COUNTED if bases and all(name in names for names in bases)]


def _omissions(runs: Sequence[ComparedRun], shared: Sequence[Examples | None], rates: Sequence[str]) -> Iterator[str]:
    """Lines on the examples and measures that are left out because the tests differ."""
    if not shared:
        yield "the runs share no test example: their results are of different tests, so no run can be called better"
        return
    counts = []
    for item, test in zip(runs, shared, strict=True):
        if item.test is not None and test is not None and (count := len(item.test.identities) - len(test.identities)):
            counts.append(f"{count:,} of the {len(item.test.identities):,} test examples of {item.heading}")
    if counts:
        yield f"not shared: {', '.join(counts)}; each README.md has the results of the complete test"
    keys = dict.fromkeys(key for item in runs for key in item.run.results if key.startswith(TEST) and key != EXAMPLES)
    if missing := [key for key in keys if measure_base(key, COUNTED) not in rates]:
        yield (
            f"not computed on the shared examples: {', '.join(map(printable, missing))}; to compare these, evaluate "
            "all runs on one file: attnx evaluate RUN task.test=FILE"
        )


def _add_results(table: Table, runs: Sequence[ComparedRun], shared: Sequence[Examples | None], differ: bool) -> None:
    """Rows of results.json; if the tests differ, test measures only where no example is shared, and none is best."""
    for measure in dict.fromkeys(name for item in runs for name in item.run.results):
        is_incomparable = differ and measure.startswith(TEST) and measure != EXAMPLES
        if not (is_incomparable and shared):
            values = [_number(item.run.results.get(measure)) for item in runs]
            intervals = [item.run.intervals.get(measure) for item in runs]
            _add_row(table, Text(printable(measure)), values, None if is_incomparable else _best_of(measure), intervals)


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) else None


def _best_of(measure: str) -> Callable[[Sequence[float]], float] | None:
    """Whether the highest or the lowest value is best; None if neither is."""
    is_higher = is_higher_better(measure)
    return None if is_higher is None else max if is_higher else min


def _format_cell(value: float | None, interval: Interval | None) -> str:
    if value is None or interval is None:
        return format_value(value)
    return format_with_interval(value, *interval)


def _add_row(
    table: Table,
    label: Text,
    values: Sequence[float | None],
    best_of: Callable[[Sequence[float]], float] | None,
    intervals: Sequence[Interval | None],
) -> None:
    """Add a row; equal texts are equally good."""
    numbers = [value for value in values if value is not None]
    best = format_value(best_of(numbers)) if best_of and len(numbers) > 1 else None
    cells = zip(values, intervals, strict=True)
    table.add_row(
        label,
        *(
            Text(_format_cell(value, interval), "bold" if format_value(value) == best else "")
            for value, interval in cells
        ),
    )


def _add_signatures(table: Table, runs: Sequence[Run]) -> None:
    """The exact definition of each metric; scores with different signatures cannot be compared."""
    for name in dict.fromkeys(name for run in runs for name in run.signatures):
        signatures = [run.signatures.get(name, ABSENT) for run in runs]
        warning = ": different, so not comparable" if len(set(signatures) - {ABSENT}) > 1 else ""
        heading = Text(printable(f"{label(name)}, signature{warning}"))
        table.add_row(heading, *(Text(printable(signature)) for signature in signatures))


def _add_rates(table: Table, rates: Sequence[str], shared: Sequence[Examples | None]) -> None:
    """Rows of the error rates on the shared examples."""
    for rate in rates:
        measured = [{} if test is None else error_rates(test, rate) for test in shared]
        for name in dict.fromkeys(name for by_name in measured for name in by_name):
            cells = [by_name.get(name) for by_name in measured]
            values = [None if cell is None else cell.percent for cell in cells]
            intervals = [None if cell is None else cell.interval for cell in cells]
            _add_row(table, Text(printable(TEST + name)), values, min, intervals)


def _add_lengths(table: Table, rates: Sequence[str], tests: Sequence[Examples | None]) -> None:
    binned = [by_length(test.predictions) if test is not None else {} for test in tests]
    for measure in rates:
        table.add_section()
        for length in (bin_label(BINS, index) for index in range(len(BINS) + 1)):
            counts = [count_errors(bins[length], measure).sum(0) if length in bins else None for bins in binned]
            if any(count is not None for count in counts):
                values = [None if count is None else float(100 * count[0] / max(count[1], 1)) for count in counts]
                name = Text(f"{label(TEST + measure)}, length {length}")
                _add_row(table, name, values, min, [None] * len(values))


def _add_differences(table: Table, runs: Sequence[ComparedRun], rates: Sequence[str], differ: bool) -> bool:
    """Rows of the differences from the first run: rates by the shared examples, other measures by saved draws.

    Returns:
        whether there is any.
    """
    first, *challengers = runs
    rows: dict[str, list[str]] = {}
    for rate in rates:
        if differ or TEST + rate in first.run.results:
            columns = [differences_by_examples(first, run, rate) for run in challengers]
            for name in sorted({name for cells in columns for name in cells}):
                rows[label(TEST + name)] = [cells.get(name, ABSENT) for cells in columns]
    for measure in first.run.results:
        if (is_higher := is_higher_better(measure)) is not None and measure.removeprefix(TEST) not in rates:
            name = label(measure) + (", higher is better" if is_higher else "")
            rows.setdefault(name, [difference_by_draws(measure, first, run) for run in challengers])
    rows = {name: cells for name, cells in rows.items() if any(cell != ABSENT for cell in cells)}
    if rows:
        table.add_section()
    for name, cells in rows.items():
        table.add_row(Text(printable(f"{name} against the first")), ABSENT, *cells)
    return bool(rows)
