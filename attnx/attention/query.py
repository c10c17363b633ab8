"""The query: any set of query inputs, concatenated in the order given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from attnx.attention.attention import is_recurrent
from attnx.attention.contracts import PenalizedInput, QueryInput, RecurrentInput
from attnx.attention.types import QueryContext


class Query(nn.Module):
    """Concatenate what the query inputs pick from a step."""

    def __init__(self, inputs: Iterable[QueryInput | RecurrentInput]) -> None:
        super().__init__()
        self.inputs: Sequence[QueryInput | RecurrentInput] = nn.ModuleList(inputs)  # type: ignore[assignment, arg-type]
        self.size = sum(part.size for part in self.inputs)
        self.needs = {type(part).__name__: part.needs for part in self.inputs}
        self.rows = max((getattr(part, "rows", 1) for part in self.inputs), default=1)
        self.has_penalty = any(getattr(part, "has_penalty", False) for part in self.inputs)
        self.is_recurrent = any(map(is_recurrent, self.inputs))

    def forward(self, step: QueryContext) -> Tensor:
        """Make queries (b, q, size) of the first steps."""
        return self.advance(step, self.init_carries(step.token))[0]

    def init_carries(self, rows: Tensor) -> tuple[Tensor, ...]:
        """What the inputs that carry something do before the first step of rows (b, ...), each (b, c)."""
        return tuple(cast("RecurrentInput", part).init_carry(rows) for part in self.inputs if is_recurrent(part))

    def advance(self, step: QueryContext, carries: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Make queries (b, q, size) of steps that follow others, and what is carried after them."""
        # The empty slice makes the empty set, the baseline without attention, a query of width 0.
        picked, carried, earlier = [step.token[..., :0]], [], iter(carries)
        for part in self.inputs:
            if is_recurrent(part):
                vectors, carry = cast("RecurrentInput", part)(step, next(earlier))
                carried.append(carry)
            else:
                vectors = cast("QueryInput", part)(step)
            picked.append(vectors)
        return torch.cat(picked, dim=-1), tuple(carried)

    def penalty(self, weights: Tensor) -> Tensor:
        """Weights (..., r, m) of the reads with the rows -> (..., r), the loss terms of inputs with a penalty."""
        inputs = (cast("PenalizedInput", part) for part in self.inputs if getattr(part, "has_penalty", False))
        return torch.stack([part.penalty(weights) for part in inputs]).sum(0)
