"""What a recurrence is given of embedded symbols: the rows that were found, or what to look up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from attnx.accel.embedding_lookup import Lookup


def embedded(
    embedding: nn.Module,
    ids: Tensor,
    rows: Tensor,
    beside: Sequence[Tensor],
    looks_up: Callable[[Tensor, Tensor], bool] | None,
) -> Tensor | Lookup:
    """Rows of an embedding and what stands beside each, joined; a lookup of them where that is wanted.

    Args:
        embedding: where they are from; only that of symbols has a table.
        ids: (b, t) int64, or features.
        rows: (b, t, e), what the embedding made of them.
        beside: tensors (b, t, k).
        looks_up: says of the table and the ids whether a lookup is wanted; None if it is not, as of rows that were
            changed since.
    """
    if looks_up is not None and isinstance(embedding, nn.Embedding) and looks_up(embedding.weight, ids):
        return Lookup(embedding.weight, ids, tuple(beside))
    return torch.cat([rows, *beside], dim=-1)
