"""The speed that is measured at steps, and the random numbers that they draw, by hand."""

from types import SimpleNamespace
from typing import Any

import torch

from attnx.training.callbacks.per_batch_seed import PerBatchSeed
from attnx.training.callbacks.throughput import Throughput


def test_speed_is_that_of_steps_after_the_warm_up_without_validations():
    """Two ranks, whose batches have two rows and a dummy one, and five symbols; loading takes 1 s, a step 2 s."""
    now = 100.0
    rows = torch.tensor([3, 0, -1])
    batch = SimpleNamespace(row_index=rows, target_mask=torch.tensor([[1, 1, 1], [1, 1, 0], [0, 0, 0]]) > 0)
    throughput, trainer = Throughput(lambda: now), SimpleNamespace(world_size=2)
    step: Any = (trainer, None, batch), (trainer, None, None, batch)

    def train() -> None:
        nonlocal now
        now += 1
        throughput.on_train_batch_start(*step[0])
        now += 2
        throughput.on_train_batch_end(*step[1])

    for _ in range(3):
        train()
    assert (throughput.examples_per_second, throughput.tokens_per_second) == (0, 0)
    for _ in range(2):
        train()
    throughput.on_validation_start()
    now += 50
    train()  # whose batch was loaded before the clock started again
    expected = {"examples": 3 * 4, "tokens": 3 * 10, "seconds": 3.0 + 3.0 + 2.0}
    state = throughput.state_dict()
    assert {name: state[name] for name in expected} == expected
    assert (throughput.examples_per_second, throughput.tokens_per_second) == (12 / 8, 30 / 8)
    assert throughput.elapsed == state["elapsed"] == 6 * 3 + 50
    now += 1000
    resumed = Throughput(lambda: now)
    resumed.load_state_dict(state)
    now += 7
    assert (resumed.elapsed, resumed.tokens_per_second) == (68 + 7, 30 / 8)


def draw(seed: int, event: str, epoch: int = 0, batch: int = 0, step: int = 0, rank: int = 0) -> float:
    trainer: Any = SimpleNamespace(current_epoch=epoch, global_step=step, global_rank=rank)
    getattr(PerBatchSeed(seed), event)(trainer, None, *([None, batch] if "batch" in event else []))
    return float(torch.rand(()))


def test_each_batch_validation_and_rank_has_its_own_random_numbers():
    batches = [
        (seed, epoch, number, rank) for seed in (1, 2) for epoch in (0, 1) for number in (0, 2) for rank in (0, 3)
    ]
    training = [draw(seed, "on_train_batch_start", epoch, number, rank=rank) for seed, epoch, number, rank in batches]
    steps = [(seed, step, rank) for seed in (1, 2) for step in (5, 7) for rank in (0, 3)]
    validation = [draw(seed, "on_validation_start", step=step, rank=rank) for seed, step, rank in steps]
    assert len({*training, *validation}) == len(batches) + len(steps)
    assert draw(2, "on_train_batch_start", epoch=1, batch=2, step=99) == training[batches.index((2, 1, 2, 0))]
    assert draw(2, "on_test_start", epoch=9, step=7) == validation[steps.index((2, 7, 0))]
