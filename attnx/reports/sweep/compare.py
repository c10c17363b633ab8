"""Compares runs, or evaluations of runs, in a table: the best value of each metric, and tests of the differences."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from attnx.config.view import choice_text, dotted_keys, varied_keys
from attnx.errors import UserError
from attnx.files.printable import printable
from attnx.reports.metric_names import COUNTED, MACRO, MICRO, TEST, is_higher_better, metric_base, metric_label
from attnx.reports.run.evaluated_examples import EvaluatedExamples, read_examples, sum_lengths
from attnx.reports.run.evaluation import LENGTH_BINS
from attnx.reports.run.task_declarations import baseline_names
from attnx.reports.significant_digits import format_difference, format_value, format_with_interval
from attnx.reports.stats.bootstrap import percentile_interval, two_sided_p
from attnx.reports.sweep.comparison import unequal_conditions
from attnx.reports.sweep.load_runs import load_runs
from attnx.runs.layout import EVALUATIONS
from attnx.runs.predictions import read_run_or_evaluation
from attnx.runs.results import Interval
from attnx.runs.run import Run

Best = Callable[[Sequence[float]], float]  # which of a row's values is the best one
ABSENT = "-"
ALL_TAGS = f"_{MICRO}"
LABELS = ("name", "folder")  # options that change no result
DIFFERENCES = (
    "last rows: difference from the first run with its 95 % interval (paired bootstrap over the test), each by itself; "
    "below zero is better, unless higher is better"
)
OTHER_TESTS = (
    "the runs were tested on different examples, so no run can be called better; evaluate all of them on one file: "
    "attnx evaluate RUN task.test=FILE"
)
ONE_SEED = (
    "one run of each setting: the intervals are of the test examples, not of the seeds, and another seed can change "
    "the order; train several (attnx -m seed=1,2,3 ...), and attnx report tests the settings"
)


class ComparedRun(NamedTuple):
    """A run or evaluation, with its test."""

    run: Run
    heading: str
    test: EvaluatedExamples


def compare(folders: Sequence[Path | str]) -> Table:
    """Compare runs: a column per run, a row per option in which they differ and per metric, the best of it in bold.

    Below are the error rates by source length, and differences from the first run with 95 % intervals and p-values. If
    the runs were tested on different examples, no value is the best, and there are no differences. A line on standard
    error names a run that cannot be read.

    Raises:
        UserError: there is no folder, too few are readable run folders, or their tasks differ.
    """
    if not folders:
        raise UserError("nothing to compare: name at least one run folder")
    runs = _read(folders)
    evaluated_runs = [item.run.evaluated_run for item in runs]
    _refuse_mixed(evaluated_runs)
    differ = len({item.test.digest for item in runs if item.test.digest}) > 1
    table = Table(title="runs compared", title_justify="left", title_style="bold", caption_justify="left")
    table.add_column("metric")
    for item in runs:
        table.add_column(Text(item.heading), justify="right")
    configs = [dotted_keys({key: run.config[key] for key in run.config if key not in LABELS}) for run in evaluated_runs]
    options = {
        key: [choice_text(config[key]) if key in config else ABSENT for config in configs]
        for key in varied_keys(configs)
    }
    for key, choices in options.items():
        table.add_row(Text(printable(key)), *(Text(printable(choice or ABSENT)) for choice in choices))
    table.add_section()
    names = dict.fromkeys(name for item in runs for name in item.run.signatures)
    defined = {name: [item.run.signatures.get(name, ABSENT) for item in runs] for name in names}
    redefined = [name for name, signatures in defined.items() if len({*signatures} - {ABSENT}) > 1]
    for metric in dict.fromkeys(name for item in runs for name in item.run.results):
        values = [item.run.results.get(metric) for item in runs]
        intervals = [item.run.intervals.get(metric) for item in runs]
        is_incomparable = (differ and metric.startswith(TEST)) or metric_base(metric, redefined)
        is_higher = None if is_incomparable else is_higher_better(metric)
        _add_row(table, metric, values, intervals, None if is_higher is None else max if is_higher else min)
    for name, signatures in defined.items():
        warning = ": different, so not comparable" if name in redefined else ""
        heading = Text(printable(f"{metric_label(name)}, signature{warning}"))
        table.add_row(heading, *(Text(printable(signature)) for signature in signatures))
    tested = [item.run.results for item in runs if item.test.length_errors]
    bases = [{metric_base(key, COUNTED) for key in results if key.startswith(TEST)} for results in tested]
    rates = [name for name in COUNTED if bases and all(name in names for names in bases)]
    for metric in rates:
        table.add_section()
        for ends, label in LENGTH_BINS.items():
            counts = [sum_lengths(item.test.length_errors, ends) for item in runs]
            if any(count.examples for count in counts):
                values = [count.rate(COUNTED[metric]) if count.examples else None for count in counts]
                name = f"{metric_label(TEST + metric)}, length {label}"
                _add_row(table, name, values, [None] * len(runs), None if differ else min)
    has_differences = not differ and _add_differences(table, runs, redefined)
    notes = [DIFFERENCES] if has_differences else [OTHER_TESTS] if differ else []
    notes += [
        *filter(None, [_seeds_note(evaluated_runs, options)]),
        *unequal_conditions(load_runs([run.path for run in evaluated_runs])),
    ]
    table.caption = Text("\n".join(notes)) if notes else None
    return table


def _read(folders: Sequence[Path | str]) -> list[ComparedRun]:
    """The runs that can be read, each with a heading of its own."""
    runs, errors = [], []
    for folder in folders:
        try:
            run = read_run_or_evaluation(folder)
            runs.append(ComparedRun(run, run.name, read_examples(run.path)))
        except UserError as error:
            errors.append(error)
    if errors and len(runs) < 2:
        raise errors[0]
    for refusal in errors:
        print(f"attnx: left out: {printable(str(refusal))}", file=sys.stderr)
    headings = [item.heading for item in runs]
    if len(set(headings)) < len(runs):
        # The last component of each path, for an evaluation after its run's; the last two where those are not unique.
        paths = [item.run.path.resolve() for item in runs]
        names = [[name for name in path.parts if name != EVALUATIONS][-2:] for path in paths]
        whole = ["/".join(parts) for parts in names]
        short = [name if EVALUATIONS in path.parts[-2:] else path.name for path, name in zip(paths, whole, strict=True)]
        headings = short if len(set(short)) == len(runs) else whole
    return [item._replace(heading=printable(heading)) for item, heading in zip(runs, headings, strict=True)]


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
                    f"{run.path}: its {name} is {value}, {first} has {expected}; such runs cannot be compared; "
                    "attnx report shows them separately"
                )


def _seeds_note(runs: Sequence[Run], differences: dict[str, list[str]]) -> str:
    """What the runs can tell of their settings, given how many seeds each has; empty if a setting has several."""
    if any(not run.config for run in runs) or len({run.path for run in runs}) == 1:
        return ""
    if not differences:
        return "the runs have the same options and seed"
    if [*differences] == ["seed"]:
        return "the runs differ in their seeds alone: their differences show what chance does"
    options = list(zip(*(values for key, values in differences.items() if key != "seed"), strict=True))
    return ONE_SEED if len(set(options)) == len(runs) else ""


def _add_row(
    table: Table, name: str, values: Sequence[float | None], intervals: Sequence[Interval | None], best_of: Best | None
) -> None:
    """Add a row with its best value in bold, unless no value can be best; equal texts are equally good."""
    known = [value for value in values if value is not None]
    best, texts = format_value(best_of(known)) if best_of and len(known) > 1 else None, []
    for value, interval in zip(values, intervals, strict=True):
        text = shown = format_value(value)
        if value is not None and interval:
            text = format_with_interval(value, interval.low, interval.high)
        texts.append(Text(text, "bold" if value is not None and shown == best else ""))
    table.add_row(Text(printable(name)), *texts)


def _add_differences(table: Table, runs: Sequence[ComparedRun], redefined: Sequence[str]) -> bool:
    """Add the differences from the first run in each metric, where there is any; whether there is.

    The task's baselines differ in no run, so their metrics are left out, and those that have several definitions.
    """
    first, *challengers = runs
    rows: dict[str, list[str]] = {}
    baselines = tuple(f"{TEST}{name}_" for name in baseline_names(first.run))
    for metric in first.run.results:
        if metric.startswith(baselines) or metric_base(metric, redefined):
            continue
        cells = [_difference(metric, first, run) for run in challengers]
        if (is_higher := is_higher_better(metric)) is not None and any(cell != ABSENT for cell in cells):
            rows[metric_label(metric) + (", higher is better" if is_higher else "")] = cells
    table.add_section()
    for name, cells in rows.items():
        table.add_row(Text(printable(f"{name} against the first")), ABSENT, *cells)
    return bool(rows)


def _difference(metric: str, first: ComparedRun, challenger: ComparedRun) -> str:
    """The difference of a run from the first, by the samples of the same test that both saved; ``-`` without any."""
    samples, name = challenger.test.resampled, metric
    if metric not in samples:  # a run that knows languages has test_wer_micro where one that knows none has test_wer
        name = metric.removesuffix(ALL_TAGS) if metric.endswith(ALL_TAGS) else metric + ALL_TAGS
    values = challenger.run.results.get(name), first.run.results.get(metric)
    if first.test.order != challenger.test.order or values[0] is None or values[1] is None:
        return ABSENT
    if name not in samples or metric not in first.test.resampled:
        return ABSENT
    draws = samples[name] - first.test.resampled[metric]
    low, high = percentile_interval(draws)
    return f"{format_difference(values[0] - values[1], low, high)}, p {two_sided_p(draws):.3f}"
