"""Two layers of softmax attention learn associative recall; one layer knows only which values there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from attnx.config.compose import compose
from attnx.data.batches import Batch, as_batch, collate
from attnx.data.dataset import Rows
from attnx.models.resolve import DataSizes, resolve_model
from attnx.problems.probes.probe import Probe

ROWS, STEPS = 32, 300


def batches(rows: Rows) -> Iterator[Batch]:
    """Each row once."""
    for start in range(0, len(rows), ROWS):
        yield collate([rows[index] for index in range(start, start + ROWS)])


@pytest.mark.parametrize(("layers", "low", "high"), [(2, 99.0, 100.0), (1, 10.0, 40.0)])
def test_softmax_attention_needs_two_layers_for_associative_recall(
    layers: int, low: float, high: float, train: Callable[..., Any]
) -> None:
    """Arora et al. 2023, figure 2, at 64 steps and 4 pairs: one layer guesses among four values, 25 %."""
    torch.manual_seed(7)
    task = Probe(length=64, pairs=4, vocabulary=66, examples=ROWS * STEPS, num_held_out=256)
    data = task.load()
    sizes = ["model.hidden_size=64", f"model.layers={layers}", "model.dropout=0"]
    resolved = resolve_model(compose(["recipe=mqar", *sizes]))
    model = resolved.build(DataSizes(source_symbols=len(data.source), target_symbols=len(data.target)))

    def factor(step: int) -> float:
        return min(1, (step + 1) / 50, (STEPS - step) / 150)

    train(model, batches(data.train_dataset()).__next__, STEPS, lr=0.004, factor=factor)
    batch = as_batch(data.evaluation_dataset(data.pairs.test))
    assert batch.loss_mask is not None
    with torch.inference_mode():
        output = model(batch.source, batch.source_mask, batch.source, output_mask=batch.loss_mask)
    is_right = model.target.greedy(output.logits).output == batch.target[batch.loss_mask]
    assert low <= 100 * float(is_right.double().mean()) <= high
