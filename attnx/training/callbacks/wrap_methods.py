"""Wrap methods of a model's modules for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import nn

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


@contextmanager
def wrap_methods(wrappers: Mapping[tuple[nn.Module, str], Wrapper]) -> Iterator[None]:
    """Replace methods, by module and name, by what their wrapper makes of them."""
    for (module, name), wrap in wrappers.items():
        setattr(module, name, wrap(getattr(module, name)))
    try:
        yield
    finally:
        for module, name in wrappers:
            delattr(module, name)
