"""Softmax attention learns associative recall in two layers, not in one; a window recalls what stands in it."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from attnx.config.compose import compose
from attnx.data.batches import Batch, as_batch, collate
from attnx.data.dataset import PairDataset
from attnx.models.resolve import DataSizes, resolve_model
from attnx.problems.probes.probe import Probe

ROWS = 32


def batches(rows: PairDataset) -> Iterator[Batch]:
    """Each row once."""
    for start in range(0, len(rows), ROWS):
        yield collate([rows[index] for index in range(start, start + ROWS)])


def train_and_test(task: Probe, train: Callable[..., Any], *overrides: str) -> tuple[Any, Any]:
    """Whether each label of the test split is right (n,), and how many steps before it its answer stands (n,)."""
    torch.manual_seed(7)
    data = task.load()
    resolved = resolve_model(compose(["recipe=mqar", "model.hidden_size=64", "model.dropout=0", *overrides]))
    model = resolved.build(DataSizes(source_symbols=len(data.source), target_symbols=len(data.target)))
    rows = data.train_dataset()
    steps = len(rows) // ROWS

    def factor(step: int) -> float:
        return min(1, (step + 1) / 50, (steps - step) / (steps / 2))

    train(model, batches(rows).__next__, steps, lr=0.004, factor=factor)
    batch = as_batch(data.evaluation_dataset(data.pairs.test))
    assert batch.loss_mask is not None
    with torch.inference_mode():
        output = model(batch.source, batch.source_mask, batch.source, output_mask=batch.loss_mask)
    is_right = model.target.greedy(output.logits).output == batch.target[batch.loss_mask]
    distances = np.array([pair.distances for pair in data.pairs.test])
    return is_right.numpy(), distances[batch.loss_mask.numpy()]


@pytest.mark.parametrize(("layers", "low", "high"), [(2, 99.0, 100.0), (1, 10.0, 40.0)])
def test_softmax_attention_needs_two_layers_for_associative_recall(layers, low, high, train):
    """Arora et al. 2023, figure 2, at 32 steps and 4 pairs: one layer guesses among four values, 25 %."""
    task = Probe(length=32, pairs=4, vocabulary=34, examples=ROWS * 320, num_held_out=256)
    is_right, _ = train_and_test(task, train, f"model.layers={layers}")
    assert low <= 100 * is_right.mean() <= high


@pytest.mark.parametrize(
    ("scope", "is_far_read"),
    [("{name: local, window: 4}", False), ("{name: local, window: 4, global_tokens: 2}", True)],
)
def test_a_window_recalls_nothing_beyond_it_unless_tokens_are_global(scope, is_far_read, train):
    """Two layers read 8 steps back by a window of 4; the pair is the first two steps, which may be global."""
    task = Probe(length=32, pairs=1, power=1.0, vocabulary=34, examples=ROWS * 150, num_held_out=256)
    is_right, distances = train_and_test(task, train, f"model.self_scope={scope}")
    assert is_right[distances <= 4].mean() > 0.9
    assert (is_right[distances > 8].mean() > 0.9) == is_far_read
    assert is_far_read or is_right[distances > 8].mean() < 0.2
