"""A read by a kernel: the first in line that admits it and can be built. What cannot be built is left out, and said."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import torch

from attnx import registry
from attnx.attention.protocols import AttentionInputs, AttentionOutput, Kernel
from attnx.errors import in_a_line

if TYPE_CHECKING:
    from attnx.attention.attention import Attention

say_once = functools.cache(logging.getLogger(__name__).warning)
"""Says a line to whoever uses attnx; the same line once in a process."""
COMPILERS = ("triton", "torch._inductor", "torch._dynamo", "subprocess")
"""Modules whose errors say that something was not compiled."""
# Of a kernel's class on a device: why it cannot be built there; None if it can.
_failures: dict[tuple[type, torch.device], str | None] = {}


def read_by_kernel(kernels: Iterable[Kernel], attention: Attention, asked: AttentionInputs) -> AttentionOutput | None:
    """The read by the first kernel in line that admits it and can be built; None if it is the definition's.

    Raises:
        Exception: what a kernel raises for another reason than that it cannot be built.
    """
    device = asked.asked.device
    for kernel in kernels:
        if is_for(kernel, device) and kernel.admits(attention, asked) and build_failure(kernel, device) is None:
            try:
                return kernel(attention, asked)
            except Exception as error:
                if not _is_of_building(error):
                    raise
                _leave_out(kernel, device, error, say_once)
    return None


def is_for(kernel: Kernel, device: torch.device) -> bool:
    """Whether a kernel runs on such a device."""
    return bool(getattr(kernel, "device", device.type) == device.type)


def build_failure(kernel: Kernel, device: torch.device, say: Callable[[str], object] = say_once) -> str | None:
    """Build a kernel for a device unless that was tried before, and return why it cannot be built.

    Args:
        kernel: one that is for the device.
        device: where it is to run.
        say: is given a line for the user when the kernel fails for the first time.

    Returns:
        the reason, a line; None if the kernel is built, or has nothing to build.
    """
    place = type(kernel), device
    if place not in _failures:
        _failures[place] = None
        try:
            getattr(kernel, "build", _nothing)(device)
        except Exception as error:  # a compiler, a driver, a cache: no input was looked at
            _leave_out(kernel, device, error, say)
    return _failures[place]


def _leave_out(kernel: Kernel, device: torch.device, error: Exception, say: Callable[[str], object]) -> None:
    reason = _failures[type(kernel), device] = in_a_line(error)
    name = registry.name_of("kernel", kernel) or type(kernel).__name__
    say(f"the kernel {name} cannot be built for {device} and is left out, the next in line reads: {reason}")


def _nothing(device: torch.device) -> None:
    """What a kernel builds that states no ``build``."""


def _is_of_building(error: Exception) -> bool:
    """Whether an error is that of a compiler, and not about what is read: the next in line can say that."""
    modules = [kind.__module__ for kind in type(error).__mro__]
    compiling = any(module == name or module.startswith(f"{name}.") for module in modules for name in COMPILERS)
    return compiling or isinstance(error, ImportError)
