"""Rows of a state: which of them, and those that share a memory as queries of one row and back."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from torch import Tensor

from attnx.attention import AttentionOutput

Tree = TypeVar("Tree")


def index_select_tree(tree: Tree, rows: Tensor) -> Tree:
    """The same tree with these rows of every tensor in it, int64, in this order; what is no tensor stays as it is.

    >>> import torch
    >>> index_select_tree((torch.tensor([5, 7, 11]), (None, (2, 3))), torch.tensor([2, 2, 0]))
    (tensor([11, 11,  5]), (None, (2, 3)))
    """
    return cast("Tree", _picked(tree, rows))


def _picked(tree: Any, rows: Tensor) -> Any:
    if isinstance(tree, Tensor):
        return tree.index_select(0, rows.to(tree.device))  # of a model on several devices parts may lie elsewhere
    if isinstance(tree, tuple):
        parts = [_picked(part, rows) for part in tree]
        return tree._make(parts) if hasattr(tree, "_make") else tuple(parts)
    return tree


def fold_beams_into_queries(queries: Tensor, shared: int) -> Tensor:
    """(b * shared, 1, d) -> (b, shared, d)."""
    return queries if shared == 1 else queries.view(len(queries) // shared, shared, queries.shape[-1])


def unfold_beams(read: AttentionOutput) -> AttentionOutput:
    """What so many queries of a row read, as reads of rows with one query each: (b, q, ...) -> (b * q, 1, ...)."""
    weights, scores = (None if part is None else _apart(part) for part in (read.weights, read.scores))
    return AttentionOutput(_apart(read.context), weights, scores)


def _apart(part: Tensor) -> Tensor:
    """(b, q, m) -> (b * q, 1, m), or (b, h, q, m) -> (b * q, h, 1, m)."""
    return part.movedim(-2, 1).flatten(0, 1).unsqueeze(-2)
