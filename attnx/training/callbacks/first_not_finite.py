"""Find the module whose output is the first that is not finite, by a second pass over the same batch."""

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
from attnx.accel.swap import PLAIN
from attnx.laws.candidate import Candidate
from attnx.registry.source_scan import KINDS


def first_not_finite(model: nn.Module, compute: Callable[[], Any]) -> str:
    """Describe the first module whose output is not finite: its path in the model, its part, file and line.

    Args:
        model: the model.
        compute: the forward pass that ended in a number that is not finite.

    Returns:
        a clause; "" if every output is finite this time.
    """
    if bad_weights := [name for name, weight in model.named_parameters() if not bool(weight.isfinite().all())]:
        return (
            f"weights were not finite before this step ({bad_weights[0]}), so a gradient of the previous step was not"
        )
    outputs: list[tuple[str, nn.Module, str]] = []  # path, module and method of the first one

    def check(path: str, module: nn.Module, method: str, output: Any) -> None:
        if not outputs and any(not_finite(leaf) for leaf in tree_leaves(output)):
            outputs.append((path, module, method))

    with ExitStack() as stack, torch.no_grad():
        for path, module in model.named_modules():
            stack.enter_context(_watch(path, module, check))
        compute()
    return _describe(*outputs[0], model) if outputs else ""


def not_finite(value: Any) -> bool:
    """Whether a value is a tensor of floating-point numbers of which some are NaN or infinite."""
    return isinstance(value, Tensor) and value.is_floating_point() and not bool(value.isfinite().all())


@contextmanager
def _watch(path: str, module: nn.Module, check: Callable[[str, nn.Module, str, Any], None]) -> Iterator[None]:
    """Check the outputs of a module's forward and of its other public methods, such as a scorer's ``score``."""
    classes = type(module).__mro__[: type(module).__mro__.index(nn.Module)]
    methods = {
        name
        for class_ in classes
        for name, item in vars(class_).items()
        if isinstance(item, types.FunctionType) and not name.startswith("_") and name != "forward"
    } - vars(module).keys()
    hook = module.register_forward_hook(lambda _, inputs, output: check(path, module, "forward", output))
    for name in methods:
        object.__setattr__(
            module, name, _check_output(getattr(module, name), functools.partial(check, path, module, name))
        )
    try:
        yield
    finally:
        hook.remove()
        for name in methods:
            object.__delattr__(module, name)


def _check_output(method: Callable[..., Any], check: Callable[[Any], None]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        output = method(*args, **kwargs)
        check(output)
        return output

    return call


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
