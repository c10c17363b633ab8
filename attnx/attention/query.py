"""The query: any set of query inputs, concatenated in the order given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from attnx.attention.types import QueryContext


class Query(nn.Module):
    """Concatenate what the query inputs pick from a step.

    Args:
        inputs: the query inputs, each with ``size`` and ``needs``.
    """

    def __init__(self, inputs: Iterable[Any]) -> None:
        super().__init__()
        parts = list(inputs)
        self.inputs = nn.ModuleList(parts)
        self.size: int = sum(part.size for part in parts)
        self.needs: dict[str, str] = {type(part).__name__: part.needs for part in parts}

    def forward(self, step: QueryContext) -> Tensor:
        """-> (b, q, size)."""
        # The empty slice makes the empty set, the baseline without attention, a query of width 0.
        return torch.cat([step.token[..., :0], *(part(step) for part in self.inputs)], dim=-1)
