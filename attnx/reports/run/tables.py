"""The tables of a run: its options and what follows from them at the start, its results and files at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

from attnx.config.groups import PRESETS, changed_options
from attnx.config.view import dotted_keys, value_text
from attnx.files.printable import printable, titled_table
from attnx.reports.metric_names import TEST, is_higher_better, metric_base, metric_label, metric_unit
from attnx.reports.run.task_declarations import baseline_names
from attnx.reports.significant_digits import format_count, format_interval, format_value
from attnx.runs.layout import RUN_LOCK
from attnx.runs.results import BaselineDifference
from attnx.runs.run import Run

CONFIG_KEYS = ("task", "model", "encoder", "decoder", "readout", "output", "attention", "scorer", "scope", "query",
               "normalizer", "decoding", "optimizer", "lr_schedule", "trainer", "seed")  # fmt: skip
# Options that are shown though they have their defaults.
COMPOSITION = ("task", "model", "scorer", "scope", "query", "normalizer", "seed")
# Keys of run.json, and labels of some.
FACTS = ("schedule", "kernels", "compiler", "compiled", "derived", "output_limit", "parameters", "flops",
         "initialized", "data", "notes", "signatures", "steps")  # fmt: skip
FACT_LABELS = {
    "flops": "FLOPs",
    "kernels": "fast kernels",
    "derived": "derived options",
    "output_limit": "output limit",
    "initialized": "initial weights",
}
OVERRIDE = "override"
OTHER_OPTIONS = "the other options have their defaults: attnx -v, or config.yaml"
CAPTION = "95 % confidence intervals: exact for error rates of whole outputs, bootstrap over test examples otherwise"


def start_table(run: Run, is_verbose: bool = False) -> Table:
    """The options, the schedule with its reason, derived options, and sizes of model and data.

    The options are the composition's, what the user's overrides set, and what differs from the defaults; all of them if
    ``is_verbose``.
    """
    title = Text(printable(f"attnx {run.path}"), "table.title")
    table = Table(title=title, title_justify="left", show_header=False, pad_edge=False, box=None)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(style="dim", no_wrap=True)
    for option, choice, mark in option_rows(run, is_verbose):
        table.add_row(printable(option), Text(printable(choice)), mark)
    for key in FACTS:
        if value := run.info.get(key):
            text = f"{value:,}" if isinstance(value, int) else str(value)
            if key == "flops":
                text = _flops_text(value)
            elif isinstance(value, dict):  # a line for each entry
                text = "\n".join(f"{name}: {entry}" for name, entry in value.items())
            elif isinstance(value, list):
                text = "\n".join(map(str, value))
            table.add_row(FACT_LABELS.get(key, key), Text(printable(text, keep="\n")))
    if not is_verbose:
        table.caption, table.caption_justify = OTHER_OPTIONS, "left"
    return table


def option_rows(run: Run, is_complete: bool = False) -> Iterator[tuple[str, str, str]]:
    """The options that were chosen or differ from the defaults; all of them if ``is_complete``.

    Each has its key as the command line takes it, its value, and ``override`` if an override of the user set it.
    """
    overrides = dict(word.lstrip("+~").partition("=")[::2] for word in run.info.get("overrides") or [])
    for key in PRESETS:
        if key in overrides:
            yield key, overrides[key], OVERRIDE
    order = [*CONFIG_KEYS, *run.config]
    config = {key: run.config[key] for key in dict.fromkeys(order) if key in run.config}
    changed = changed_options(config)
    for key, value in dotted_keys(config).items():
        if is_complete or key in overrides or key in changed or key in COMPOSITION:
            yield key, value_text(value), OVERRIDE if key in overrides else ""


def _flops_text(flops: Mapping[str, Any]) -> str:
    """The operations of a training token with the share of each part, and of a decoded token; or why not.

    >>> _flops_text({"train": {"attention": 3_000_000, "output": 1_000_000}, "decode": {"128": 51_200, "512": 62_400}})
    '4 M a training token (attention 75 %, output 25 %); a decoded token 51.2 k after 128 positions, 62.4 k after 512'
    """
    train, decode = flops.get("train", {}), flops.get("decode", {})
    total = sum(train.values())
    shares = ", ".join(f"{part} {count / total:.0%}".replace("%", " %") for part, count in train.items())
    steps = [f"{format_count(count)} after {int(context):,}" for context, count in decode.items()]
    texts = [f"{format_count(total)} a training token ({shares})"] if total else []
    texts += [f"a decoded token {steps[0]} positions, {', '.join(steps[1:])}"] if len(steps) > 1 else []
    return flops.get("note") or "; ".join(texts)


class ResultRow(NamedTuple):
    """A result as text: metric, value, 95 % interval or "", and unit, signature or comparison with baselines or ""."""

    metric: str
    value: str
    interval: str
    remark: str


def results_table(run: Run) -> Table:
    """The results of a run or an evaluation with 95 % intervals, for a terminal."""
    table = Table(title="results", title_justify="left", show_header=False, pad_edge=False, box=None)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    if run.intervals:
        table.add_column(style="dim", no_wrap=True)
        table.caption, table.caption_justify = CAPTION, "left"
    table.add_column(overflow="fold")
    for row in result_rows(run):
        table.add_row(*(Text(printable(cell)) for cell in _cells(run, row)))
    return table


def results_section(run: Run) -> str:
    """The results in Markdown."""
    head = ResultRow("metric", "value", "95 % interval", "remark")
    return titled_table("Results", _cells(run, head), (_cells(run, row) for row in result_rows(run)))


def result_rows(run: Run) -> list[ResultRow]:
    """A row per result, in order."""
    rows, verdicts = [], baseline_verdicts(run)
    for name, value in run.results.items():
        interval = run.intervals.get(name)
        text = format_interval(*interval) if interval else ""
        remark = metric_unit(name) or run.signatures.get(metric_base(name, run.signatures), "")
        if name == "steps":
            remark = end_of_run(run)
        if name in verdicts:
            remark = f"the run {verdicts[name]}"
        rows.append(ResultRow(name, format_value(value, interval), text, remark))
    return rows


def end_of_run(run: Run) -> str:
    """What ended the training, such as ``ended by trainer.max_steps=500``; "" if the run does not say."""
    trainer, planned, steps = run.config.get("trainer", {}), run.info.get("steps"), run.results.get("steps")
    if not trainer or not planned or not steps:
        return ""
    ends = [name for name in ("max_steps", "max_epochs") if trainer.get(name) is not None]
    if steps < planned:
        ends = ["patience"] if trainer.get("patience") else []
    elif len(ends) == 2:
        ends = ["max_steps" if trainer["max_steps"] == planned else "max_epochs"]
    elif not ends:
        ends = ["max_time"]
    return f"ended by trainer.{ends[0]}={trainer[ends[0]]}" if ends else f"ended before step {planned:,}"


def _cells(run: Run, row: ResultRow) -> list[str]:
    """A row, without the interval if no result has one."""
    return [row.metric, row.value, *([row.interval] if run.intervals else []), row.remark]


def file_list(folder: Path) -> str:
    """The files of a folder, on two lines; without its lock, which goes when the run ends."""
    paths = sorted(path for path in folder.iterdir() if path.name != RUN_LOCK)
    names = ", ".join(path.name + "/" * path.is_dir() for path in paths)
    return f"{folder}: start with README.md\n  {names}"


def baseline_verdicts(run: Run) -> dict[str, str]:
    """The comparison with each baseline in each metric, by the name of the baseline's metric."""
    names, verdicts = baseline_names(run), {}
    for baseline, differences in run.baselines.items():
        for metric, difference in differences.items():
            verdict = baseline_verdict(names.get(baseline, baseline), metric, difference)
            verdicts[f"{TEST}{baseline}_{metric.removeprefix(TEST)}"] = verdict
    return verdicts


