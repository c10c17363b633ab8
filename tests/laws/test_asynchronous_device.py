"""What a GPU would be waited for is noticed; kernels, optimizers and callbacks wait for none."""

from collections.abc import Callable
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightning.fabric.utilities import move_data_to_device
from rich.console import Console
from torch import Tensor

from attnx import accel, registry
from attnx.attention.attention import Attention
from attnx.attention.factory import build_attention
from attnx.data.batches import Batch
from attnx.data.examples import Pair
from attnx.data.splits import Splits
from attnx.tasks.contract import SequenceData
from attnx.training import loaders
from attnx.training.callbacks.metric_rows import MetricRows
from attnx.training.callbacks.nan_guard import NanGuard
from attnx.training.callbacks.progress import ProgressDisplay
from attnx.training.callbacks.throughput import WARMUP_BATCHES, Throughput
from attnx.training.loaders import TrainingDataModule
from attnx.training.trainer import TrainerOptions

DEVICE = torch.device("meta")
SOURCE = torch.tensor([[3, 19, 7], [5, 0, 0]])
BATCH = Batch(SOURCE, SOURCE > 0, SOURCE, SOURCE > 0, torch.arange(2), torch.zeros(2, dtype=torch.int64))
WAITS: dict[str, Callable[[Tensor], object]] = {
    "item": lambda tensor: tensor.sum().item(),
    "tolist": lambda tensor: tensor.tolist(),
    "bool": lambda tensor: bool((tensor > 0).all()),
    "boolean index": lambda tensor: tensor[tensor > 0],
    "nonzero": lambda tensor: tensor.nonzero(),
    "copy to the CPU": lambda tensor: tensor.cpu(),
    "copy of a list": lambda tensor: tensor.new_tensor([3.0, 5.0]),
    "copy from the CPU": lambda tensor: torch.ones(2).to(tensor.device),
    "copy into": lambda tensor: tensor.copy_(torch.ones(2)),
    "two devices": lambda tensor: tensor + torch.ones(2),
    "number read too early": lambda tensor: float(tensor.sum().to("cpu", non_blocking=True)),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_wait_is_noticed(wait, asynchronous_device):
    tensor = torch.ones(2, device=DEVICE)
    with pytest.raises((RuntimeError, NotImplementedError, AssertionError)), asynchronous_device:
        wait(tensor)


def test_a_copy_that_waits_for_nothing_is_none(asynchronous_device):
    with asynchronous_device:
        assert (torch.ones(2).to(DEVICE, non_blocking=True) + torch.tensor(3.0)).device == DEVICE
        torch.ones(2, device=DEVICE).copy_(torch.ones(2), non_blocking=True)
        assert torch.ones(2).sum().item() == 2


def test_lengths_that_only_the_mask_has_are_noticed(build_model, take_training_step):
    with pytest.raises((RuntimeError, NotImplementedError, AssertionError)):
        take_training_step(build_model(), BATCH)


def test_scheduled_sampling_waits_for_no_device(build_model, asynchronous_device):
    model = build_model(model={"scheduled_sampling": 0.3}).to(DEVICE)
    batch = BATCH.to(DEVICE)
    with asynchronous_device:
        arguments = batch.source, batch.source_mask, batch.target, batch.tag
        assert model(*arguments, scheduled_sampling=0.3, source_lengths=torch.tensor([3, 1])).logits.device == DEVICE


@pytest.mark.parametrize(
    ("kernel", "scorer", "scope", "steps"),
    [
        ("sdpa", "dot", "global", 3),
        ("window", "dot", ("local", {"window": 1}), 300),
        ("checkpointed", "mlp", "global", 3),
    ],
)
def test_a_kernel_waits_for_no_device(kernel, scorer, scope, steps, asynchronous_device, monkeypatch):
    monkeypatch.setattr(Attention, "attend", lambda *_: pytest.fail("the definition computes"))
    attention: Any = accel.enable(build_attention(scorer, scope, "softmax", 5, 5, 5, {"chunk_mib": 1})).to(DEVICE)
    attention.kernels = tuple(item for item in attention.kernels if item.name == kernel)
    queries, states = (torch.ones(2, length, 5, device=DEVICE, requires_grad=True) for length in (steps, 400))
    mask = torch.ones(2, 400, dtype=torch.bool, device=DEVICE)
    with asynchronous_device:
        attention(queries, attention.make_memory(states, mask)).context.sum().backward()
    assert states.grad is not None


@pytest.mark.parametrize("name", registry.names("optimizer"))
def test_an_optimizer_waits_for_no_device(name, asynchronous_device):
    """Clipping before it neither."""
    layer = torch.nn.Linear(3, 5, device=DEVICE)
    optimizer = registry.build("optimizer", name, parameters=layer.parameters())
    with asynchronous_device:
        for _ in range(2):
            layer(torch.ones(2, 3, device=DEVICE)).sum().backward()
            torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
            optimizer.step()


def test_callbacks_of_a_step_wait_for_no_device(asynchronous_device, tmp_path):
    """The loss and the tokens are copied or added up where they are; the step that is logged reads them."""
    console = Console(force_terminal=False)
    throughput = Throughput(clock=lambda: 7.0)
    trainer: Any = SimpleNamespace(world_size=1, is_global_zero=True, global_step=10, max_steps=20, current_epoch=0)
    trainer.val_check_batch, trainer.callback_metrics = 20, {}
    trainer.optimizers = [SimpleNamespace(param_groups=[{"lr": 0.1}])]
    trainer.fit_loop = SimpleNamespace(_should_accumulate=lambda: False, total_batch_idx=13)
    progress = ProgressDisplay(console, throughput, "valid_loss")
    progress.on_train_start(trainer)
    guard, metrics = NanGuard(tmp_path, None), MetricRows(tmp_path / "metrics.csv", throughput, interval=7)  # type: ignore[arg-type]
    batch, loss = BATCH.to(DEVICE), torch.ones((), device=DEVICE)
    module: Any = SimpleNamespace(step_loss=loss)
    with asynchronous_device:
        for _ in range(WARMUP_BATCHES + 1):
            throughput.on_train_batch_start(trainer, None, batch)  # type: ignore[arg-type]
            guard.on_before_backward(trainer, None, loss)
            for callback in (throughput, metrics, progress):
                callback.on_train_batch_end(trainer, module, None, batch)
        assert throughput.examples == 2
        trainer.global_step = 14
        with pytest.raises(AssertionError, match="waits for a device"):
            metrics.on_train_batch_end(trainer, module, None, batch)


@pytest.mark.parametrize(("device", "is_pinned"), [("cpu", False), ("cuda", True)])
def test_batches_for_a_gpu_are_pinned(device, is_pinned, monkeypatch):
    monkeypatch.setattr(loaders, "training_device", lambda trainer: torch.device(device))
    pairs = [Pair(("a", "b"), (("c",),))]
    options = asdict(TrainerOptions())
    all_loaders = TrainingDataModule(SequenceData.of(Splits(pairs, pairs, pairs)), options, seed=1)
    for loader in (all_loaders.train_dataloader(), all_loaders.val_dataloader(), all_loaders.test_dataloader()):
        assert loader.pin_memory == is_pinned


class Recorded(Tensor):
    """A tensor whose copies record how they were asked for."""

    calls: list[dict[str, Any]]

    def to(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append(kwargs)
        return self


def test_a_batch_is_copied_without_blocking_and_lengths_stay():
    """Lightning's copy to a GPU; what is read as numbers is on the CPU afterwards."""
    calls: list[dict[str, Any]] = []
    parts = [part.as_subclass(Recorded) for part in BATCH if part is not None]
    for part in parts:
        part.calls = calls
    lengths = torch.tensor([3, 1])
    moved = move_data_to_device(Batch(*parts, source_lengths=lengths), torch.device("cuda", 0))
    assert isinstance(moved, Batch)
    assert calls
    assert all(kwargs["non_blocking"] for kwargs in calls)
    assert moved.source_lengths is lengths
    assert moved.row_index is parts[4]
    calls.clear()
    moved.to(torch.device("cpu"))
    assert not any(kwargs["non_blocking"] for kwargs in calls)
    on_device = BATCH._replace(source_lengths=lengths).to(DEVICE)
    on_cpu = {name for name, part in on_device._asdict().items() if part is not None and part.device != DEVICE}
    assert on_cpu == {"row_index", "source_lengths"}
