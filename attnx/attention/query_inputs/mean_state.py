"""The query input ``mean_state``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.attention.types import QueryContext
from attnx.ops import at_least_float32
from attnx.registry import Size, register


@register("query", "mean_state")
class MeanState(nn.Module):
    """The mean of the decoder's top states up to this step: a query that remembers what was looked for before.

    Formula: ``(h_1 + ... + h_t) / t``
    Source: Zhang et al. 2018, equation 1 (a cumulative average), https://arxiv.org/abs/1805.00631

    It carries the sum of the states and their number from step to step, in single precision at least.

    >>> import torch
    >>> part, states = MeanState(state_size=1), torch.tensor([[[1.0], [3.0], [8.0]]])
    >>> step = QueryContext(torch.zeros(1, 3, 5), state=states)
    >>> part(step, part.init_carry(step.token))[0].flatten()
    tensor([1., 2., 4.])
    """

    needs = "state"
    is_recurrent = True

    def __init__(self, state_size: Size) -> None:
        super().__init__()
        self.size = state_size

    def init_carry(self, rows: Tensor) -> Tensor:
        """Nothing yet: (b, ...) -> (b, state_size + 1), zeros."""
        return rows.new_zeros(rows.shape[0], self.size + 1, dtype=at_least_float32(rows.dtype))

    def forward(self, step: QueryContext, carry: Tensor) -> tuple[Tensor, Tensor]:
        """The means (b, q, state_size) of consecutive steps, and the carry (b, state_size + 1) after them."""
        assert step.state is not None, "the plan ran attention before what its query needs"
        terms = torch.cat([step.state.to(carry.dtype), torch.ones_like(step.state[..., :1], dtype=carry.dtype)], -1)
        totals = torch.cat([carry[:, None], terms], 1).cumsum(1)  # (b, 1 + q, state_size + 1), sums and numbers
        means = totals[:, 1:, :-1] / totals[:, 1:, -1:]
        return means.to(step.state.dtype), totals[:, -1]
