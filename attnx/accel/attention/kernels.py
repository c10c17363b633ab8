"""The kernels of attention: what one promises, which support a module, and which of these computes a call.

A call goes to the first kernel that supports it and can be built. What cannot be built is left out with a note.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

import torch

from attnx import registry
from attnx.attention.attention import is_recurrent
from attnx.attention.types import AttentionInputs, AttentionOutput
from attnx.errors import UserError, in_a_line

if TYPE_CHECKING:
    from attnx.attention.attention import Attention

KINDS = ("scorer", "scope", "normalizer")
"""The kinds of parts whose supported names a kernel declares."""
warn_once = functools.cache(logging.getLogger(__name__).warning)
"""Warn; the same line once in a process."""
COMPILER_MODULES = ("triton", "torch._inductor", "torch._dynamo", "subprocess")
"""Modules whose errors mean that something was not compiled."""
# Why a kernel's class cannot be built on a device; None if it can.
_failures: dict[tuple[type, torch.device], str | None] = {}


class Kernel(Protocol):
    """A faster way to compute attention, equal to the definition in output and gradients.

    ``scorers``, ``scopes`` and ``normalizers`` name the parts that it supports; empty means any. Among the kernels that
    support a call the one with the lowest ``priority`` computes it.

    Optional attributes:

    - ``device``: the only type of device that it is for, as ``"cuda"``.
    - ``source``: the C file that it needs, which is compiled while a run starts.
    - ``supports_bias``: it adds the bias to the scores, as ``attention.attend_with_scores`` does.
    - ``supports_softcap``: it bounds the scores, as ``attention.attend_with_scores`` does.
    - ``supports_heads_as_batch``: it reads only a scorer's prepared queries and keys: heads are rows of one call.
    - ``supports_recurrence``: with a history it passes the scores of all queries to the definition at once.
    - ``build(device)``: compiles what its calls and their gradients need there. If it raises an error, the kernel is
      left out with a note, and the next one computes.
    """

    scorers: tuple[str, ...]
    scopes: tuple[str, ...]
    normalizers: tuple[str, ...]
    priority: int

    def supports(self, attention: Attention, inputs: AttentionInputs) -> bool:
        """Whether it can compute this call: sizes, types, devices, masks. Called before every attention call."""

    def __call__(self, attention: Attention, inputs: AttentionInputs) -> AttentionOutput:
        """Compute the attention."""


def matching_kernels(attention: Attention) -> tuple[Kernel, ...]:
    """Build the kernels that support the parts of an attention module, best first.

    Recurrent parts go through the queries of a call in order, which a kernel may split unless it declares otherwise.
    """
    parts = {f"{kind}s": registry.registered_name(kind, type(getattr(attention, kind))) for kind in KINDS}
    declared = {name: registry.declarations("kernel", name) for name in registry.names("kernel")}
    matches = [
        name
        for name, lists in declared.items()
        if all(not lists.get(kind) or part in lists[kind] for kind, part in parts.items())
    ]
    if attention.bias is not None:
        matches = [name for name in matches if declared[name].get("supports_bias")]
    if attention.softcap is not None:
        matches = [name for name in matches if declared[name].get("supports_softcap")]
    kernels: list[Kernel] = []
    for name in sorted(matches, key=lambda name: declared[name]["priority"]):
        try:
            kernels.append(registry.build("kernel", name))
        except UserError as error:  # a plug-in's file cannot be imported: a package is missing
            warn_once(f"the kernel {name} is left out, the next in line computes: {error}")
    if is_recurrent(attention.scorer) or is_recurrent(attention.normalizer):
        kernels = [kernel for kernel in kernels if getattr(kernel, "supports_recurrence", False)]
    return tuple(kernels)


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
