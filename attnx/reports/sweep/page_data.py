"""Everything that the page shows, as JSON can hold it."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from attnx.reports.measure_names import PERCENT, label, measure_base
from attnx.reports.stats.mean_difference import MeanDifference
from attnx.reports.sweep.attention_maps import maps
from attnx.reports.sweep.comparison import Comparison, MetricComparison
from attnx.reports.sweep.effects import Effect
from attnx.reports.sweep.load_runs import RunRecord
from attnx.reports.sweep.measures import value_of
from attnx.reports.sweep.ranking import RankedSetting
from attnx.reports.sweep.settings import short
from attnx.runs.layout import PAGE
from attnx.runs.status import RunStatus

COSTS = {
    "steps": "steps",
    "train_seconds": "training, s",
    "train_examples_per_second": "examples/s",
    "peak_memory_mb": "memory, MB",
    "peak_gpu_memory_mb": "GPU memory, MB",
    "parameters": "parameters",
}
WHOLE = 10  # costs that reach it are told in whole numbers
POINTS = 120  # of a curve, at most
FIGURES = 5  # significant ones of a curve's points


def content(title: str, found: Sequence[RunRecord], compared: Sequence[Comparison], home: Path) -> dict[str, Any]:
    """What is embedded in a page that lies in the folder ``home``."""
    runs = [run for one in compared for setting in one.settings for run in setting.runs]
    numbers = {run.path: number for number, run in enumerate(runs)}
    return {
        "title": title,
        "made": time.strftime("%Y-%m-%d %H:%M"),
        "counts": dict(Counter(run.status for run in found)),
        "comparisons": [_comparison(one, numbers) for one in compared],
        "runs": [_run(run, compared, home) for run in runs],
        "failures": [_failure(run, home) for run in found if run.status != RunStatus.FINISHED],
    }


def _comparison(one: Comparison, numbers: dict[Path, int]) -> dict[str, Any]:
    runs = [run for setting in one.settings for run in setting.runs]
    columns = dict.fromkeys(column for run in runs for column in run.curves)
    return {
        "title": one.title,
        "keys": short(one.keys),
        "constant": list(one.constant.items()),
        "again": one.again,
        "settings": [
            {"name": setting.name, "values": setting.values, "runs": [numbers[run.path] for run in setting.runs]}
            for setting in one.settings
        ],
        "measures": [_judged(judged) for judged in one.judged],
        "costs": [
            {"key": key, "label": told, "digits": 0 if max(values) >= WHOLE else 1}
            for key, told in COSTS.items()
            if (values := [run.results[key] for run in runs if key in run.results])
        ],
        "curves": [
            {"key": key, "label": _curve_label(key), "unit": "%" if measure_base(key, PERCENT) else ""}
            for key in _curves_first(runs[0].monitor, columns)
        ],
        "maps": maps(one),
    }


def _judged(judged: MetricComparison) -> dict[str, Any]:
    return {
        **judged.measure._asdict(),
        "verdict": judged.verdict,
        "rows": [_row(row) for row in judged.rows],
        "effects": [_effect(effect) for effect in judged.effects],
        "interactions": [{**pair._asdict(), "test": list(pair.test)} for pair in judged.interactions],
    }


def _row(row: RankedSetting) -> dict[str, Any]:
    measured = {"mean": row.mean, "sd": row.sd, "n": len(row.values), "interval": row.interval}
    return {"place": row.place, **measured, "gap": _gap(row.behind), "both": row.both_sources}


def _effect(effect: Effect) -> dict[str, Any]:
    levels = [[*level[:-1], _gap(level.behind)] for level in effect.levels]
    return {"name": effect.name, "levels": levels, "test": effect.test and list(effect.test)}


def _gap(gap: MeanDifference | None) -> list[Any] | None:
    return None if gap is None else list(gap)


def _run(run: RunRecord, compared: Sequence[Comparison], home: Path) -> dict[str, Any]:
    keys = dict.fromkeys(judged.measure.key for one in compared for judged in one.judged)
    values = {key: value for key in keys if (value := value_of(run, key)) is not None}
    return {
        "folder": str(run.path),
        "href": _href(run.path, home) + "/",
        "page": _href(run.path / PAGE, home) if (run.path / PAGE).is_file() else None,
        "seed": run.seed,
        "values": values,
        "costs": {key: run.results[key] for key in COSTS if key in run.results},
        "curves": {name: _thinned(points) for name, points in run.curves.items() if _is_shown(name)},
    }


def _failure(run: RunRecord, home: Path) -> dict[str, Any]:
    return {
        "name": run.label,
        "status": run.status,
        "error": run.error,
        "folder": str(run.path),
        "href": _href(run.path, home) + "/" if run.path.is_dir() else None,
        "log": _href(run.log, home) if run.log else None,
    }


def _href(path: Path, home: Path) -> str:
    return quote(os.path.relpath(path.resolve(), home.resolve()).replace(os.sep, "/"))


def _is_shown(column: str) -> bool:
    return column.startswith("valid_") or column == "train_loss"


def _curves_first(monitor: str, columns: dict[str, None]) -> list[str]:
    shown = [column for column in columns if _is_shown(column)]
    return sorted(shown, key=lambda column: column != monitor)


def _curve_label(column: str) -> str:
    return "training loss" if column == "train_loss" else label(column).removesuffix(", best")


def _thinned(points: dict[int, float]) -> list[list[float]]:
    """The steps and the values of a curve, evenly thinned if there are many."""
    steps = sorted(points)
    apart = -(-len(steps) // POINTS)
    kept = [step for number, step in enumerate(reversed(steps)) if number % apart == 0][::-1]
    return [[float(step) for step in kept], [float(f"{points[step]:.{FIGURES}g}") for step in kept]]
