"""Compares runs, or evaluations of runs, in a table: the best value of each metric, and tests of the differences."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.table import Table
from rich.text import Text

from attnx.config.view import choice_text, dotted_keys
from attnx.errors import UserError
from attnx.files.printable import printable
from attnx.reports.metric_names import COUNTED, MACRO, TEST, is_higher_better, metric_base, metric_label
from attnx.reports.run.evaluated_examples import (
    NO_EXAMPLES,
    Estimate,
    EvaluatedExamples,
    Identities,
    count_by_length,
    error_rates,
    read_examples,
    read_identities,
    shared_indices,
    sum_lengths,
)
from attnx.reports.run.evaluation import LENGTH_BINS
from attnx.reports.significant_digits import format_difference, format_value, format_with_interval
from attnx.reports.stats.bootstrap import Difference, bootstrap_difference, difference_from_draws
from attnx.runs.layout import EVALUATIONS
from attnx.runs.predictions import read_run_or_evaluation
from attnx.runs.run import Run

Best = Callable[[Sequence[float]], float]  # which of a row's values is the best one
ABSENT = "-"
EXAMPLES = "test_examples"
LABELS = ("name", "folder")  # options that change no result
DIFFERENCES = (
    "last rows: difference from the first run with its 95 % interval (paired bootstrap over the test); below zero is "
    "better, unless higher is better"
)
ONE_SEED = (
    "one run of each setting: the intervals are of the test examples, not of the seeds, and another seed can change "
    "the order; train several (attnx -m seed=1,2,3 ...), and attnx report tests the settings"
)


class ComparedRun(NamedTuple):
    """A run or evaluation with its test, what identifies the examples, and those that all runs share."""

    run: Run
    heading: str
    test: EvaluatedExamples
    identities: Identities
    shared: EvaluatedExamples = NO_EXAMPLES


def compare(folders: Sequence[Path | str]) -> Table:
    """Compare runs: a column per run, a row per option in which they differ and per metric, the best of it in bold.

    Below are the error rates by source length, and differences from the first run with 95 % intervals and p-values.
    Runs tested on different examples are compared on the shared ones: the rates are computed on these, and the caption
    counts the examples left out. A metric that cannot be computed on them is left out, too. If no example is shared,
    the complete tests are shown, and no value is the best. A line on standard error names a run that cannot be read.

    Raises:
        UserError: there is no folder, too few are readable run folders, or their tasks differ.
    """
    if not folders:
        raise UserError("nothing to compare: name at least one run folder")
    runs = _read(folders)
    evaluated_runs = [item.run.evaluated_run for item in runs]
    _refuse_mixed(evaluated_runs)
    tests = [Counter(item.identities) for item in runs if item.identities]
    differ = any(test != tests[0] for test in tests)
    size = max(len(item.shared.tags) for item in runs)
    title = f"runs compared on the test examples that all share: {size:,}" if differ and size else "runs compared"
    table = Table(title=title, title_justify="left", title_style="bold", caption_justify="left")
    table.add_column("metric")
    for item in runs:
        table.add_column(Text(item.heading), justify="right")
    options = _option_differences(evaluated_runs)
    for key, values in options.items():
        table.add_row(Text(printable(key)), *(Text(printable(value or ABSENT)) for value in values))
    table.add_section()
    # The error rates that all results have can be computed on any part of a test.
    tested = [item.run.results for item in runs if item.test.errors is not None]
    bases = [{metric_base(key, COUNTED) for key in results if key.startswith(TEST)} for results in tested]
    rates = [name for name in COUNTED if bases and all(name in names for names in bases)]
    for rate in rates if differ and size else ():
        measured = [error_rates(item.shared, rate) for item in runs]
        for name in dict.fromkeys(name for by_name in measured for name in by_name):
            _add_row(table, TEST + name, [by_name.get(name) for by_name in measured])
    _add_results(table, runs, differ, has_shared=size > 0)
    # Scores with different definitions cannot be compared.
    for name in dict.fromkeys(name for item in runs for name in item.run.signatures):
        signatures = [item.run.signatures.get(name, ABSENT) for item in runs]
        warning = ": different, so not comparable" if len(set(signatures) - {ABSENT}) > 1 else ""
        heading = Text(printable(f"{metric_label(name)}, signature{warning}"))
        table.add_row(heading, *(Text(printable(signature)) for signature in signatures))
    best_of = None if differ and not size else min
    _add_lengths(table, rates, [item.shared if size else item.test for item in runs], best_of)
    has_differences = _add_differences(table, runs, rates, differ)
    notes = [*([DIFFERENCES] if has_differences else []), *(_omissions(runs, rates) if differ else [])]
    notes += filter(None, [_seeds_note(evaluated_runs, options)])
    table.caption = Text("\n".join(notes)) if notes else None
    return table


def _read(folders: Sequence[Path | str]) -> list[ComparedRun]:
    """The runs that can be read, and the test examples that all tested ones share."""
    runs, errors = [], []
    for folder in folders:
        try:
            run = read_run_or_evaluation(folder)
            runs.append(ComparedRun(run, run.name, read_examples(run.path), read_identities(run.path)))
        except UserError as error:
            errors.append(error)
    if errors and len(runs) < 2:
        raise errors[0]
    for refusal in errors:
        print(f"attnx: left out: {printable(str(refusal))}", file=sys.stderr)
    headings = [item.heading for item in runs]
    if len(set(headings)) < len(runs):
        headings = _folder_names([item.run.path.resolve() for item in runs])
    tested = [item.identities for item in runs if item.identities]
    parts = iter(shared_indices(tested) if len(tested) > 1 else ())
    return [
        item._replace(
            heading=printable(heading),
            shared=item.test.select(next(parts, [])) if item.identities else NO_EXAMPLES,
        )
        for item, heading in zip(runs, headings, strict=True)
    ]


def _folder_names(paths: Sequence[Path]) -> list[str]:
    """The last component of each path, of an evaluation with its run's; if that is no name of one, the last two."""
    names = [[name for name in path.parts if name != EVALUATIONS][-2:] for path in paths]
    short = [parts if EVALUATIONS in path.parts[-2:] else parts[-1:] for path, parts in zip(paths, names, strict=True)]
    texts = ["/".join(parts) for parts in short]
    return texts if len(set(texts)) == len(paths) else ["/".join(parts) for parts in names]


