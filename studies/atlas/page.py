"""The tables of docs/which-attention.md that are committed, so that the page can be read without the site."""

from __future__ import annotations

from collections.abc import Mapping

from attnx.files.printable import markdown_table
from attnx.reports.sweep.report import Report
from studies.atlas.advice import HEAD, advise
from studies.atlas.changes import by_task
from studies.atlas.design import Task
from studies.page_tables import replace_tables

DEFAULT_RATE = "optimizer.lr=0.004"
TASKS_HEAD = ("task", "data", "width of embeddings, encoder, decoder", "steps")


def fill_tables(page: str, report: Report, tasks: Mapping[str, Task], finished: int, planned: int) -> str:
    """The page with each of its tables made anew.

    Args:
        page: its text.
        report: on the runs with the default learning rate.
        tasks: of the design.
        finished: how many runs are in the table, with all learning rates.
        planned: how many runs the design has.
    """
    state = "The study is complete" if finished == planned else "The study goes on, so results are preliminary"
    compared = by_task(report.comparisons, tasks).values()
    advice = [row for comparison in compared if (row := advise(comparison, tasks)) is not None]
    tables = {
        "state": f"{state}: {finished:,} of {planned:,} runs are in the table.",
        "advice": markdown_table(HEAD, advice),
        "tasks": markdown_table(TASKS_HEAD, [_task_row(task) for task in tasks.values()]),
    }
    return replace_tables(page, tables)


def _task_row(task: Task) -> list[str]:
    """What a task's settings have in common; a model without an encoder has no width of it."""
    config = task.config
    widths = [config["model"]["embedding_dim"], config.get("encoder", {}).get("hidden_size", "-")]
    widths.append(config["decoder"]["hidden_size"])
    return [f"`{task.name}`", task.about, ", ".join(map(str, widths)), f"{config['trainer']['max_steps']:,}"]
