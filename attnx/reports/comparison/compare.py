"""Compares runs, or evaluations of runs, in a table: the best value of each metric, and tests of the differences."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from attnx.errors import UserError
from attnx.files.printable import printable
from attnx.reports.comparison.option_differences import option_differences, seeds_note
from attnx.reports.comparison.shared_examples import (
    ABSENT,
    NO_EXAMPLES,
    ComparedRun,
    Estimate,
    Examples,
    difference_by_draws,
    differences_by_examples,
    error_rates,
    read_test_examples,
    shared_part,
)
from attnx.reports.metric_names import COUNTED, MACRO, TEST, is_higher_better, metric_base, metric_label
from attnx.reports.run.error_tables import LENGTH_BINS, count_errors, group_by_source_length
from attnx.reports.significant_digits import format_value, format_with_interval
from attnx.reports.stats.bootstrap import read_draws
from attnx.runs.layout import EVALUATIONS
from attnx.runs.predictions import read_run_or_evaluation
from attnx.runs.run import Run

Best = Callable[[Sequence[float]], float]  # which of a row's values is the best one
EXAMPLES = "test_examples"
DIFFERENCES = (
    "last rows: difference from the first run with its 95 % interval (paired bootstrap over the test); below zero is "
    "better, unless higher is better"
)


def compare(folders: Sequence[Path | str]) -> Table:
    """Compare runs: a column per run, a row per option in which they differ and per metric, the best of it in bold.

    Below the test results are the error rates by source length, and the differences from the first run in each test
    metric, with 95 % intervals and p-values.

    Runs tested on different examples are compared on the shared ones: the rates are computed on these, and the caption
    counts the examples left out. A metric that cannot be computed on them is left out, too. If no example is shared,
    the complete tests are shown, and no value is the best.

    A run that cannot be read is left out, with a line on standard error.

    Raises:
        UserError: there is no folder, too few are readable run folders, or their tasks differ.
    """
    if not folders:
        raise UserError("nothing to compare: name at least one run folder")
    runs = _read(folders)
    _refuse_mixed([item.run for item in runs])
    tested = [item.test for item in runs if item.test.order]
    differ = any(test.counts != tested[0].counts for test in tested)
    size = max(len(item.shared.order) for item in runs)
    title = f"runs compared on the test examples that all share: {size:,}" if differ and size else "runs compared"
    table = Table(title=title, title_justify="left", title_style="bold", caption_justify="left")
    table.add_column("metric")
    for item in runs:
        table.add_column(Text(item.heading), justify="right")
    options = option_differences([item.run for item in runs])
    for key, values in options.items():
        table.add_row(Text(printable(key)), *(Text(printable(value or ABSENT)) for value in values))
    table.add_section()
    rates = _recomputable_rates(runs)
    if differ and size:
        _add_rates(table, rates, [item.shared for item in runs])
    _add_results(table, runs, differ, has_shared=size > 0)
    _add_signatures(table, [item.run for item in runs])
    best_of = None if differ and not size else min
    _add_lengths(table, rates, [item.shared if size else item.test for item in runs], best_of)
    has_differences = _add_differences(table, runs, rates, differ)
    notes = [*([DIFFERENCES] if has_differences else []), *(_omissions(runs, rates) if differ else [])]
    notes += filter(None, [seeds_note([item.run for item in runs], options)])
    table.caption = Text("\n".join(notes)) if notes else None
    return table


def _read(folders: Sequence[Path | str]) -> list[ComparedRun]:
    """The runs that can be read, and the test examples that all tested ones share."""
    runs, errors = [], []
    for folder in folders:
        try:
            run = read_run_or_evaluation(folder)
            runs.append(ComparedRun(run, run.name, read_test_examples(run.path), read_draws(run.path)))
        except UserError as error:
            errors.append(error)
    if errors and len(runs) < 2:
        raise errors[0]
    for refusal in errors:
        print(f"attnx: left out: {printable(str(refusal))}", file=sys.stderr)
    has_unique_names = len({item.heading for item in runs}) == len(runs)
    folder_names = _folder_names([item.run.path for item in runs])
    tested = [item.test for item in runs if item.test.order]
    parts = iter(shared_part(tested) if len(tested) > 1 else ())
    compared = []
    for item in runs:
        heading = printable(item.heading if has_unique_names else folder_names[item.run.path])
        shared = next(parts, NO_EXAMPLES) if item.test.order else NO_EXAMPLES
        compared.append(item._replace(heading=heading, shared=shared))
    return compared


def _folder_names(paths: Sequence[Path]) -> dict[Path, str]:
    """The last component of each path, of an evaluation with its run's; if that is no name of one, the last two."""
    parts = {path: path.resolve().parts for path in paths}
    names = {path: [name for name in components if name != EVALUATIONS][-2:] for path, components in parts.items()}
    short = {path: "/".join(names[path][0 if EVALUATIONS in parts[path][-2:] else -1 :]) for path in paths}
    return short if len(set(short.values())) == len(paths) else {path: "/".join(names[path]) for path in paths}


def _refuse_mixed(runs: Sequence[Run]) -> None:
    """Refuse runs of different tasks, or with different main metrics."""
    values: dict[str, tuple[str, Path]] = {}
    for run in runs:
        for name, value in _task_and_metric(run).items():
            expected, first = values.setdefault(name, (value, run.path))
            if value != expected:
                raise UserError(
                    f"{run.path}: its {name} is {value}, that of {first} is {expected}; such runs cannot be compared; "
                    "attnx report shows them separately"
                )