def _refuse_mixed(runs: Sequence[Run]) -> None:
    """Refuse runs of different tasks, or with different main metrics; the mean over tags counts as the metric."""
    first_values: dict[str, tuple[str, Path]] = {}
    for run in runs:
        task, metric = run.config.get("task"), run.monitor.removesuffix(f"_{MACRO}")
        values = {"task": task.get("name") if isinstance(task, dict) else task, "main metric": metric}
        for name, value in values.items():
            if not value:
                continue
            expected, first = first_values.setdefault(name, (str(value), run.path))
            if str(value) != expected:
                raise UserError(
                    f"{run.path}: its {name} is {value}, that of {first} is {expected}; such runs cannot be compared; "
                    "attnx report shows them separately"
                )


def _option_differences(runs: Sequence[Run]) -> dict[str, list[str | None]]:
    """The options that differ, by dotted key, of each run; None where it has no such option.

    Options that one of several choices has alone follow from the choice and are left out.
    """
    options = [dotted_keys(run.config) for run in runs]
    keys = dict.fromkeys(key for values in options for key in values if key not in LABELS)
    rows = {key: [choice_text(values[key]) if key in values else None for values in options] for key in keys}
    differing = {key: values for key, values in rows.items() if len(set(values)) > 1}
    return {
        key: values
        for key, values in differing.items()
        if None not in values or key.partition(".")[0] not in differing or "." not in key
    }


def _seeds_note(runs: Sequence[Run], differences: dict[str, list[str | None]]) -> str:
    """What the runs can tell of their settings, given how many seeds each has; empty if a setting has several."""
    if any(not run.config for run in runs) or len({run.path for run in runs}) == 1:
        return ""
    if not differences:
        return "the runs have the same options and seed"
    if [*differences] == ["seed"]:
        return "the runs differ in their seeds alone: their differences show what chance does"
    options = list(zip(*(values for key, values in differences.items() if key != "seed"), strict=True))
    return ONE_SEED if len(set(options)) == len(runs) else ""


def _omissions(runs: Sequence[ComparedRun], rates: Sequence[str]) -> Iterator[str]:
    """Lines on the examples and metrics that are left out because the tests differ."""
    if not any(len(item.shared.tags) for item in runs):
        yield "the runs share no test example: their results are of different tests, so no run can be called better"
        return
    counts = [
        f"{count:,} of the {len(item.identities):,} test examples of {item.heading}"
        for item in runs
        if (count := len(item.identities) - len(item.shared.tags))
    ]
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
        values = [(item.run.results.get(metric), item.run.intervals.get(metric)) for item in runs]
        cells = [Estimate(value, interval) if isinstance(value, int | float) else None for value, interval in values]
        is_higher = None if is_incomparable else is_higher_better(metric)
        _add_row(table, metric, cells, None if is_higher is None else max if is_higher else min)


