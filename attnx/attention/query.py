"""The query: any set of query inputs, concatenated in the order given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from attnx.attention.contracts import QueryInput
from attnx.attention.types import QueryContext


class Query(nn.Module):
    """Concatenate what the query inputs pick from a step."""

    def __init__(self, inputs: Iterable[QueryInput]) -> None:
        super().__init__()
        self.inputs: Sequence[QueryInput] = nn.ModuleList(inputs)  # type: ignore[assignment, arg-type]
        self.size = sum(part.size for part in self.inputs)
        self.needs = {type(part).__name__: part.needs for part in self.inputs}

    def forward(self, step: QueryContext) -> Tensor:
        """-> (b, q, size)."""
        # The empty slice makes the empty set, the baseline without attention, a query of width 0.
        return torch.cat([step.token[..., :0], *(part(step) for part in self.inputs)], dim=-1)
