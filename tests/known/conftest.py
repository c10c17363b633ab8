"""What operations make: for tests of how much is computed, which no clock can fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class _Made(TorchDispatchMode):
    """Notes the elements of every tensor that an operation makes; a view of one that it was given is none."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        given = {_storage(tensor) for tensor in tree_leaves((args, kwargs)) if isinstance(tensor, Tensor)}
        new = [tensor for tensor in tree_leaves(made) if isinstance(tensor, Tensor) and _storage(tensor) not in given]
        self.sizes += [tensor.untyped_storage().nbytes() // tensor.element_size() for tensor in new]
        return made


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@pytest.fixture
def made() -> Callable[[Callable[[], Any]], list[int]]:
    """Call a function and list how many elements each tensor has that it makes, gradients included."""

    def listed(function: Callable[[], Any]) -> list[int]:
        with _Made() as mode:
            function()
        return mode.sizes

    return listed
