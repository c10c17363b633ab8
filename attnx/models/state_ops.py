"""Select rows of a state."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from torch import Tensor

Tree = TypeVar("Tree")


def index_select_tree(tree: Tree, rows: Tensor) -> Tree:
    """The same tree with these rows of every tensor in it, int64, in this order; what is no tensor stays as it is.

    >>> import torch
    >>> index_select_tree((torch.tensor([5, 7, 11]), (None, (2, 3))), torch.tensor([2, 2, 0]))
    (tensor([11, 11,  5]), (None, (2, 3)))
    """
    return cast("Tree", _index_select(tree, rows))


def _index_select(tree: Any, rows: Tensor) -> Any:
    if isinstance(tree, Tensor):
        return tree.index_select(0, rows.to(tree.device))  # of a model on several devices parts may lie elsewhere
    if isinstance(tree, tuple):
        parts = [_index_select(part, rows) for part in tree]
        return tree._make(parts) if hasattr(tree, "_make") else tuple(parts)
    return tree