def _task_and_metric(run: Run) -> dict[str, str]:
    """The task and the main metric of a run, or of the evaluated run, as far as they are known.

    The mean over tags counts as the metric itself.
    """
    run = run.evaluated_run
    task, metric = run.config.get("task"), run.monitor.removesuffix(f"_{MACRO}")
    values = {"task": task.get("name") if isinstance(task, dict) else task, "main metric": metric}
    return {name: str(value) for name, value in values.items() if value}


def _recomputable_rates(runs: Sequence[ComparedRun]) -> list[str]:
    """The error rates that all results have; they can be computed on any part of a test."""
    tested = [item for item in runs if item.test.predictions]
    bases = [{metric_base(key, COUNTED) for key in item.run.results if key.startswith(TEST)} for item in tested]
    return [name for name in COUNTED if bases and all(name in names for names in bases)]


def _omissions(runs: Sequence[ComparedRun], rates: Sequence[str]) -> Iterator[str]:
    """Lines on the examples and metrics that are left out because the tests differ."""
    if not any(item.shared.order for item in runs):
        yield "the runs share no test example: their results are of different tests, so no run can be called better"
        return
    counts = []
    for item in runs:
        complete = len(item.test.order)
        if count := complete - len(item.shared.order):
            counts.append(f"{count:,} of the {complete:,} test examples of {item.heading}")
    if counts:
        yield f"not shared: {', '.join(counts)}; each README.md has the results of the complete test"
    keys = dict.fromkeys(key for item in runs for key in item.run.results if key.startswith(TEST) and key != EXAMPLES)
    if missing := [key for key in keys if metric_base(key, COUNTED) not in rates]:
        yield (
            f"not computed on the shared examples: {', '.join(map(printable, missing))}; to compare these, evaluate "
            "all runs on one file: attnx evaluate RUN task.test=FILE"
        )


def _add_results(table: Table, runs: Sequence[ComparedRun], differ: bool, has_shared: bool) -> None:
    """Rows of results.json; if the tests differ, test metrics only where no example is shared, and none is best."""
    for metric in dict.fromkeys(name for item in runs for name in item.run.results):
        is_incomparable = differ and metric.startswith(TEST) and metric != EXAMPLES
        if is_incomparable and has_shared:
            continue
        cells = [
            Estimate(value, item.run.intervals.get(metric))
            if isinstance(value := item.run.results.get(metric), int | float)
            else None
            for item in runs
        ]
        is_higher = None if is_incomparable else is_higher_better(metric)
        _add_row(table, metric, cells, None if is_higher is None else max if is_higher else min)


def _add_row(table: Table, name: str, cells: Sequence[Estimate | None], best_of: Best | None = min) -> None:
    """Add a row with its best value in bold, unless no value can be best; equal texts are equally good."""
    values = [cell.value for cell in cells if cell is not None]
    best = format_value(best_of(values)) if best_of and len(values) > 1 else None
    texts = (Text(_cell_text(cell), "bold" if cell and format_value(cell.value) == best else "") for cell in cells)
    table.add_row(Text(printable(name)), *texts)


def _cell_text(cell: Estimate | None) -> str:
    if cell is None or cell.interval is None:
        return format_value(cell and cell.value)
    return format_with_interval(cell.value, cell.interval.low, cell.interval.high)


def _add_signatures(table: Table, runs: Sequence[Run]) -> None:
    """The exact definition of each metric; scores with different signatures cannot be compared."""
    for name in dict.fromkeys(name for run in runs for name in run.signatures):
        signatures = [run.signatures.get(name, ABSENT) for run in runs]
        warning = ": different, so not comparable" if len(set(signatures) - {ABSENT}) > 1 else ""
        heading = Text(printable(f"{metric_label(name)}, signature{warning}"))
        table.add_row(heading, *(Text(printable(signature)) for signature in signatures))


def _add_rates(table: Table, rates: Sequence[str], tests: Sequence[Examples]) -> None:
    """Rows of the error rates on the shared examples."""
    for rate in rates:
        measured = [error_rates(test, rate) for test in tests]
        for name in dict.fromkeys(name for by_name in measured for name in by_name):
            _add_row(table, TEST + name, [by_name.get(name) for by_name in measured])


def _add_lengths(table: Table, rates: Sequence[str], tests: Sequence[Examples], best_of: Best | None) -> None:
    groups = [group_by_source_length(test.predictions) for test in tests]
    for metric in rates:
        table.add_section()
        for length in LENGTH_BINS.values():
            counts = [count_errors(group[length], metric).sum(0) if length in group else None for group in groups]
            cells = [None if count is None else Estimate(100 * count[0] / max(count[1], 1)) for count in counts]
            if any(cells):
                _add_row(table, f"{metric_label(TEST + metric)}, length {length}", cells, best_of)


def _add_differences(table: Table, runs: Sequence[ComparedRun], rates: Sequence[str], differ: bool) -> bool:
    """Add differences from the first run, of rates by shared examples, else by saved draws; whether there is any."""
    first, *challengers = runs
    rows: dict[str, list[str]] = {}
    for rate in rates:
        if differ or TEST + rate in first.run.results:
            columns = [differences_by_examples(first, run, rate) for run in challengers]
            for name in sorted({name for cells in columns for name in cells}):
                rows[metric_label(TEST + name)] = [cells.get(name, ABSENT) for cells in columns]
    for metric in first.run.results:
        if (is_higher := is_higher_better(metric)) is not None and metric.removeprefix(TEST) not in rates:
            name = metric_label(metric) + (", higher is better" if is_higher else "")
            rows.setdefault(name, [difference_by_draws(metric, first, run) for run in challengers])
    rows = {name: cells for name, cells in rows.items() if any(cell != ABSENT for cell in cells)}
    if rows:
        table.add_section()
    for name, cells in rows.items():
        table.add_row(Text(printable(f"{name} against the first")), ABSENT, *cells)
    return bool(rows)
