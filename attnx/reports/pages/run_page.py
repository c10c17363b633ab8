"""Writes one page of a run, or of two side by side, that needs nothing but a browser: run_page.html, .css and .js.

All it shows is embedded in it as JSON, and its content security policy lets it load nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnx.config.view import node_text
from attnx.errors import UserError
from attnx.reports.figures.local_windows import Window, read_window
from attnx.reports.pages.html_template import filled
from attnx.reports.run.readme import SETTING
from attnx.reports.run.results_table import result_rows
from attnx.reports.stats.alignment_statistics import Statistics, run_statistics, statistics_rows, with_gold
from attnx.runs.alignments import Alignment, Weights, read_examples
from attnx.runs.layout import PAGE
from attnx.runs.run import Run, read_run

THOUSAND = 1000  # weights are written in thousandths
MOST = 2

Example = tuple[tuple[str, ...], str]


def write_page(folders: Sequence[Path | str], path: Path | str | None = None) -> Path:
    """Write the page of one run or two, ``page.html`` in the first one's folder unless told otherwise.

    Raises:
        UserError: no run or too many, no run folder, or one without alignments.
    """
    text = run_page(folders)
    target = Path(path) if path is not None else Path(folders[0]) / PAGE
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{target}: cannot be written ({error.strerror})") from error
    return target


def run_page(folders: Sequence[Path | str]) -> str:
    """The page's text.

    Raises:
        UserError: no run or too many, no run folder, or one without alignments.
    """
    if not 1 <= len(folders) <= MOST:
        raise UserError(f"a page shows one run, or two side by side, and not {len(folders)}")
    runs = [read_run(folder) for folder in folders]
    told = [_told(run, with_gold(run.path, run_statistics(run.path)[""])) for run in runs]
    content = {"runs": told, "examples": _together([_examples(run) for run in runs])}
    return filled(Path(__file__), " and ".join(run.name for run in runs), content)


def _told(run: Run, found: Statistics) -> dict[str, Any]:
    """What tables say of a run, rows of text."""
    facts = [(key, node_text(run.config[key])) for key in SETTING if key in run.config]
    facts += [("command", str(run.info["command"]))] if run.info.get("command") else []
    results = [
        (row.measure, row.value + (f" ({row.interval})" if row.interval else ""), row.remark)
        for row in result_rows(run)
    ]
    return {"name": run.name, "results": results, "facts": facts, "statistics": statistics_rows(found)}


def _examples(run: Run) -> dict[tuple[Example, int], list[dict[str, Any]]]:
    """A run's examples by what they read, and how often that came before -> their hypotheses."""
    window = read_window(run.config)
    found: dict[tuple[Example, int], list[dict[str, Any]]] = {}
    for held in read_examples(run.path):
        best, *_ = hypotheses = list(held.values())
        # Where no source was read, what should have been written tells examples apart.
        example = (best.read, best.name if best.read else " ".join(best.reference))
        before = sum(key[0] == example for key in found)
        found[example, before] = [_hypothesis(one, window) for one in hypotheses]
    return found


def _together(runs: Sequence[Mapping[tuple[Example, int], list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """The examples of all runs, those that two have in common side by side."""
    keys = dict.fromkeys(key for run in runs for key in run)
    return [
        {"read": read, "name": name if read else "", "runs": [run.get(((read, name), before)) for run in runs]}
        for (read, name), before in keys
    ]


def _hypothesis(one: Alignment, window: Window | None) -> dict[str, Any]:
    return {
        "output": one.output,
        "reference": one.reference,
        "wrong": one.wrong,
        "judged": one.judged and not one.steps,
        "steps": one.steps,
        "own": one.own,
        "score": one.score if one.score is not None and math.isfinite(one.score) else None,
        "views": [_view(name, weights, one, window) for name, weights in one.views.items()],
    }


def _view(name: str, weights: Weights, one: Alignment, window: Window | None) -> dict[str, Any]:
    thousandths = np.rint(np.nan_to_num(weights).clip(0) * THOUSAND).astype(int).ravel().tolist()
    known = window and (window.is_monotonic or one.heads is None or name != "mean")
    held = [_ranges(row) for row in window.mask(weights, one.own)] if window and known else None
    return {"name": name, "weights": thousandths, "held": held}


def _ranges(row: NDArray[np.bool_]) -> list[int]:
    """Where runs of True begin and end: ``[1, 3, 5, 6]`` are positions 1, 2 and 5."""
    return [int(place) for place in np.flatnonzero(np.diff(np.pad(row.astype(np.int8), 1)))]
