"""The data of the report page, as JSON."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from attnx.reports.measure_names import PERCENT, label, measure_base
from attnx.reports.sweep.attention_maps import attention_maps
from attnx.reports.sweep.comparison import Comparison, MetricComparison
from attnx.reports.sweep.effects import Effect
from attnx.reports.sweep.load_runs import RunRecord
from attnx.reports.sweep.measures import run_value
from attnx.reports.sweep.ranking import RankedSetting
from attnx.reports.sweep.settings import short_keys
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
MIN_INTEGER_COST = 10  # costs that reach it are shown without decimals
MAX_CURVE_POINTS = 120
CURVE_DIGITS = 5  # significant digits


def page_data(title: str, records: Sequence[RunRecord], compared: Sequence[Comparison], home: Path) -> dict[str, Any]:
    """The data embedded in a page in the folder ``home``."""
    runs = [run for comparison in compared for setting in comparison.settings for run in setting.runs]
    indices = {run.path: index for index, run in enumerate(runs)}
    return {
        "title": title,
        "made": time.strftime("%Y-%m-%d %H:%M"),
        "counts": dict(Counter(run.status for run in records)),
        "comparisons": [_comparison(comparison, indices) for comparison in compared],
        "runs": [_run(run, compared, home) for run in runs],
        "failures": [_failure(run, home) for run in records if run.status != RunStatus.FINISHED],
    }


def _comparison(comparison: Comparison, indices: dict[Path, int]) -> dict[str, Any]:
    runs = [run for setting in comparison.settings for run in setting.runs]
    costs = {key: [run.results[key] for run in runs if key in run.results] for key in COSTS}
    return {
        "title": comparison.title,
        "keys": short_keys(comparison.keys),
        "constant": list(comparison.constant.items()),
        "superseded": comparison.superseded,
        "settings": [
            {"name": setting.name, "values": setting.values, "runs": [indices[run.path] for run in setting.runs]}
            for setting in comparison.settings
        ],
        "measures": [_metric(metric) for metric in comparison.metrics],
        "costs": [
            {"key": key, "label": COSTS[key], "digits": 0 if max(values) >= MIN_INTEGER_COST else 1}
            for key, values in costs.items()
            if values
        ],
        "curves": [
            {"key": key, "label": _curve_label(key), "unit": "%" if measure_base(key, PERCENT) else ""}
            for key in _curve_columns(runs)
        ],
        "maps": attention_maps(comparison),
    }


def _metric(metric: MetricComparison) -> dict[str, Any]:
    return {
        **metric.measure._asdict(),
        "verdict": metric.verdict,
        "rows": [_row(row) for row in metric.rows],
        "effects": [_effect(effect) for effect in metric.effects],
        "interactions": [{**pair._asdict(), "test": list(pair.test)} for pair in metric.interactions],
    }


def _row(row: RankedSetting) -> dict[str, Any]:
    return {
        "setting": row.setting,
        "mean": row.mean,
        "sd": row.sd,
        "n": len(row.values),
        "interval": row.interval,
        "difference": row.difference,
        "both": row.both_sources,
    }


def _effect(effect: Effect) -> dict[str, Any]:
    return {"name": effect.name, "levels": [list(level) for level in effect.levels], "test": effect.test}


def _run(run: RunRecord, compared: Sequence[Comparison], home: Path) -> dict[str, Any]:
    keys = dict.fromkeys(metric.measure.key for comparison in compared for metric in comparison.metrics)
    values = {key: value for key in keys if (value := run_value(run, key)) is not None}
    return {
        "folder": str(run.path),
        "href": _href(run.path, home) + "/",
        "page": _href(run.path / PAGE, home) if (run.path / PAGE).is_file() else None,
        "seed": run.seed,
        "values": values,
        "costs": {key: run.results[key] for key in COSTS if key in run.results},
        "curves": {name: _thin(points) for name, points in run.curves.items() if _is_shown(name)},
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


def _curve_columns(runs: Sequence[RunRecord]) -> list[str]:
    """The columns shown as curves, the monitored one first."""
    columns = dict.fromkeys(column for run in runs for column in run.curves if _is_shown(column))
    return sorted(columns, key=lambda column: column != runs[0].monitor)


def _curve_label(column: str) -> str:
    return "training loss" if column == "train_loss" else label(column).removesuffix(", best")


def _thin(points: dict[int, float]) -> list[list[float]]:
    """The steps and values of a curve, thinned evenly, with the last point."""
    steps = sorted(points)
    steps = steps[:: -max(1, -(-len(steps) // MAX_CURVE_POINTS))][::-1]
    return [[float(step) for step in steps], [float(f"{points[step]:.{CURVE_DIGITS}g}") for step in steps]]
