"""Finds which module of a model gave the first output that is not finite, by a second pass over the same batch."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from attnx import registry
from attnx.laws.candidate import Candidate
from attnx.registry.source_scan import KINDS


def first_not_finite(model: nn.Module, compute: Callable[[], Any]) -> str:
    """Say which module gave the first output that is not finite: where in the model, which part, file and line.

    Args:
        model: whose modules are watched.
        compute: the pass that ended in a number that is not finite.

    Returns:
        a clause; "" if every output is finite this time.
    """
    if unfit := [name for name, weight in model.named_parameters() if not bool(weight.isfinite().all())]:
        return f"weights were not finite before this step ({unfit[0]}), so a gradient of the step before was not"
    found: list[tuple[str, nn.Module, str]] = []

    def look(path: str, module: nn.Module, method: str, output: Any) -> None:
        if not found and any(not_finite(leaf) for leaf in tree_leaves(output)):
            found.append((path, module, method))

    with ExitStack() as watches, torch.no_grad():
        for path, module in model.named_modules():
            watches.enter_context(_watched(path, module, look))
        compute()
    return _clause(*found[0], model) if found else ""


def not_finite(value: Any) -> bool:
    """Whether a value is a tensor of floating-point numbers of which some are NaN or infinite."""
    return isinstance(value, Tensor) and value.is_floating_point() and not bool(value.isfinite().all())


@contextmanager
def _watched(path: str, module: nn.Module, look: Callable[[str, nn.Module, str, Any], None]) -> Iterator[None]:
    """Look at what the module's forward and its other public methods return, such as a scorer's ``compare``."""
    classes = type(module).__mro__[: type(module).__mro__.index(nn.Module)]
    methods = {
        name
        for class_ in classes
        for name, item in vars(class_).items()
        if isinstance(item, types.FunctionType) and not name.startswith("_") and name != "forward"
    } - vars(module).keys()
    hook = module.register_forward_hook(lambda _, given, output: look(path, module, "forward", output))
    for name in methods:
        object.__setattr__(module, name, _watching(getattr(module, name), functools.partial(look, path, module, name)))
    try:
        yield
    finally:
        hook.remove()
        for name in methods:
            object.__delattr__(module, name)


def _watching(method: Callable[..., Any], look: Callable[[Any], None]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*given: Any, **named: Any) -> Any:
        output = method(*given, **named)
        look(output)
        return output

    return call


def _clause(path: str, module: nn.Module, method: str, model: nn.Module) -> str:
    """The module by its path, and the registered part that it is or belongs to."""
    names = path.split(".") if path else []
    first = f"the first output that is not finite is of {path or 'the model'}.{method}"
    for depth in range(len(names), -1, -1):
        part = model.get_submodule(".".join(names[:depth]))
        kind = next((kind for kind in KINDS if registry.name_of(kind, part)), None)
        if kind is not None:
            name = str(registry.name_of(kind, part))
            place = Candidate(kind, name).place(method if part is module else "")
            return f"{first}: the {kind} {name!r}, {place}"
    return f"{first}, a {type(module).__name__}"
