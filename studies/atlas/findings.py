"""Published findings about single choices, beside what the study measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import yaml

from attnx.reports.significant_digits import p_text
from attnx.reports.stats.multiple_comparisons import SIGNIFICANCE_LEVEL, MeanDifference
from studies.atlas.changes import Changes

Expected = Literal["better", "worse", "equal", "not better", "not worse"]
HEAD = ("published", "task", "here", "did it hold?")


class Finding(NamedTuple):
    """What was published about a change of the default; the fields are those of findings.yaml."""

    finding: str
    published: str
    source: str
    change: str
    expected: Expected


def read_findings(path: Path) -> list[Finding]:
    """The findings of a file."""
    return [Finding(**entry) for entry in yaml.safe_load(path.read_text(encoding="utf-8"))]


def finding_rows(findings: Sequence[Finding], changes: Mapping[str, Changes]) -> list[list[str]]:
    """A row for each finding and each task that has it: the difference from the default, and what it tells."""
    rows = []
    for finding in findings:
        for task, result in changes.items():
            if (change := result.by_words.get(finding.change)) is not None:
                text = f"{finding.finding} {finding.published}: {finding.source}"
                metric = result.metric
                values = f"{metric.format(change.row.mean)} against {metric.format(result.default.mean)}"
                verdict = judge(finding.expected, change.difference)
                rows.append([text, task, f"{metric.label} {values}", verdict])
    return rows


def judge(expected: Expected, difference: MeanDifference | None) -> str:
    """Whether a finding held, by a difference from the default of which more than zero is worse.

    >>> judge("better", MeanDifference(-1.0, -1.5, -0.5, 0.0002, "pooled"))
    'yes, p < 0.001'
    >>> judge("equal", MeanDifference(-1.0, -1.5, -0.5, 0.0002, "pooled"))
    'no, better: p < 0.001'
    >>> judge("equal", MeanDifference(-1.0, -2.5, 0.5, 0.2, "pooled"))
    'not contradicted, no significant difference: p = 0.20'
    >>> judge("not worse", MeanDifference(-1.0, -1.5, -0.5, 0.0002, "pooled"))
    'yes, better: p < 0.001'
    >>> judge("worse", MeanDifference(-1.0, -2.5, 0.5, 0.2, "pooled"))
    'not significant: p = 0.20'
    """
    if difference is None:
        return "not tested, one seed each"
    p = p_text(difference.p)
    if difference.p >= SIGNIFICANCE_LEVEL:
        is_open = expected in ("better", "worse")
        return f"not significant: {p}" if is_open else f"not contradicted, no significant difference: {p}"
    measured = "worse" if difference.difference > 0 else "better"
    if expected == measured:
        return f"yes, {p}"
    has_held = expected.startswith("not ") and expected != f"not {measured}"
    return f"{'yes' if has_held else 'no'}, {measured}: {p}"
