"""Evaluates a trained run on its own test split or on another file, as the test at the end of training does."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from attnx import registry
from attnx.data.batches import as_batch
from attnx.data.dataset import PairDataset
from attnx.data.examples import Pair, digest
from attnx.data.features import FeatureScaler
from attnx.data.sample import sample_examples
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.inference.predictor import loss_results, metric_results
from attnx.inference.trained_run import BATCH_SIZE, TrainedRun, evaluation_mode
from attnx.inference.write_results import EvaluationResult
from attnx.runs.layout import VOCABULARY
from attnx.tasks.loss import token_loss


def open_evaluation(run: TrainedRun, test: Any, info: Mapping[str, Any]) -> tuple[TrainedRun, list[Pair]]:
    """The pairs to evaluate a run on, and the run, whose task is that of these pairs, with its notes on a file of them.

    ``test`` is as ``task.test`` names it; None is the run's own test split, whose data must have the digest that
    ``info``, the content of run.json, has: of the training split if it was held out, else of the examples tested on.

    Raises:
        UserError: the data are malformed, have changed, or cannot be read by the run.
    """
    config = run.config["task"]
    files = test if test is not None else config.get("test")
    task = registry.build("task", {**config, **({"test": files} if files is not None else {})})
    if files is not None:
        task.restore(run.folder / VOCABULARY)
        pairs: list[Pair] = task.test_pairs()
        run = replace(run, task=task)
        where = ", ".join(map(str, files if isinstance(files, list) else [files]))
        _check(run, pairs, where)
        if test is None and (expected := info.get("test_fingerprint")):
            tested = sample_examples(pairs, run.config["trainer"].get("test_examples"))
            _refuse_changed(run, run.data.evaluation_dataset(tested), expected)
    else:
        data = task.load()
        if expected := info.get("fingerprint"):
            _refuse_changed(run, data.train_dataset(), expected)
        pairs = data.pairs.test
        _check(run, pairs, "the test split")
    return run, pairs


def _refuse_changed(run: TrainedRun, rows: PairDataset, expected: str) -> None:
    """Refuse data that are no longer those of a digest."""
    if rows.fingerprint() != expected:
        raise UserError(
            f"{run.folder}: the data of its test split have changed since it was trained; restore them, or name "
            "other data with task.test=FILE"
        )


def trained_notes(run: TrainedRun, pairs: Sequence[Pair]) -> list[str]:
    """Say how many sources the run was trained on, where its training data can still be read."""
    if isinstance(run.source, FeatureScaler):  # whose sources have no text by which to know them again
        return []
    try:
        train = registry.build("task", run.config["task"]).load().pairs.train
    except (UserError, OSError):
        return []
    trained = {(pair.tag, pair.source) for pair in train}
    count = sum((pair.tag, pair.source) in trained for pair in pairs)
    return [f"{count:,} of {len(pairs):,} sources are also in the training split"] if count else []


def evaluate(run: TrainedRun, pairs: Sequence[Pair], batch_size: int = BATCH_SIZE) -> EvaluationResult:
    """Decode pairs, and measure the predictions by the metrics of the run's task."""
    metrics = nn.ModuleDict(run.task.metrics(run.tags))
    started = time.perf_counter()
    predictions = run.decode(pairs, batch_size=batch_size)
    seconds = time.perf_counter() - started
    for start in range(0, len(pairs), batch_size):
        part = predictions[start : start + batch_size]
        run.task.update(metrics, [prediction.output for prediction in part], [prediction.pair for prediction in part])
    if len(metrics):
        values = metric_results("test", metrics)
    else:  # the loss per step over all targets
        total, tokens = torch.zeros((), dtype=torch.float64), 0.0
        for start in range(0, len(pairs), batch_size):
            batch = as_batch(run.data.evaluation_dataset([*pairs[start : start + batch_size]]))
            with evaluation_mode(run.model):
                loss = token_loss(run.model, batch)
                total, tokens = total + loss.total.double(), tokens + float(loss.tokens)
        values = loss_results("test", total / tokens, run.target)
    results = {name: float(value) for name, value in values.items()}
    results |= {"test_examples": len(pairs), "seconds": seconds, "examples_per_second": len(pairs) / seconds}
    return EvaluationResult(results, metrics, predictions)


def fingerprint_of(pairs: Sequence[Pair]) -> str:
    """A hash of pairs, by which a changed file is noticed."""
    return hashlib.sha256(b"".join(map(digest, pairs))).hexdigest()[:16]


def _check(run: TrainedRun, pairs: Sequence[Pair], where: str) -> None:
    """Check that the run can read the sources, and that the references are of the kind that it predicts."""
    tags = run.tags or ("",)
    for pair in pairs:
        if pair.tag not in tags:
            known_tags = ", ".join(tags) if run.tags else "it has none"
            raise UserError(f"{where}: holds the tag {pair.tag!r}, which is not one of this run's: {known_tags}")
        for side, matrix, expected in (("source", pair.features, run.source), ("target", pair.target, run.target)):
            if isinstance(expected, Vocabulary):
                continue
            assert matrix is not None, "the task is the run's, so both sides have its kinds"
            if (width := matrix.shape[1]) != expected.width:
                subject = f"{where}: the {side} {pair.name}".rstrip()
                raise UserError(f"{subject} has {width} features a step, but this run was trained on {expected.width}")
