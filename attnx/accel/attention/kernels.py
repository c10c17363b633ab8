"""The kernels of attention: what one promises, and which of those that fit a module computes a call.

A call goes to the first kernel that supports it and can be built. What cannot be built is left out with a note.
"""

from __future__ import annotations

import functools
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import torch

from attnx.attention.attention import Attention, is_recurrent
from attnx.attention.types import AttentionInputs, AttentionOutput
from attnx.errors import in_a_line

warn_once = functools.cache(logging.getLogger(__name__).warning)
"""Warn; the same line once in a process."""
COMPILER_MODULES = ("triton", "torch._inductor", "torch._dynamo", "subprocess")
"""Modules whose errors mean that something was not compiled."""
# Why something cannot be built in this process; None if it can.
_failures: dict[Hashable, str | None] = {}


def has_hooks(module: Any) -> bool:
    """Whether a hook waits for a call of the module: then it must be called."""
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def is_plain(module: Any, *classes: type) -> bool:
    """Whether a module computes what one of the classes defines: it is of no subclass and has no hooks."""
    return type(module) in classes and not has_hooks(module)


class Kernel(ABC):
    """A faster way to compute attention, equal to the definition in output and gradients."""

    name: ClassVar[str]
    # the classes of parts that it computes, and no subclasses, which may do something else; empty means any
    scorers: ClassVar[tuple[type, ...]] = ()
    scopes: ClassVar[tuple[type, ...]] = ()
    normalizers: ClassVar[tuple[type, ...]] = ()
    supports_bias: ClassVar[bool] = False  # it adds the bias to the scores, as ``attention.attend_with_scores`` does
    supports_softcap: ClassVar[bool] = False  # it bounds the scores, as ``attention.attend_with_scores`` does
    supports_recurrence: ClassVar[bool] = False  # it passes the scores of all queries to the definition at once
    # it reads only a scorer's prepared queries and keys: heads are rows of one call
    supports_heads_as_batch: ClassVar[bool] = False
    device: ClassVar[str | None] = None  # the only type of device that it is for
    source: ClassVar[Path | None] = None  # the C file that it needs

    def fits(self, attention: Attention) -> bool:
        """Whether it computes the parts of a module.

        Recurrent parts go through the queries of a call in order, which a kernel may split unless it says otherwise.
        """
        parts = ((attention.scorer, self.scorers), (attention.scope, self.scopes))
        chosen = (*parts, (attention.normalizer, self.normalizers))
        has_recurrence = is_recurrent(attention.scorer) or is_recurrent(attention.normalizer)
        return (
            all(not classes or type(part) in classes for part, classes in chosen)
            and (attention.bias is None or self.supports_bias)
            and (attention.softcap is None or self.supports_softcap)
            and (not has_recurrence or self.supports_recurrence)
        )

    def is_for(self, device: torch.device) -> bool:
        """Whether it runs on a device."""
        return self.device in (None, device.type)

    @abstractmethod
    def supports(self, attention: Attention, inputs: AttentionInputs) -> bool:
        """Whether it can compute this call: sizes, types, devices, masks. Called before every attention call."""

    def build(self, device: torch.device) -> None:  # noqa: B027 - most have nothing to compile
        """Compile what its calls and their gradients need there; an error leaves it out, and the next one computes."""

    @abstractmethod
    def __call__(self, attention: Attention, inputs: AttentionInputs) -> AttentionOutput:
        """Compute the attention."""


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
        if kernel.is_for(device) and kernel.supports(attention, inputs) and build_failure(kernel, device) is None:
            try:
                return kernel(attention, inputs)
            except Exception as error:
                if not _is_build_error(error):
                    raise
                _failures[type(kernel), device] = in_a_line(error)
                warn_once(_left_out(kernel, device, in_a_line(error)))
    return None


def build_failure(kernel: Kernel, device: torch.device, warn: Callable[[str], object] = warn_once) -> str | None:
    """Build a kernel for its device, once: why it cannot be built, a line; None if it can.

    ``warn`` receives a line for the user when the kernel fails for the first time.
    """
    report = functools.partial(_left_out, kernel, device)
    return try_once((type(kernel), device), lambda: kernel.build(device), lambda reason: warn(report(reason)))


def try_once(key: Hashable, build: Callable[[], object], report: Callable[[str], object]) -> str | None:
    """Why something cannot be built, a line, which ``report`` receives once; None if it can. It is tried once."""
    if key not in _failures:
        _failures[key] = None
        try:
            build()
        except Exception as error:  # a compiler, a driver, a cache: no input was looked at
            reason = _failures[key] = in_a_line(error)
            report(reason)
    return _failures[key]


def _left_out(kernel: Kernel, device: torch.device, reason: str) -> str:
    return f"the kernel {kernel.name} cannot be built for {device} and is left out, the next in line computes: {reason}"


def _is_build_error(error: Exception) -> bool:
    """Whether an error is a compiler's, and not about the inputs: the next kernel or the definition reports those."""
    modules = [kind.__module__ for kind in type(error).__mro__]
    compiling = any(module == name or module.startswith(f"{name}.") for module in modules for name in COMPILER_MODULES)
    return compiling or isinstance(error, ImportError)
