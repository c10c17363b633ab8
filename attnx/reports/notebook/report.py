"""A report in a notebook: its conclusions and rankings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnx.reports.notebook.fragments import escaped, html_table, note
from attnx.reports.sweep.failures import group_failures
from attnx.reports.sweep.markdown import describe_runs, ranking_head, ranking_rows

if TYPE_CHECKING:
    from attnx.reports.sweep.comparison import Comparison
    from attnx.reports.sweep.report import Report


def report_html(report: Report) -> str:
    """A report as a fragment of HTML: of each comparison the conclusions and the ranking, then what did not finish."""
    blocks = [f"<div><b>{escaped(report.title)}</b>: {escaped(describe_runs(report.runs))}</div>"]
    blocks += [block for comparison in report.comparisons for block in _comparison(comparison)]
    blocks += [note(failure.describe()) for failure in group_failures(report.runs)]
    return f"<div>{''.join(blocks)}</div>"


def _comparison(comparison: Comparison) -> Iterator[str]:
    yield f"<p><b>{escaped(comparison.title)}</b></p>"
    if comparison.rankings:
        yield from (f"<p>{_sentence(sentence)}</p>" for sentence in comparison.rankings[0].verdict)
        yield html_table(ranking_head(comparison), ranking_rows(comparison))


def _sentence(markdown: str) -> str:
    """A conclusion, whose names are in double asterisks and whose commands are in backquotes."""
    bold = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", escaped(markdown))
    return re.sub(r"`(.+?)`", r"<code>\1</code>", bold)
