"""Published findings about single choices, beside what the study measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import yaml

from attnx.reports.stats.multiple_comparisons import SIGNIFICANCE_LEVEL, MeanDifference
from attnx.reports.sweep.ablations import Ablations, Reference, ablations
from attnx.reports.sweep.comparison import Comparison
from attnx.reports.sweep.conclusions import p_text
from attnx.reports.sweep.measures import Measure
from studies.atlas.design import Task
from studies.results import setting_choices

Expected = Literal["better", "worse", "equal"]
HEAD = ("published", "task", "here", "did it hold?")


class Finding(NamedTuple):
    """What was published about a value of a choice against the default; the fields are those of findings.yaml."""

    finding: str
    published: str
    source: str
    choice: str
    value: str
    expected: Expected


def read_findings(path: Path) -> list[Finding]:
    """The findings of a file."""
    return [Finding(**entry) for entry in yaml.safe_load(path.read_text(encoding="utf-8"))]


def default_of(task: Task, comparison: Comparison) -> Reference:
    """The default setting of a task, by the choices in which its settings differ."""
    setting = next(setting for setting in task.changes if len(setting) > 1)
    return {key: value for key, value in setting_choices(setting).items() if key in comparison.keys}


def finding_rows(
    findings: Sequence[Finding], compared: Sequence[Comparison], tasks: Mapping[str, Task]
) -> list[list[str]]:
    """A row for each finding and each task that has it: the difference from the default, and what it tells."""
    rows = []
    for comparison in compared:
        task, main = tasks[comparison.constant["task"]], comparison.metrics[0]
        result = ablations(comparison.keys, comparison.settings, main, default_of(task, comparison))
        for number, finding in enumerate(findings):
            if cells := _cells(finding, result, main.measure):
                text = f"{finding.finding} {finding.published}: {finding.source}"
                rows.append((number, [text, task.name, *cells]))
    return [row for _, row in sorted(rows, key=lambda entry: entry[0])]


def _cells(finding: Finding, result: Ablations, measure: Measure) -> list[str]:
    """What was measured, and whether the finding held; nothing if the task has no such setting."""
    for change in result.changed:
        if (change.factor, change.value) == (finding.choice, finding.value):
            values = f"{measure.format(change.row.mean)} against {measure.format(result.reference.mean)}"
            return [f"{measure.label} {values}", judge(finding.expected, change.difference)]
    return []


def judge(expected: Expected, difference: MeanDifference | None) -> str:
    """Whether a finding held, by a difference from the default of which more than zero is worse.

    >>> judge("better", MeanDifference(-1.0, -1.5, -0.5, 0.0002, "pooled"))
    'yes, p < 0.001'
    >>> judge("equal", MeanDifference(-1.0, -1.5, -0.5, 0.0002, "pooled"))
    'no, better: p < 0.001'
    >>> judge("worse", MeanDifference(-1.0, -2.5, 0.5, 0.2, "pooled"))
    'not significant: p = 0.20'
    """
    if difference is None:
        return "not tested, one seed each"
    p = p_text(difference.p)
    if difference.p >= SIGNIFICANCE_LEVEL:
        return f"yes, no significant difference: {p}" if expected == "equal" else f"not significant: {p}"
    measured = "worse" if difference.difference > 0 else "better"
    return f"yes, {p}" if measured == expected else f"no, {measured}: {p}"
