"""How many steps fit into a time: measured once, then a number like any other."""

from __future__ import annotations

import copy
import itertools
import time

import torch

from attnx.data.batches import Batch
from attnx.tasks.protocols import token_loss
from attnx.training.experiment import Experiment
from attnx.training.loaders import Loaders

# Steps before the clock starts, the longest measurement, and the share of the budget left for validation.
WARM, SECONDS, SPARE = 3, 8.0, 0.06


def steps_within(budget: float, experiment: Experiment, loaders: Loaders, accumulate: int) -> int:
    """Measure training steps on a copy of the model and say how many fit into ``budget`` seconds.

    The copy is thrown away and the random state put back, so that measuring changes nothing but the number.
    """
    trial = copy.deepcopy(experiment.model).train()
    optimiser = experiment.settings.optimiser(trial.parameters())
    batches = loaders.train_dataloader()
    with torch.random.fork_rng():
        taken, started = 0, time.perf_counter()
        for number, batch in enumerate(itertools.cycle(batches)):
            _step(trial, experiment, batch, optimiser)
            if number + 1 == WARM:
                started = time.perf_counter()
            elif number >= WARM:
                taken += 1
                if time.perf_counter() - started > min(SECONDS, 0.1 * budget):
                    break
        per_step = (time.perf_counter() - started) / taken * accumulate
    return max(1, int((1 - SPARE) * budget / per_step))


def _step(model: torch.nn.Module, experiment: Experiment, batch: Batch, optimiser: torch.optim.Optimizer) -> None:
    optimiser.zero_grad()
    token_loss(model, batch, experiment.task.smoothing, experiment.settings.sampling).mean.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
