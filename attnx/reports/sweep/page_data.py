"""The data of the report page, as JSON."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from attnx.data.evenly_spaced import evenly_spaced_indices
from attnx.errors import UserError
from attnx.reports.metric_names import is_percent, metric_label
from attnx.reports.pages.run_page import ExampleKey, example_key, output_data, scale_weights
from attnx.reports.sweep.comparison import Comparison
from attnx.reports.sweep.metrics import COSTS, run_value
from attnx.reports.sweep.run_record import RunRecord, group_failures
from attnx.reports.sweep.settings import short_keys
from attnx.runs.alignments import Alignment, read_best_alignments
from attnx.runs.layout import PAGE

ROW_KEYS = ("mean", "sd", "interval", "difference", "both_sources")
MIN_INTEGER_COST = 10  # costs that reach it are shown without decimals
MAX_CURVE_POINTS = 120
CURVE_DIGITS = 5  # significant digits
MAX_MAP_SETTINGS, MAX_MAP_EXAMPLES = 4, 8
PREFERRED_SIZE, MAX_SIZE = 32, 128  # rows or columns of a map; without a smaller one, one of up to the latter


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
        "failures": [
            {
                "name": failure.name,
                "status": failure.runs[0].status,
                "status_text": failure.status,
                "error": failure.error,
                "href": _folder_href(failure.runs[0].path, home),
                "logs": [{"text": str(run.log), "href": _href(run.log, home)} for run in failure.runs if run.log],
            }
            for failure in group_failures(records)
        ],
    }


def _comparison(comparison: Comparison, indices: dict[Path, int]) -> dict[str, Any]:
    runs = [run for setting in comparison.settings for run in setting.runs]
    costs = {key: [run.results[key] for run in runs if key in run.results] for key in COSTS}
    columns = dict.fromkeys(column for run in runs for column in run.curves if _is_shown(column))
    return {
        "title": comparison.title,
        "keys": short_keys(comparison.keys),
        "chosen_keys": comparison.columns[len(comparison.keys) :],
        "constant": list(comparison.constant.items()),
        "superseded": comparison.superseded,
        "settings": [
            {
                "name": setting.name,
                "values": setting.values,
                "chosen": setting.cells[len(setting.values) :],
                "runs": [indices[run.path] for run in setting.runs],
                "unfinished_seeds": setting.unfinished_seeds,
            }
            for setting in comparison.settings
        ],
        "metrics": [
            {
                **ranking.metric._asdict(),
                "verdict": ranking.verdict,
                "rows": [
                    {"setting": row.setting_index, **{key: getattr(row, key) for key in ROW_KEYS}}
                    | {"n": len(row.values), "scale_mean": ranking.scale_mean(row)}
                    for row in ranking.rows
                ],
                "effects": [effect._asdict() for effect in ranking.effects],
                "interactions": [pair._asdict() for pair in ranking.interactions],
                "effects_summary": ranking.effects_summary,
            }
            for ranking in comparison.rankings
        ],
        "costs": [
            {
                "key": key,
                "label": COSTS[key],
                "digits": 0 if max(values) >= MIN_INTEGER_COST else 1 if max(values) >= 1 else 3,
                "is_by_context": key.rpartition("_")[2].isdecimal(),
            }
            for key, values in costs.items()
            if values
        ],
        "curves": [
            {
                "key": key,
                "label": "training loss" if key == "train_loss" else metric_label(key).removesuffix(", best"),
                "unit": "%" if is_percent(key) else "",
            }
            for key in sorted(columns, key=lambda column: column != runs[0].monitor)
        ],
        "maps": _attention_maps(comparison),
    }


def _run(run: RunRecord, compared: Sequence[Comparison], home: Path) -> dict[str, Any]:
    keys = dict.fromkeys(ranking.metric.key for comparison in compared for ranking in comparison.rankings)
    values = {key: value for key in keys if (value := run_value(run, key)) is not None}
    curves = {}
    for name in filter(_is_shown, run.curves):  # thinned evenly, with the last point
        points = sorted(run.curves[name].items())
        points = points[:: -max(1, -(-len(points) // MAX_CURVE_POINTS))][::-1]
        curves[name] = [
            [float(step) for step, _ in points],
            [float(f"{value:.{CURVE_DIGITS}g}") for _, value in points],
        ]
    return {
        "folder": str(run.path),
        "href": _folder_href(run.path, home),
        "page": _href(run.path / PAGE, home) if (run.path / PAGE).is_file() else None,
        "seed": run.seed,
        "values": values,
        "costs": {key: run.results[key] for key in COSTS if key in run.results},
        "curves": curves,
    }


def _folder_href(folder: Path, home: Path) -> str | None:
    """A link to a folder; None if it is gone."""
    return _href(folder, home) + "/" if folder.is_dir() else None


def _href(path: Path, home: Path) -> str:
    return quote(os.path.relpath(path.resolve(), home.resolve()).replace(os.sep, "/"))


def _is_shown(column: str) -> bool:
    return column.startswith("valid_") or column == "train_loss"


def _attention_maps(comparison: Comparison) -> dict[str, Any] | None:
    """Heat maps of examples that the best run of each of the best settings saved, evenly from short to long.

    None without small alignments.
    """
    if not comparison.rankings:
        return None
    best = max if comparison.rankings[0].metric.is_higher_better else min
    selected: list[tuple[int, RunRecord, dict[ExampleKey, Alignment]]] = []
    for row in comparison.rankings[0].rows:
        seed = best(row.values, key=row.values.__getitem__)
        run = next(run for run in row.runs if run.seed == seed)
        with suppress(UserError):  # what cannot be read hides no result
            bests = read_best_alignments(run.path) if len(selected) < MAX_MAP_SETTINGS else []
            selected += [(row.setting_index, run, {example_key(best): best for best in bests})] if bests else []
    if not selected:
        return None
    maps = []
    shared = [key for key in selected[0][2] if all(key in examples for _, _, examples in selected)]
    sizes = {key: max(max(examples[key].weights.shape) for _, _, examples in selected) for key in shared}
    by_size = sorted(sizes, key=sizes.__getitem__)
    small = [key for key in by_size if sizes[key] <= PREFERRED_SIZE]
    shown = small or [key for key in by_size[:1] if sizes[key] <= MAX_SIZE]
    for key in [shown[index] for index in evenly_spaced_indices(len(shown), MAX_MAP_EXAMPLES)]:
        bests = [examples[key] for _, _, examples in selected]
        weights = [{**output_data(best), "weights": scale_weights(best.weights)} for best in bests]
        maps.append({"source": key[0], "name": key[1], "reference": bests[0].reference, "maps": weights})
    if not maps:
        return None
    return {"settings": [{"setting": index, "seed": run.seed} for index, run, _ in selected], "examples": maps}
