"""How many steps fit into a time: measured once, then a number like any other."""

from __future__ import annotations

import copy
import itertools
import time
from functools import partial

import torch

from attnx.data.batches import Batch
from attnx.tasks.protocols import token_loss
from attnx.training import ranks
from attnx.training.experiment import Experiment
from attnx.training.loaders import Loaders

# Steps before the clock starts, the longest measurement, and the share of the budget left for validation.
WARM, SECONDS, SPARE = 3, 8.0, 0.06


def steps_within(budget: float, experiment: Experiment, loaders: Loaders, accumulate: int) -> int:
    """Measure training steps on a copy of the model and say how many fit into ``budget`` seconds.

    The copy is thrown away and the random state put back, so that measuring changes nothing but the number. Several
    processes measure together, gradients exchanged, and the first one's clock decides.
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
                spent = time.perf_counter() - started
                if ranks.told(partial(bool, spent > min(SECONDS, 0.1 * budget))):
                    break
        per_step = (time.perf_counter() - started) / taken * accumulate
    return ranks.told(lambda: max(1, int((1 - SPARE) * budget / per_step)))


def _step(model: torch.nn.Module, experiment: Experiment, batch: Batch, optimiser: torch.optim.Optimizer) -> None:
    optimiser.zero_grad()
    loss = token_loss(model, batch, experiment.task.smoothing, experiment.settings.sampling)
    ((loss.total + loss.penalty) / loss.tokens.clamp(min=1)).backward()  # type: ignore[no-untyped-call]
    if ranks.here().world > 1:
        for weight in model.parameters():
            if weight.grad is not None:
                ranks.summed(weight.grad)
    optimiser.step()