def baseline_verdict(name: str, metric: str, difference: BaselineDifference) -> str:
    """Whether a run is better than a baseline of this name in a metric, and by how much.

    >>> baseline_verdict("the last value", "test_mse", BaselineDifference(0.0075, 0.0031, 0.0122))
    'is worse than the last value: MSE 0.0075 higher (0.0031 to 0.0122)'
    >>> baseline_verdict("linear", "test_mse", BaselineDifference(-0.0012, -0.0050, 0.0031))
    'does not differ significantly from linear: MSE 0.0012 lower (0.0050 lower to 0.0031 higher)'
    """
    value, *ends = difference
    low, high = ends
    text = f"{metric_label(metric)} {_difference_text(value, low, high)}"
    if low <= 0 <= high:
        interval = " to ".join(_difference_text(end, low, high) for end in ends)
        return f"does not differ significantly from {name}: {text} ({interval})"
    is_higher = is_higher_better(metric)
    verdict = "differs from" if is_higher is None else "is better than" if is_higher == (low > 0) else "is worse than"
    return f"{verdict} {name}: {text} ({format_interval(*sorted(map(abs, ends)))})"


def _difference_text(difference: float, low: float, high: float) -> str:
    """A difference in words, with the digits of the interval."""
    if not difference:
        return "no different"
    return f"{format_value(abs(float(difference)), (low, high))} {'higher' if difference > 0 else 'lower'}"
