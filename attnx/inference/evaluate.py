"""Measures a reopened run on its own test part, or on any other file, as the test that ends a training does."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnx import registry
from attnx.data.batches import collate
from attnx.data.examples import Pair, digest
from attnx.data.features import Features
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.inference.baseline_differences import baseline_differences
from attnx.inference.metric_bootstrap import Numbers, bootstrap_metrics
from attnx.inference.metric_intervals import measure_intervals
from attnx.inference.trained_run import BATCH, OpenRun
from attnx.runs.layout import VOCABULARY
from attnx.runs.results_json import BaselineDifference, Interval
from attnx.tasks.protocols import signatures_of, token_loss
from attnx.training.lightning_module import Prediction, computed, losses


class EvaluationResult(NamedTuple):
    """What an evaluation found.

    Attributes:
        results: the task's measures and the speed, flat.
        intervals: the 95 % intervals of the measures.
        baselines: how much the run differs from each baseline, by its name and the measure's.
        predictions: in the order of the pairs.
        signatures: the exact definitions of the measures, where the task has them.
        drawn: the measures of other draws of the pairs.
    """

    results: dict[str, float]
    intervals: dict[str, Interval]
    baselines: dict[str, dict[str, BaselineDifference]]
    predictions: list[Prediction]
    signatures: dict[str, str]
    drawn: dict[str, Numbers]


def pairs_to_judge(run: OpenRun, test: Any = None, fingerprint: str = "") -> list[Pair]:
    """What a run is to be evaluated on.

    Args:
        run: the run.
        test: as ``task.test`` names it; None for the run's own test part.
        fingerprint: of the training data that the run began with, out of which its own part may be held.

    Raises:
        UserError: the data are malformed, are not those of the run, or hold what it cannot read.
    """
    config = run.config["task"]
    named = test if test is not None else config.get("test")
    task = registry.build("task", {**config, **({"test": named} if named is not None else {})})
    if named is not None and hasattr(task, "test_pairs"):
        task.restore(run.folder / VOCABULARY)
        pairs: list[Pair] = task.test_pairs()
        where = ", ".join(map(str, named if isinstance(named, list) else [named]))
    else:
        data = task.load()
        if fingerprint and data.train_rows().fingerprint() != fingerprint:
            raise UserError(
                f"{run.folder}: the data out of which its test part was held are not those the run began with; put "
                "them back, or name other data with task.test=FILE"
            )
        pairs, where = data.pairs.test, "the test part"
    _check(run, pairs, where)
    return pairs


def measure(run: OpenRun, pairs: Sequence[Pair], batch: int = BATCH) -> EvaluationResult:
    """Decode pairs, and measure what was written as the run's task does."""
    task = run.experiment.task
    metrics = nn.ModuleDict(task.metrics(run.experiment.data.tags))
    started = time.perf_counter()
    predictions = run.decode(pairs, batch=batch)
    taken = time.perf_counter() - started
    for start in range(0, len(pairs), batch):
        some = predictions[start : start + batch]
        task.update(metrics, [one.output for one in some], [one.pair for one in some])
    measured = computed("test", metrics) if metrics else losses("test", _loss(run, pairs, batch), run.target)
    results = {name: float(value) for name, value in measured.items()}
    results |= {"test_examples": len(pairs), "seconds": taken, "examples_per_second": len(pairs) / taken}
    drawn = bootstrap_metrics(task, run.experiment.data.tags, predictions)
    intervals = measure_intervals(task, run.experiment.data.tags, predictions, drawn)
    baselines = baseline_differences(task, results, drawn)
    return EvaluationResult(results, intervals, baselines, predictions, signatures_of(task, metrics), drawn)


def _loss(run: OpenRun, pairs: Sequence[Pair], batch: int) -> Tensor:
    """The loss per step over all targets: what counts where a task has no metrics."""
    rows = run.experiment.data.judged_rows(list(pairs))
    total, tokens = torch.zeros((), dtype=torch.float64), 0.0
    with torch.inference_mode():
        for start in range(0, len(rows), batch):
            some = collate([rows[row] for row in range(start, min(start + batch, len(rows)))])
            loss = token_loss(run.model, some)
            total, tokens = total + loss.total.double(), tokens + float(loss.tokens)
    return total / tokens


def fingerprint_of(pairs: Sequence[Pair]) -> str:
    """A hash of pairs, to tell whether a file has changed."""
    return hashlib.sha256(b"".join(map(digest, pairs))).hexdigest()[:16]


def _check(run: OpenRun, pairs: Sequence[Pair], where: str) -> None:
    """See that the run can read the sources, and that the references are what it writes."""
    tags = run.experiment.data.tags or ("",)
    for pair in pairs:
        if pair.tag not in tags:
            known = ", ".join(tags) if run.experiment.data.tags else "it knows none"
            raise UserError(f"{where}: holds the tag {pair.tag!r}, which is not one that this run knows: {known}")
        for side, matrix, measured in (("source", pair.features, run.source), ("target", pair.target, run.target)):
            if isinstance(measured, Vocabulary):
                continue
            assert matrix is not None, "the task is the run's, so the sides are of the same kind"
            _check_width(matrix.shape[1], measured, f"{where}: the {side} {pair.name}".rstrip())


def _check_width(width: int, measured: Features, what: str) -> None:
    if width != measured.width:
        raise UserError(f"{what} has {width} features a step, but this run was trained on {measured.width}")
