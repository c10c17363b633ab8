"""A device beside the CPU for the laws: its tensors have shapes but no numbers, so that nothing can wait for them."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from lightning.fabric.utilities import move_data_to_device
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from attnx import accel
from attnx.data.batches import Batch
from attnx.tasks.loss import token_loss
from attnx.training.trainer import set_tf32

aten = torch.ops.aten
# What fake tensors are made of, and a third of their cost. Autograd ends the process for CUDA where torch has none.
DEVICE = torch.device("meta")
CPU, GPU = torch.device("cpu"), torch.device("cuda")
COPIES = (aten._to_copy.default, aten.copy_.default)
SLOW = (aten.addmm.default, aten.cat.default, aten.stack.default, aten.sum.dim_IntList)


class ListCopies(TorchFunctionMode):
    """Checks that no list is copied to ``DEVICE``, for which the CPU waits; no operator shows it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        is_copy = func in (torch.tensor, torch.as_tensor, Tensor.new_tensor) and result.device == DEVICE
        assert not is_copy, f"{func} waits for a device"
        return result


class OperatorInputs(TorchDispatchMode):
    """Checks that no operator has inputs on two devices, or waits for a copy between them."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if func == aten._pack_padded_sequence.default and args[0].device == DEVICE:
            return _pack_padded_sequence(*args)
        devices = {tensor.device for tensor in tensors if tensor.dim()}
        if func in COPIES:
            devices = {kwargs.get("device", args[0].device), *(tensor.device for tensor in tensors)}
            is_non_blocking = kwargs.get("non_blocking") or any(arg is True for arg in args)
            assert len(devices) == 1 or is_non_blocking, f"{func} waits for a device"
            if kwargs.get("device") == CPU and DEVICE in devices:
                return args[0]  # its numbers are not there yet
        else:  # torch lets single numbers of the CPU meet tensors of a GPU
            assert len(devices) <= 1, f"{func} has inputs on two devices"
        is_slow = torch.Tag.pointwise in func.tags or func in SLOW
        if is_slow and any(tensor.device == DEVICE for tensor in tensors):
            return _compute_shapes(func, args, kwargs)
        return func(*args, **kwargs)


def _compute_shapes(func: Any, args: Any, kwargs: Any) -> Any:
    """What an operator returns, computed of ones by the CPU: ``DEVICE`` computes it in Python, which is slower."""
    ones, options = tree_map_only(
        Tensor, lambda x: torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).fill_(1), (args, kwargs)
    )
    result = func(*ones, **options)
    return args[0] if func._schema.is_mutable else tree_map_only(Tensor, lambda tensor: tensor.to(DEVICE), result)


def _pack_padded_sequence(inputs: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """The shapes of torch's operator, which reads the lengths."""
    batch_sizes = (lengths[:, None] > torch.arange(int(lengths.max()))).sum(0)
    return inputs.new_empty(int(lengths.sum()), inputs.shape[-1]), batch_sizes


@contextmanager
def no_wait() -> Iterator[None]:
    """The device ``meta`` stands for a GPU that nothing may wait for; tensors of the CPU are real.

    Raises:
        RuntimeError, NotImplementedError: an operator reads numbers of the device; torch raises it.
        AssertionError: an operator has inputs on both devices, or the CPU waits for a copy between them.
    """
    with ListCopies(), OperatorInputs():
        yield


@pytest.fixture
def asynchronous_device():
    """A context in which the device ``meta`` stands for a GPU that nothing may wait for."""
    return no_wait()


@pytest.fixture
def take_training_step():
    """Take a training step on a device that nothing may wait for, up to the gradients, which optimizers take."""

    def step(model: Any, batch: Batch) -> None:
        model = model.to(DEVICE).train()
        with no_wait():
            token_loss(model, batch.to(DEVICE), label_smoothing=0.1).mean.backward()  # type: ignore[no-untyped-call]
        assert {weight.grad.device for weight in model.parameters()} == {DEVICE}

    return step


@pytest.fixture
def assert_same_on_gpu():
    """Compare a GPU with the CPU: the definition in double precision, and what accel makes of it in single."""
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU and ATTNX_TEST_GPU=1")
    set_tf32("32")

    def compare(model: Any, batch: Batch) -> None:
        expected = _loss_and_gradients(model, batch, CPU)
        _require_close(_loss_and_gradients(model, batch, GPU), expected, 1e-7)
        torch.set_default_dtype(torch.float32)
        fast_model, single = accel.enable(copy.deepcopy(model)).float(), Batch(*map(_to_single, batch))
        _require_close(_loss_and_gradients(fast_model, single, GPU), expected, 3e-4)

    return compare


def _loss_and_gradients(model: Any, batch: Batch, device: torch.device) -> dict[str, Tensor]:
    """In training, for which alone cuDNN has gradients; a model that drops or samples anything draws other numbers."""
    model = copy.deepcopy(model).to(device).train()
    loss = token_loss(model, move_data_to_device(batch, device)).mean
    loss.backward()  # type: ignore[no-untyped-call]
    gradients = {name: value.grad.cpu() for name, value in model.named_parameters() if value.grad is not None}
    return {"loss": loss.detach().cpu(), **gradients}


def _require_close(results: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float) -> None:
    assert results.keys() == expected.keys()
    for name, tensor in expected.items():
        scale = max(1.0, float(tensor.abs().max()))
        error = float((results[name].double() - tensor).abs().max()) / scale
        assert error < tolerance, f"{name} differs by {error:.1e} of {scale:.1e}"


def _to_single(tensor: Tensor | None) -> Tensor | None:
    return tensor.float() if tensor is not None and tensor.is_floating_point() else tensor
