"""The loss and the gradients of the three schedules on the device and on the CPU, both against float64."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from lightning.fabric.utilities import move_data_to_device
from peers.training import ATTNX
from torch import Tensor

import attnx
from attnx import accel
from attnx.data.batches import Batch, collate
from attnx.tasks.contract import token_loss
from attnx.training.train import assemble, load
from attnx.training.trainers.lightning import set_tf32
from gpu_sections.cases import Case, Figures, Setting
from gpu_sections.kernels import largest_error
from gpu_sections.row_names import CPU_ERROR, ERROR
from gpu_sections.steps import SCHEDULES, corpus, sizes
from gpu_sections.timing import synchronize

CPU = torch.device("cpu")


def cases(setting: Setting) -> Iterator[Case]:
    """Every schedule in float32."""
    for schedule in SCHEDULES:
        yield Case(f"{schedule}, float32", partial(_compare, setting, schedule))


def _compare(setting: Setting, schedule: str) -> Figures:
    """The largest errors of the loss and of any gradient, on the device with fast paths and on the CPU without."""
    values = {"pairs": corpus(setting), "folder": setting.folder / "agreement", "updates": 1, **sizes(setting)}
    overrides = [override.format(**values) for override in (*ATTNX, *SCHEDULES[schedule])]
    config = attnx.compose([*overrides, "trainer.accelerator=cpu"])
    prepared = assemble(config, *load(config))
    set_tf32("32")
    rows = prepared.loaders.train_rows
    batch = collate([rows[index] for index in range(sizes(setting)["batch"])])
    model = prepared.module.model
    accel.disable(model)
    exact = _loss_and_gradients(copy.deepcopy(model).double(), batch, CPU)
    plain = _loss_and_gradients(copy.deepcopy(model), batch, CPU)
    fast = _loss_and_gradients(accel.enable(copy.deepcopy(model)), batch, setting.device)
    return {ERROR: largest_error(fast, exact), CPU_ERROR: largest_error(plain, exact)}


def _loss_and_gradients(model: Any, batch: Batch, device: torch.device) -> list[Tensor]:
    model.to(device).train()  # cuDNN has gradients of recurrences while training alone
    loss = token_loss(model, move_data_to_device(batch, device)).mean
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    synchronize(device)
    return [loss.detach().cpu(), *(gradient.cpu() for gradient in gradients)]
