"""Attention in plain PyTorch: scorers, scopes, query inputs and normalizers, and what composes them.

Names are imported when first used, so that reading a plan or a signature does not wait for torch.

The letters of tensor axes, here and everywhere in attnx:

======= =============================================================================
``b``   rows of a batch
``q``   query steps: 1 in one step of an RNN, the target's length when done all at once
``m``   memory positions
``s``   source positions, ``t`` target positions
``d``   a width; ``k`` that of a key, ``v`` that of a value, ``e`` that of an embedding
``...`` any leading axes; every contract broadcasts over them
======= =============================================================================

Masks have one polarity: True means that a query may read the position (``allowed_mask``), or that the position is real
and not padding (``memory_mask``, ``source_mask``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnx.attention.attention import Attention as Attention
    from attnx.attention.factory import build as build
    from attnx.attention.hops import Hops as Hops
    from attnx.attention.multi_head import MultiHeadAttention as MultiHeadAttention
    from attnx.attention.query import Query as Query
    from attnx.attention.types import AttentionHistory as AttentionHistory
    from attnx.attention.types import AttentionOutput as AttentionOutput
    from attnx.attention.types import Memory as Memory
    from attnx.attention.types import QueryContext as QueryContext
    from attnx.attention.types import ScopeMask as ScopeMask

_HOMES = {
    "Attention": "attention",
    "AttentionHistory": "types",
    "AttentionOutput": "types",
    "Hops": "hops",
    "Memory": "types",
    "MultiHeadAttention": "multi_head",
    "Query": "query",
    "QueryContext": "types",
    "ScopeMask": "types",
    "build": "factory",
}

if not TYPE_CHECKING:  # a type checker would take every misspelled name for one of these

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'attnx.attention' has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(f"attnx.attention.{_HOMES[name]}"), name)
