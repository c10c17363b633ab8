"""How functions in Triton are compiled, and how their tiles are chosen; importable without Triton."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable
from typing import Any

import torch

OLDEST_TRITON = "3.4"  # the first with knobs, and with choices of tiles that are kept on disk
triton: Any = importlib.import_module("triton") if importlib.util.find_spec("triton") is not None else None
HAS_TRITON = triton is not None and hasattr(triton, "knobs")
tl: Any = importlib.import_module("triton.language") if HAS_TRITON else None


def jit(function: Any) -> Any:
    """Triton's ``jit`` where it is installed, without specialization on sizes, so that there are few variants."""
    if not HAS_TRITON:
        return function
    parameters = inspect.signature(function).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.annotation != "tl.constexpr"]
    return triton.jit(function, do_not_specialize=names, do_not_specialize_on_alignment=names)


def tuned(*tiles: tuple[int, int, int]) -> Callable[[Any], Any]:
    """Choose among tiles of (high, wide, warps) by time, once for each ``size_class``; without a GPU the first.

    Triton keeps the choices in its cache on disk.
    """

    def decorate(function: Any) -> Any:
        if not HAS_TRITON:
            return function
        configs = [triton.Config({"high": high, "wide": wide}, num_warps=warps) for high, wide, warps in tiles]
        configs = configs if torch.cuda.is_available() else configs[:1]
        return triton.autotune(configs, key=["size_class"], cache_results=True)(jit(function))

    return decorate


def classify_sizes(*sizes: int) -> int:
    """A number that sizes share if each rounds down to the same power of two."""
    return sum(size.bit_length() << 6 * axis for axis, size in enumerate(sizes))