def _add_row(table: Table, name: str, cells: Sequence[Estimate | None], best_of: Best | None = min) -> None:
    """Add a row with its best value in bold, unless no value can be best; equal texts are equally good."""
    values = [cell.value for cell in cells if cell]
    best, texts = format_value(best_of(values)) if best_of and len(values) > 1 else None, []
    for cell in cells:
        text = value = format_value(cell and cell.value)
        if cell and cell.interval:
            text = format_with_interval(cell.value, cell.interval.low, cell.interval.high)
        texts.append(Text(text, "bold" if cell and value == best else ""))
    table.add_row(Text(printable(name)), *texts)


def _add_lengths(table: Table, rates: Sequence[str], tests: Sequence[EvaluatedExamples], best_of: Best | None) -> None:
    """Rows of the error rates by source length."""
    errors = [count_by_length(test) for test in tests]
    for metric in rates:
        table.add_section()
        for ends, label in LENGTH_BINS.items():
            counts = [sum_lengths(by_length, ends) for by_length in errors]
            cells = [Estimate(count.rate(COUNTED[metric])) if count.examples else None for count in counts]
            if any(cells):
                _add_row(table, f"{metric_label(TEST + metric)}, length {label}", cells, best_of)


def _add_differences(table: Table, runs: Sequence[ComparedRun], rates: Sequence[str], differ: bool) -> bool:
    """Add differences from the first run, of rates by shared examples, else by saved draws; whether there is any."""
    first, *challengers = runs
    rows: dict[str, list[str]] = {}
    for rate in rates:
        if differ or TEST + rate in first.run.results:
            columns = [_differences_by_examples(first, run, rate) for run in challengers]
            for name in sorted({name for cells in columns for name in cells}):
                rows[metric_label(TEST + name)] = [cells.get(name, ABSENT) for cells in columns]
    for metric in first.run.results:
        if (is_higher := is_higher_better(metric)) is not None and metric.removeprefix(TEST) not in rates:
            name = metric_label(metric) + (", higher is better" if is_higher else "")
            rows.setdefault(name, [_difference_by_draws(metric, first, run) for run in challengers])
    rows = {name: cells for name, cells in rows.items() if any(cell != ABSENT for cell in cells)}
    table.add_section()
    for name, cells in rows.items():
        table.add_row(Text(printable(f"{name} against the first")), ABSENT, *cells)
    return bool(rows)


def _differences_by_examples(first: ComparedRun, challenger: ComparedRun, rate: str) -> dict[str, str]:
    """The difference from the first run in an error rate, on shared examples, also that of the mean over tags."""
    if not first.identities or not challenger.identities:
        return {}
    indices, own_indices = shared_indices([first.identities, challenger.identities])
    if not indices:
        return {rate: "no shared example"}
    baseline, test = first.test.select(indices), challenger.test.select(own_indices)
    errors, baseline_errors = test.count_errors(rate), baseline.count_errors(rate)
    cells = {rate: _difference_text(bootstrap_difference(errors, baseline_errors))}
    if len({*baseline.tags.tolist()}) > 1 and np.array_equal(baseline.tags, test.tags):
        difference = bootstrap_difference(errors, baseline_errors, groups=baseline.tags.tolist())
        cells[f"{rate}_{MACRO}"] = _difference_text(difference)
    return cells


def _difference_by_draws(metric: str, first: ComparedRun, challenger: ComparedRun) -> str:
    """The difference of a run from the first in any metric, by saved draws of the same test; ``-`` without any."""
    draws = [item.test.resampled.get(metric) for item in (challenger, first)]
    values = [item.run.results.get(metric) for item in (challenger, first)]
    if not first.test.order or first.test.order != challenger.test.order or values[0] is None or values[1] is None:
        return ABSENT
    if draws[0] is None or draws[1] is None or not (draws[0] - draws[1]).any():
        return ABSENT
    return _difference_text(difference_from_draws(values[0] - values[1], draws[0] - draws[1]))


def _difference_text(difference: Difference) -> str:
    return f"{format_difference(difference.difference, difference.low, difference.high)}, p {difference.p:.3f}"
