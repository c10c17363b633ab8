"""The appendix of docs/which-attention.md: what each section shows, as Markdown text and figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

import attnx
from attnx.files.printable import markdown_table
from attnx.reports.sweep.comparison import Comparison
from attnx.reports.sweep.report import Report
from attnx.reports.sweep.texts import F_TEST_HEAD, f_test_rows, ranking_head, ranking_rows
from studies.atlas.changes import Changes, single_changes
from studies.atlas.design import Task, read_design
from studies.atlas.figures import (
    cost_points,
    draw_cost,
    draw_grid,
    draw_lengths,
    draw_main_effects,
    estimated_effects,
    pareto_front,
    scorer_by_scope,
)
from studies.atlas.findings import HEAD, finding_rows, read_findings
from studies.atlas.overview import CHANGE_HEAD, change_rows, overview
from studies.atlas.page import DEFAULT_RATE
from studies.atlas.rates import rate_table

STUDY = Path(__file__).parent
Shown = Iterator[str | Figure]


class Appendix(NamedTuple):
    """The study's runs: those with the default learning rate, and all of the first seed. A method a section."""

    tasks: dict[str, Task]
    report: Report
    all_rates: Report
    changes: dict[str, Changes]

    @classmethod
    def read(cls) -> Appendix:
        """From the study's table."""
        tasks, seeds = read_design(STUDY / "design.yaml")
        report = attnx.report(STUDY / "results.csv", [DEFAULT_RATE])
        all_rates = attnx.report(STUDY / "results.csv", [f"seed={seeds[0]}"])
        return cls(tasks, report, all_rates, single_changes(report.comparisons, tasks))

    def changes_of(self, comparison: Comparison) -> Changes:
        """The single changes of a task that was compared."""
        return self.changes[self.tasks[comparison.constant["task"]].name]

    def overview(self) -> Shown:
        """The changes of all tasks side by side."""
        yield markdown_table(("change", *self.changes), overview(self.changes))

    def single_changes(self) -> Shown:
        """The changes of each task, with intervals."""
        for comparison in self.report.comparisons:
            yield f"#### {comparison.title}: one choice changed"
            yield markdown_table(CHANGE_HEAD, change_rows(self.changes_of(comparison)))

    def findings(self) -> Shown:
        """Published findings beside what was measured."""
        yield markdown_table(HEAD, finding_rows(read_findings(STUDY / "findings.yaml"), self.changes))

    def effects(self) -> Shown:
        """What each choice does: pictures and F-tests."""
        for comparison in self.report.comparisons:
            main = comparison.rankings[0]
            yield f"#### {comparison.title}: {sum(len(setting.runs) for setting in comparison.settings)} runs"
            yield " ".join(main.verdict)
            if estimated_effects(comparison):
                yield draw_main_effects(comparison)
            if main.interactions:
                yield " ".join(main.effects_summary)
                yield markdown_table(F_TEST_HEAD, f_test_rows(main))
            if (grid := scorer_by_scope(comparison, self.changes_of(comparison).default.setting_index)) is not None:
                yield draw_grid(grid, main.metric)

    def learning_rates(self) -> Shown:
        """The scorers with other learning rates."""
        for comparison in self.all_rates.comparisons:
            head, rows = rate_table(self.tasks[comparison.constant["task"]], comparison)
            if rows:
                yield f"#### {comparison.title}: learning rates"
                yield markdown_table(head, rows)

    def best_settings(self) -> Shown:
        """The best ten of each task."""
        for comparison in self.report.comparisons:
            yield f"#### {comparison.title}, the best ten"
            yield markdown_table(ranking_head(comparison), list(ranking_rows(comparison))[:10])

    def costs(self) -> Shown:
        """Quality against CPU time, and the settings that no other beats in both."""
        for comparison in self.report.comparisons:
            main, points = comparison.rankings[0], cost_points(comparison)
            front = pareto_front(points, main.metric.is_higher_better)
            rows = [
                [str(rank), name, main.metric.format(mean), f"{cpu_seconds:.0f}", f"{memory:.0f}"]
                for rank, (cpu_seconds, mean, memory, name) in enumerate(front, start=1)
            ]
            yield f"#### {comparison.title}: cost"
            if unknown := len(main.rows) - len(points):
                yield f"{unknown} of {len(main.rows)} settings are left out: their CPU time was not recorded."
            yield draw_cost(comparison)
            yield markdown_table(["", "setting", main.metric.label, "CPU time, s", "memory, MB"], rows)

    def lengths(self) -> Shown:
        """The errors by source length, drawn."""
        for comparison in self.report.comparisons:
            if (rates := comparison.length_rates) is not None and len(rates.groups) > 1:
                yield f"#### {comparison.title}: by length"
                yield draw_lengths(comparison, rates, self.changes_of(comparison).default.setting_index)
