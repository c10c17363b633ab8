"""The scorer ``gmm``."""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.ops import at_least_float32
from attnx.registry import Depth, PositiveFloat, Size, Width, register

MIN_WIDTH_POSITIONS = 0.01
"""The least width of a component with ``softplus``: far below one position, and its square is not zero."""
FARTHEST = 1e18
"""The largest distance from a center, in positions: its square is finite."""
LOWEST_EXPONENT = 0.75
"""The lowest score is minus the largest number to this power: temperatures of a fifteenth and more keep it finite."""


@register("scorer", "gmm")
class Gmm(nn.Module):
    """The logarithm of a mixture of Gaussians over positions, whose centers move forwards by steps that the query sets.

    Formula: ``score(q, m) = log sum_k w_k exp(-(m - c_k)^2 / (2 s_k^2)), c_k(t) = c_k(t-1) + d_k, (w', d', s') = V
        tanh(W q + a) + b; softplus: w = softmax(w') / (s sqrt(2 pi)), d = softplus(d'), s = softplus(s'); exponential:
        w = exp(w'), d = exp(d'), 1 / (2 s^2) = exp(s')``
    Source: Battenberg et al. 2020, section 2.2 (version V2), https://arxiv.org/abs/1910.10288; ``exponential``: Graves
        2013, equations 46 to 51, https://arxiv.org/abs/1308.0850

    It never reads the memory's vectors. A softmax makes the mixture sum to 1 over the positions; the papers' weights
    are the mixture itself, ``normalizer=exponential``. Positions count from 1, centers start at 0. ``hidden_size=null``
    is one linear map of the query, as in Graves 2013. At first steps are about ``initial_step`` and widths
    ``initial_width`` positions. The decoder need not run step by step: centers are sums over the steps of a call.

    >>> scorer = Gmm(query_size=13, components=3)
    >>> keys = scorer.project_keys(torch.ones(2, 5, 26))
    >>> scores, centers = scorer.score(scorer.project_queries(torch.ones(2, 7, 13)), keys, scorer.init_carry(keys))
    >>> scores.shape, centers.shape
    (torch.Size([2, 7, 5]), torch.Size([2, 3]))
    """

    requires_equal_dims = False
    is_recurrent = True
    is_positional = True
    needs_keys = False

    def __init__(
        self,
        query_size: Size,
        components: Depth = 5,
        form: Literal["softplus", "exponential"] = "softplus",
        hidden_size: Width | None = 128,
        initial_step: PositiveFloat = 1.0,
        initial_width: PositiveFloat = 3.0,
    ) -> None:
        super().__init__()
        self.components, self.form = components, form
        output = nn.Linear(hidden_size or query_size, 3 * components)
        hidden = [nn.Linear(query_size, hidden_size), nn.Tanh()] if hidden_size else []
        self.parameters_of_query = nn.Sequential(*hidden, output)
        steps, widths = math.log(initial_step), -math.log(2 * initial_width**2)
        if form == "softplus":  # whose inverse is log(exp(x) - 1)
            steps, widths = (value + math.log(-math.expm1(-value)) for value in (initial_step, initial_width))
        with torch.no_grad():
            output.bias.copy_(torch.tensor([0.0, steps, widths]).repeat_interleave(components))

    def project_keys(self, memory: Tensor) -> Tensor:
        """(..., m, memory_size) -> (..., m, 1) zeros: only the number of positions matters."""
        return memory[..., :1] * 0

    def project_queries(self, queries: Tensor) -> Tensor:
        """(..., q, query_size) -> (..., q, 3 * components): w', d' and s'."""
        parameters: Tensor = self.parameters_of_query(queries)
        return parameters

    def init_carry(self, keys: Tensor) -> Tensor:
        """The centers before the first step: (b, m, 1) -> (b, components) zeros."""
        return keys.new_zeros(keys.shape[0], self.components, dtype=_position_type(keys))

    def score(self, queries: Tensor, keys: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        """(b, q, 3 * components), (b, m, 1), (b, components) -> scores (b, q, m), and the centers of the last step."""
        parameters = queries.to(_position_type(queries))
        heights, steps, widths = parameters.chunk(3, dim=-1)
        if self.form == "exponential":
            log_heights, steps, precisions = heights, steps.exp(), widths.exp()
        else:
            widths = F.softplus(widths).clamp(min=MIN_WIDTH_POSITIONS)
            log_heights = heights.log_softmax(-1) - widths.log() - math.log(2 * math.pi) / 2
            steps, precisions = F.softplus(steps), 0.5 / widths**2
        centers = carry[:, None] + steps.cumsum(1)
        positions = 1 + torch.arange(keys.shape[-2], device=keys.device)
        # A number stands for what is below it, also if a temperature divides it: a row of -inf would have no weights,
        # and the sum of two has no gradient.
        lowest = -(torch.finfo(queries.dtype).max ** LOWEST_EXPONENT)
        # The keys are zeros, added so that what projects them has a gradient, which several processes require.
        scores = keys.mT.to(parameters.dtype) + lowest
        components = (torch.split(part, 1, dim=-1) for part in (log_heights, centers, precisions))
        for log_height, center, precision in zip(*components, strict=True):
            distance = (positions - center).clamp(-FARTHEST, FARTHEST)
            scores = torch.logaddexp(scores, (log_height - precision * distance**2).clamp(min=lowest))
        return scores.to(queries.dtype), centers[:, -1]


def _position_type(tensor: Tensor) -> torch.dtype:
    """The type of positions, for which 16 bits are too few: they do not hold the whole numbers above 256."""
    return at_least_float32(tensor.dtype)
