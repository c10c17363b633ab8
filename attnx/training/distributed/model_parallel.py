"""Puts encoder, attention and decoder on devices of their own; what passes between them is moved at the border."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from lightning.pytorch.strategies import SingleDeviceStrategy
from torch import Tensor, nn

from attnx.errors import UserError

Tree = TypeVar("Tree")
# Which children of a model are whose; all others, the output layer among them, are the decoder's.
ENCODER, ATTENTION = ("source",), ("attention", "state_projection")
# By these a part is given what may lie on another device.
DOORS = ("forward", "make_memory")


def devices_of(placement: Mapping[str, str | None] | None, accelerator: str) -> dict[str, torch.device]:
    """The device of ``encoder``, ``attention`` and ``decoder``; empty if none of them has one of its own.

    Args:
        placement: names of devices; one that is not named is that of the rest of the run.
        accelerator: what the run trains on.

    Raises:
        UserError: there is no such device here.
    """
    named = {part: name for part, name in (placement or {}).items() if name is not None}
    if not named:
        return {}
    own = "cuda:0" if accelerator != "cpu" and torch.cuda.device_count() else "cpu"
    return {part: _device(part, named.get(part, own)) for part in ("encoder", "attention", "decoder")}


def _device(part: str, name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"placement.{part}={name}: no such kind of device; write cpu, cuda:0, cuda:1 ...") from None
    gpus = torch.cuda.device_count()
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and (device.index or 0) >= gpus):
        here = ", ".join(["cpu", *(f"cuda:{number}" for number in range(gpus))])
        raise UserError(f"placement.{part}={name}: there is no such device here; there are {here}")
    return torch.device("cuda", device.index or 0) if device.type == "cuda" else torch.device("cpu")


def place(model: nn.Module, devices: Mapping[str, torch.device]) -> None:
    """Move a model's parts to their devices, and from now on what they are given.

    Where a part is, it knows by an empty buffer that no checkpoint holds: a model that is moved as a whole afterwards,
    as ``model.cpu()`` does, is on one device and moves nothing any more.

    Raises:
        UserError: the model has no such parts.
    """
    children = dict(model.named_children())
    if not {"attention", "decoder"} <= children.keys() or not hasattr(model, "init_state"):
        raise UserError("placement: this model is not made of encoder, attention and decoder; use model=seq2seq")
    for part in (model, *(children[name] for name in (*ENCODER, *ATTENTION, "bridge") if name in children)):
        if not hasattr(part, "place"):
            for name in ("place", "back"):
                part.register_buffer(name, torch.empty(0), persistent=False)
            plain: Any = type(part)
            part.__class__ = _model_class(plain) if part is model else _part_class(plain)
    move(model, devices)


def move(model: nn.Module, devices: Mapping[str, torch.device]) -> None:
    """Move the parts of a model that was placed to their devices."""
    for name, child in model.named_children():
        part = "encoder" if name in ENCODER else "attention" if name in ATTENTION else "decoder"
        child.to(devices[part])
        if name == "attention":
            child.back = child.back.to(devices["decoder"])
    model.place, model.back = (torch.empty(0, device=devices["decoder"]) for _ in range(2))
    for weight in model.parameters(recurse=False):
        weight.data = weight.data.to(devices["decoder"])


def moved(tree: Tree, device: torch.device) -> Tree:
    """The same tree with every tensor in it on a device.

    >>> moved((torch.ones(2), [None, 3]), torch.device("meta"))
    (tensor(..., device='meta', size=(2,)), [None, 3])
    """
    if isinstance(tree, Tensor):
        return tree.to(device)  # type: ignore[return-value]
    if isinstance(tree, tuple):
        parts = [moved(part, device) for part in tree]
        return tree._make(parts) if hasattr(tree, "_make") else tuple(parts)  # type: ignore[return-value]
    return [moved(part, device) for part in tree] if isinstance(tree, list) else tree  # type: ignore[return-value]


@functools.cache
def _part_class(of: Any) -> type[nn.Module]:
    """The class of a part that has what it is given moved to where it is; a read goes back to the decoder.

    A class, and no wrapping of methods, so that a copy of the model has borders of its own.
    """

    def door(name: str) -> Any:
        def enter(self: Any, *given: Any, **named: Any) -> Any:
            device = self.place.device
            named = {key: moved(value, device) for key, value in named.items()}
            found = getattr(of, name)(self, *moved(given, device), **named)
            return moved(found, self.back.device) if reads and name == "forward" else found

        return enter

    reads = hasattr(of, "make_memory")
    doors = {name: door(name) for name in DOORS if hasattr(of, name)}
    return type(of.__name__, (of,), {**doors, "__module__": of.__module__, "__doc__": of.__doc__})


@functools.cache
def _model_class(of: Any) -> type[nn.Module]:
    """The class of a model whose memory stays with the attention, and whose state is with the decoder."""

    def init_state(self: Any, *given: Any, **named: Any) -> Any:
        state = of.init_state(self, *given, **named)
        return moved(state._replace(memory=None), self.place.device)._replace(memory=state.memory)

    def visible_memory(self: Any, memory: Any, steps: Tensor) -> Any:
        return of.visible_memory(self, memory, steps.to(memory.keys.device))

    methods = {"init_state": init_state, "visible_memory": visible_memory, "__module__": of.__module__}
    return type(of.__name__, (of,), methods)


class ModelParallelStrategy(SingleDeviceStrategy):
    """Trains a model that is placed: Lightning would move it to one device.

    Args:
        devices: of encoder, attention and decoder; batches go to the last one's.
    """

    strategy_name = "placed"

    def __init__(self, devices: Mapping[str, torch.device], **knobs: Any) -> None:
        super().__init__(device=devices["decoder"], **knobs)
        self.devices = devices

    def model_to_device(self) -> None:
        """Move each part to its own device, and what belongs to none to the decoder's."""
        experiment = self.lightning_module
        assert experiment is not None
        for name, child in experiment.named_children():
            if name == "model":
                move(child, self.devices)
            else:
                child.to(self.root_device)
