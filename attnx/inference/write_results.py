"""Writes what a test or an evaluation gave: results.json, predictions.tsv, bootstrap samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from attnx.files.atomic_files import write_arrays, write_json, write_text
from attnx.inference.metric_intervals import baseline_differences, bootstrap_metrics, measure_intervals
from attnx.inference.predictor import Prediction
from attnx.metrics.aligned_errors import aligned_errors
from attnx.metrics.nearest_reference import nearest_reference
from attnx.runs.layout import BASELINES, INTERVALS, MATRICES, PREDICTIONS, RESAMPLED, RESULTS, SIGNATURES
from attnx.runs.predictions import write_field, write_symbols
from attnx.tasks.contract import SequenceTask

# Columns of predictions.tsv that are left out if they are empty.
OPTIONAL_COLUMNS = ("tag", "name", "texts", "identity")


class EvaluationResult(NamedTuple):
    """The result of a test or an evaluation: metrics and speed, what measured them, and the predictions."""

    results: Mapping[str, float]
    metrics: nn.ModuleDict
    predictions: Sequence[Prediction]


def save_evaluation(folder: Path, task: SequenceTask, tags: Sequence[str], result: EvaluationResult) -> None:
    """Write results.json, predictions.tsv (and .npz), and resampled.npz, if there are bootstrap samples."""
    results, metrics, predictions = result
    resampled = bootstrap_metrics(task, tags, predictions)
    sections = {
        INTERVALS: measure_intervals(task, tags, predictions, resampled),
        BASELINES: baseline_differences(task, results, resampled),
        SIGNATURES: task.signatures(metrics),
    }
    # Numbers that are not finite become null.
    write_json(folder / RESULTS, {**results, **{name: section for name, section in sections.items() if section}})
    save_predictions(folder, predictions)
    if resampled:
        write_arrays(folder / RESAMPLED, resampled)


def save_predictions(folder: Path, predictions: Sequence[Prediction]) -> None:
    """Write ``predictions.tsv``, a line each; matrices are in ``predictions.npz``.

    The columns ``tag``, ``name``, ``texts`` and ``identity`` come last, if pairs have tags, names, references as text
    (which identify them), or an identity other than their source.
    """
    matrices: dict[str, Any] = {}
    rows: list[dict[str, str]] = []
    for index, prediction in enumerate(predictions):
        pair = prediction.pair
        row = {"source": write_symbols(pair.source)}
        if isinstance(prediction.output, list):
            edits, _ = nearest_reference(prediction.output, pair.references)
            row["prediction"] = write_symbols(prediction.output)
            row |= {"references": " | ".join(map(write_symbols, pair.references)), "edits": str(edits)}
        else:
            assert pair.target is not None
            matrices |= {f"prediction_{index}": prediction.output, f"reference_{index}": pair.target}
            median = prediction.output[:, : pair.target.shape[1]]  # of several quantiles it is the first
            errors = aligned_errors([median], [pair.target])
            row |= {"prediction": f"prediction_{index}", "reference": f"reference_{index}"}
            row |= {"steps": str(len(prediction.output)), "reference_steps": str(len(pair.target))}
            row["mean_absolute_error"] = f"{np.abs(errors).mean():.6g}"
            row["root_mean_squared_error"] = f"{np.sqrt(np.square(errors).mean()):.6g}"
        row |= {"log_probability": f"{prediction.log_probability:.6f}", "tag": write_field(pair.tag)}
        row |= {"name": write_field(pair.name), "texts": " | ".join(write_symbols(text.split()) for text in pair.texts)}
        rows.append(row | {"identity": "" if pair.texts else write_symbols(pair.identity)})
    columns = [name for name in rows[0] if name not in OPTIONAL_COLUMNS or any(row[name] for row in rows)]
    lines = [columns, *([row[name] for name in columns] for row in rows)]
    write_text(folder / PREDICTIONS, "".join("\t".join(line) + "\n" for line in lines))
    if matrices:
        write_arrays(folder / MATRICES, matrices)
