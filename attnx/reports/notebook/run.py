"""A run in a notebook: its status, options, results and one alignment."""

from __future__ import annotations

from contextlib import suppress

from attnx.errors import UserError
from attnx.reports.notebook.fragments import escaped, has_room, heat_map, html_table, link, note, side_by_side
from attnx.reports.run.start_table import OVERRIDE, option_rows
from attnx.reports.run.tables import result_rows
from attnx.runs.alignments import read_best_alignments
from attnx.runs.layout import PAGE
from attnx.runs.run import Run


def run_html(run: Run, remark: str = "") -> str:
    """A run as a fragment of HTML; ``remark`` is a line below its name.

    Raises:
        UserError: a file of the run cannot be read.
    """
    links = [link(run.path, str(run.path)), *([link(run.path / PAGE, "page")] if (run.path / PAGE).is_file() else [])]
    heading = f"<div><b>{escaped(run.name)}</b>, {escaped(run.status)}: {', '.join(links)}</div>"
    options = ((row.key, row.value, OVERRIDE if row.is_override else "") for row in option_rows(run))
    results = html_table(("metric", "value", "95 % interval", ""), result_rows(run))
    blocks = [html_table(("option", "value", ""), options), results, _alignment(run)]
    return f"<div>{heading}{note(remark) if remark else ''}{side_by_side(blocks)}</div>"


def _alignment(run: Run) -> str:
    """The heat map of the longest saved alignment that a notebook has room for; "" without one."""
    with suppress(UserError):  # what cannot be read hides no result
        fitting = [alignment for alignment in read_best_alignments(run.path) if has_room(alignment.weights)]
        if fitting:
            longest = max(fitting, key=lambda alignment: alignment.weights.size)
            return heat_map(longest.weights, longest.source, longest.output)
    return ""
