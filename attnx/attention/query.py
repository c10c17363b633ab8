"""The query: any set of query inputs, concatenated in the order given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from attnx.attention.contracts import PenalizedInput, QueryInput
from attnx.attention.types import QueryContext


class Query(nn.Module):
    """Concatenate what the query inputs pick from a step."""

    def __init__(self, inputs: Iterable[QueryInput]) -> None:
        super().__init__()
        self.inputs: Sequence[QueryInput] = nn.ModuleList(inputs)  # type: ignore[assignment, arg-type]
        self.size = sum(part.size for part in self.inputs)
        self.needs = {type(part).__name__: part.needs for part in self.inputs}
        self.rows = max((getattr(part, "rows", 1) for part in self.inputs), default=1)
        self.has_penalty = any(getattr(part, "has_penalty", False) for part in self.inputs)

    def forward(self, step: QueryContext) -> Tensor:
        """-> (b, q, size)."""
        # The empty slice makes the empty set, the baseline without attention, a query of width 0.
        return torch.cat([step.token[..., :0], *(part(step) for part in self.inputs)], dim=-1)

    def penalty(self, weights: Tensor) -> Tensor:
        """Weights (..., r, m) of the reads with the rows -> (..., r), the loss terms of inputs with a penalty."""
        inputs = (cast("PenalizedInput", part) for part in self.inputs if getattr(part, "has_penalty", False))
        return torch.stack([part.penalty(weights) for part in inputs]).sum(0)
