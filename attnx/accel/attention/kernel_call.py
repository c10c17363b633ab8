"""Attention by the first kernel that supports a call and can be built. What cannot be built is left out with a note."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import torch

from attnx import registry
from attnx.accel.attention.contract import Kernel
from attnx.attention.types import AttentionInputs, AttentionOutput
from attnx.errors import in_a_line

if TYPE_CHECKING:
    from attnx.attention.attention import Attention

warn_once = functools.cache(logging.getLogger(__name__).warning)
"""Warn; the same line once in a process."""
COMPILER_MODULES = ("triton", "torch._inductor", "torch._dynamo", "subprocess")
"""Modules whose errors mean that something was not compiled."""
# Of a kernel's class on a device: why it cannot be built there; None if it can.
_failures: dict[tuple[type, torch.device], str | None] = {}


def call_kernels(kernels: Iterable[Kernel], attention: Attention, inputs: AttentionInputs) -> AttentionOutput | None:
    """Attend by the first kernel that supports the call and can be built; None if there is none.

    Kernels read as many rows of queries as of the memory: one row for all is left to the definition, which broadcasts.

    Raises:
        Exception: what a kernel raises for another reason than that it cannot be built.
    """
    if len(inputs.prepared_queries) != len(inputs.memory.mask):
        return None
    device = inputs.prepared_queries.device
    for kernel in kernels:
        if is_for(kernel, device) and kernel.supports(attention, inputs) and build_failure(kernel, device) is None:
            try:
                return kernel(attention, inputs)
            except Exception as error:
                if not _is_build_error(error):
                    raise
                _leave_out(kernel, device, error, warn_once)
    return None


def is_for(kernel: Kernel, device: torch.device) -> bool:
    """Whether a kernel runs on a device."""
    return bool(getattr(kernel, "device", device.type) == device.type)


def build_failure(kernel: Kernel, device: torch.device, warn: Callable[[str], object] = warn_once) -> str | None:
    """Build a kernel for its device, once: why it cannot be built, a line; None if it can.

    ``warn`` receives a line for the user when the kernel fails for the first time.
    """
    key = type(kernel), device
    if key not in _failures:
        _failures[key] = None
        try:
            if hasattr(kernel, "build"):
                kernel.build(device)
        except Exception as error:  # a compiler, a driver, a cache: no input was looked at
            _leave_out(kernel, device, error, warn)
    return _failures[key]


def _leave_out(kernel: Kernel, device: torch.device, error: Exception, warn: Callable[[str], object]) -> None:
    reason = _failures[type(kernel), device] = in_a_line(error)
    name = registry.registered_name("kernel", type(kernel)) or type(kernel).__name__
    warn(f"the kernel {name} cannot be built for {device} and is left out, the next in line computes: {reason}")


def _is_build_error(error: Exception) -> bool:
    """Whether an error is a compiler's, and not about the inputs: the next kernel or the definition reports those."""
    modules = [kind.__module__ for kind in type(error).__mro__]
    compiling = any(module == name or module.startswith(f"{name}.") for module in modules for name in COMPILER_MODULES)
    return compiling or isinstance(error, ImportError)
