"""Trained runs and predictions in a notebook."""

from __future__ import annotations

from collections.abc import Sequence

from attnx.decoding.ensemble import Ensemble
from attnx.errors import UserError
from attnx.files.parse_number import count_phrase
from attnx.inference.predictor import Prediction
from attnx.inference.trained_run import TrainedRun
from attnx.reports.pages.notebook import has_room, heat_map, html_table, run_html
from attnx.runs.run import read_run

HEAD = ("source", "output", "log-probability")


def trained_run_html(trained: TrainedRun) -> str | None:
    """The run of a folder, or an ensemble's first one; None if it cannot be read any more."""
    remark = ""
    if isinstance(trained.model, Ensemble):
        remark = f"the first of {count_phrase(len(trained.model.members), 'run')} that predict together"
    try:
        return run_html(read_run(trained.folder), remark)
    except UserError:
        return None


def predictions_html(predictions: Sequence[Prediction]) -> str:
    """A table with a row per prediction."""
    rows = []
    for item in predictions:
        output = item.output
        text = " ".join(output) if isinstance(output, list) else f"{len(output)} steps of {output.shape[1]} numbers"
        rows.append((item.pair.name or " ".join(item.pair.source), text, f"{item.log_probability:.4g}"))
    return html_table(HEAD, rows)


def prediction_html(prediction: Prediction) -> str:
    """A prediction above its alternatives, and its attention weights, if they are few enough to show."""
    table = predictions_html([prediction, *prediction.alternatives])
    alignment = prediction.alignment
    if alignment is None or not has_room(alignment.weights):
        return table
    return table + heat_map(alignment.weights, alignment.source, alignment.output)
