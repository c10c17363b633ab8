"""Model parallelism: encoder, attention and decoder on separate devices, tensors moved between them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
from lightning.fabric.utilities import move_data_to_device
from lightning.pytorch.strategies import SingleDeviceStrategy
from torch import Tensor, nn

from attnx.errors import UserError

# The children of a model that belong to encoder and attention; all others, as the output layer, are the decoder's.
ENCODER_CHILDREN, ATTENTION_CHILDREN = ("source_encoder",), ("attention", "state_projection")
# Methods of a part whose arguments may be on another device; the second makes the memory, in attention alone.
PART_METHODS = ("forward", "make_memory")


def placement_devices(placement: Mapping[str, str], accelerator: str) -> dict[str, torch.device]:
    """The devices of ``encoder``, ``attention`` and ``decoder``; empty if none of them is placed.

    A part without a name of a device is on the run's device.

    Raises:
        UserError: there is no such device.
    """
    default = "cuda:0" if accelerator != "cpu" and torch.cuda.device_count() else "cpu"
    available = [torch.device("cpu"), *(torch.device("cuda", index) for index in range(torch.cuda.device_count()))]
    devices = {}
    for part in ("encoder", "attention", "decoder") if placement else ():
        name = placement.get(part, default)
        try:
            device = torch.device(name)
        except RuntimeError:
            raise UserError(f"placement.{part}={name}: no such kind of device; write cpu, cuda:0, cuda:1 ...") from None
        devices[part] = torch.device("cuda", 0) if device == torch.device("cuda") else device
        if devices[part] not in available:
            choices = ", ".join(map(str, available))
            raise UserError(f"placement.{part}={name}: there is no such device; choose from {choices}")
    return devices


def place_model(model: nn.Module, devices: Mapping[str, torch.device]) -> None:
    """Move a model's parts to their devices, and from now on their inputs.

    A part knows its device by an empty buffer that is not in checkpoints. A model that is moved as one afterwards, as
    by ``model.cpu()``, is on one device and moves no inputs.

    Raises:
        UserError: the model has no such parts.
    """
    children = dict(model.named_children())
    if not {"attention", "decoder"} <= children.keys() or not hasattr(model, "init_state"):
        raise UserError("placement: this model is not made of encoder, attention and decoder; use model=seq2seq")
    names = [name for name in (*ENCODER_CHILDREN, *ATTENTION_CHILDREN, "bridge") if name in children]
    for part in (model, *(children[name] for name in names)):
        if not hasattr(part, "input_device"):
            for name in ("input_device", "output_device"):
                part.register_buffer(name, torch.empty(0), persistent=False)
            part_class: Any = type(part)
            part.__class__ = _placed_model_class(part_class) if part is model else _placed_part_class(part_class)
    move_parts(model, devices)


def move_parts(model: nn.Module, devices: Mapping[str, torch.device]) -> None:
    """Move the parts of a placed model to their devices."""
    for name, child in model.named_children():
        part = "encoder" if name in ENCODER_CHILDREN else "attention" if name in ATTENTION_CHILDREN else "decoder"
        child.to(devices[part])
        if name == "attention":
            child.output_device = child.output_device.to(devices["decoder"])
    model.input_device, model.output_device = (torch.empty(0, device=devices["decoder"]) for _ in range(2))
    for weight in model.parameters(recurse=False):
        weight.data = weight.data.to(devices["decoder"])


@functools.cache
def _placed_part_class(part_class: Any) -> type[nn.Module]:
    """A subclass whose methods move their arguments to the part's device, and attention's output to the decoder's.

    A subclass instead of wrapped methods, so that a deep copy of the model moves tensors to its own devices.
    """
    is_attention = hasattr(part_class, PART_METHODS[1])

    def moving(name: str) -> Any:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            device = self.input_device.device
            args, kwargs = move_data_to_device((args, kwargs), device)
            output = getattr(part_class, name)(self, *args, **kwargs)
            return (
                move_data_to_device(output, self.output_device.device) if is_attention and name == "forward" else output
            )

        return call

    methods = {name: moving(name) for name in PART_METHODS if hasattr(part_class, name)}
    return _subclass(part_class, methods)


@functools.cache
def _placed_model_class(model_class: Any) -> type[nn.Module]:
    """A subclass whose memory stays on attention's device, and whose state is on the decoder's."""

    def init_state(self: Any, *args: Any, **kwargs: Any) -> Any:
        state = model_class.init_state(self, *args, **kwargs)
        moved = move_data_to_device(state._replace(memory=None), self.input_device.device)
        return moved._replace(memory=state.memory)

    def visible_memory(self: Any, memory: Any, steps: Tensor) -> Any:
        return model_class.visible_memory(self, memory, steps.to(memory.keys.device))

    return _subclass(model_class, {"init_state": init_state, "visible_memory": visible_memory})


def _subclass(module_class: Any, methods: Mapping[str, Any]) -> type[nn.Module]:
    attributes = {**methods, "__module__": module_class.__module__, "__doc__": module_class.__doc__}
    return type(module_class.__name__, (module_class,), attributes)


class ModelParallelStrategy(SingleDeviceStrategy):
    """Lightning's strategy for a placed model, which it would move to one device; batches go to the decoder's."""

    def __init__(self, devices: Mapping[str, torch.device], **kwargs: Any) -> None:
        super().__init__(device=devices["decoder"], **kwargs)
        self.devices = devices

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        """Restore the optimizers' state, where their weights are; Lightning would move all of it to one device."""
        for optimizer, state in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            optimizer.load_state_dict(state)

    def model_to_device(self) -> None:
        """Move each part to its device, and everything else to the decoder's."""
        module = self.lightning_module
        assert module is not None
        for name, child in module.named_children():
            if name == "model":
                move_parts(child, self.devices)
            else:
                child.to(self.root_device)
