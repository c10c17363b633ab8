"""Find the module whose output is the first that is not finite, by a second pass over the same batch."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from attnx import registry
from attnx.accel.swap import PLAIN
from attnx.laws.candidate import Candidate
from attnx.registry.source_scan import KINDS


def first_not_finite(model: nn.Module, compute: Callable[[], Any]) -> str:
    """Describe the first module whose output is not finite in a forward pass: its path in the model, part, file, line.

    Returns:
        a clause; "" if every output is finite this time.
    """
    if bad_weights := [name for name, weight in model.named_parameters() if not bool(weight.isfinite().all())]:
        return (
            f"weights were not finite before this step ({bad_weights[0]}), so a gradient of the previous step was not"
        )
    outputs: list[tuple[str, nn.Module, str]] = []  # path, module and method of the first one

    def check_output(path: str, module: nn.Module, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            output = method(*args, **kwargs)
            tensors = (leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor) and leaf.is_floating_point())
            if not outputs and not all(bool(tensor.isfinite().all()) for tensor in tensors):
                outputs.append((path, module, name))
            return output

        return call

    wrappers = {
        (module, name): partial(check_output, path, module, name)
        for path, module in model.named_modules()
        for name in _methods(module)
    }
    with _wrap_methods(wrappers), torch.no_grad():
        compute()
    if not outputs:
        return ""
    path, module, method = outputs[0]
    return _describe(path, module, method, model)


@contextmanager
def _wrap_methods(wrappers: Mapping[tuple[nn.Module, str], Callable[..., Any]]) -> Iterator[None]:
    """Replace methods, by module and name, by what their wrapper makes of them."""
    for (module, name), wrap in wrappers.items():
        setattr(module, name, wrap(getattr(module, name)))
    try:
        yield
    finally:
        for module, name in wrappers:
            delattr(module, name)


def _methods(module: nn.Module) -> set[str]:
    """A module's forward, and its other public methods, such as a scorer's ``score``."""
    classes = type(module).__mro__[: type(module).__mro__.index(nn.Module)]
    functions = {name for cls in classes for name, item in vars(cls).items() if isinstance(item, types.FunctionType)}
    return {name for name in functions if not name.startswith("_")} - vars(module).keys()


def _describe(path: str, module: nn.Module, method: str, model: nn.Module) -> str:
    """A module by its path, and the registered part that it is or belongs to."""
    names = path.split(".") if path else []
    first = f"the first output that is not finite is of {path or 'the model'}.{method}"
    for depth in range(len(names), -1, -1):
        part = model.get_submodule(".".join(names[:depth]))
        cls = PLAIN.get(type(part), type(part))
        for kind in KINDS:
            name = registry.registered_name(kind, cls)
            if name is not None:
                location = Candidate(kind, name).location(method if part is module else "")
                return f"{first}: the {kind} {name!r}, {location}"
    return f"{first}, a {type(module).__name__}"
