"""The scorer ``dynamic_convolution``."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.attention.types import AttentionHistory
from attnx.registry import NonNegativeInt, PositiveFloat, PositiveInt, Size, Width, register


@register("scorer", "dynamic_convolution")
class DynamicConvolution(nn.Module):
    """Scores from the previous weights alone: filters of them, some made from the query, and a prior of small steps.

    Formula: ``score(q, m) = v . tanh(U f_m + T g_m + b) + p_m, f = F * a_{t-1}, g = G(q) * a_{t-1}, p = log(P *
        a_{t-1}), G(q) = V tanh(W q + c)``
    Source: Battenberg et al. 2020, section 3.2 (equation 8), https://arxiv.org/abs/1910.10288

    It never reads the memory's vectors. P is the beta-binomial distribution of a step forwards of 0 to ``max_step``
    positions, so that reading never goes back; its mean is max_step alpha / (alpha + beta), by default 1. Before the
    first step all weight is on the first position. ``filters`` is the number of static filters, and of dynamic ones,
    each over 2 * ``kernel_radius`` + 1 positions. It makes the decoder run step by step.

    >>> scorer = DynamicConvolution(query_size=13, hidden_size=7)
    >>> queries, keys = scorer.project_queries(torch.ones(2, 1, 13)), scorer.project_keys(torch.ones(2, 5, 26))
    >>> scorer.score(queries, keys, AttentionHistory(torch.zeros(2, 5), torch.zeros(2, 5))).shape
    torch.Size([2, 1, 5])
    """

    requires_equal_dims = False
    needs_history = True
    is_positional = True
    needs_keys = False
    prior: Tensor

    def __init__(
        self,
        query_size: Size,
        hidden_size: Width = 128,
        filters: Width = 8,
        kernel_radius: NonNegativeInt = 10,
        max_step: PositiveInt = 10,
        alpha: PositiveFloat = 0.1,
        beta: PositiveFloat = 0.9,
    ) -> None:
        super().__init__()
        width = 2 * kernel_radius + 1
        self.kernel_radius, self.max_step = kernel_radius, max_step
        self.make_filters = nn.Sequential(
            nn.Linear(query_size, hidden_size), nn.Tanh(), nn.Linear(hidden_size, filters * width, bias=False)
        )
        self.static_filters = nn.Linear(width, filters, bias=False)
        self.static = nn.Linear(filters, hidden_size, bias=False)
        self.dynamic = nn.Linear(filters, hidden_size)
        self.v = nn.Parameter(torch.empty(hidden_size).uniform_(-1, 1) / hidden_size**0.5)
        self.register_buffer("prior", beta_binomial(max_step, alpha, beta).flip(0), persistent=False)

    def project_keys(self, memory: Tensor) -> Tensor:
        """(..., m, memory_size) -> (..., m, 1) zeros: only the number of positions matters."""
        return memory[..., :1] * 0

    def project_queries(self, queries: Tensor) -> Tensor:
        """(..., q, query_size) -> (..., q, filters * width), the dynamic filters."""
        filters: Tensor = self.make_filters(queries)
        return filters

    def score(self, queries: Tensor, keys: Tensor, history: AttentionHistory) -> Tensor:
        """(b, q, filters * width), (b, m, 1) and the history -> (b, q, m)."""
        is_first = torch.arange(keys.shape[-2], device=keys.device) == 0
        was_read = history.cumulative.sum(-1, keepdim=True) > 0
        previous = torch.where(was_read, history.previous, is_first.to(history.previous.dtype))
        near = _windows(previous.to(queries.dtype), self.kernel_radius, self.kernel_radius)
        dynamic_filters = queries.unflatten(-1, (-1, near.shape[-1]))  # type: ignore[no-untyped-call]
        dynamic = torch.einsum("bqfw, bmw -> bqmf", dynamic_filters, near)
        hidden = self.static(self.static_filters(near))[:, None] + self.dynamic(dynamic)
        prior = _windows(previous, self.max_step, 0) @ self.prior.to(previous.dtype)
        # The smallest number instead of 0, whose logarithm is not finite.
        bounded = prior.clamp(min=torch.finfo(prior.dtype).tiny)
        # The keys are zeros, added so that what projects them has a gradient, which several processes require.
        scores: Tensor = torch.tanh(hidden) @ self.v + (bounded.log().to(keys.dtype) + keys[..., 0])[:, None]
        return scores


def _windows(weights: Tensor, earlier: int, later: int) -> Tensor:
    """(b, m) -> (b, m, earlier + 1 + later): the neighbors of each position and itself, zeros beyond the ends."""
    position = torch.arange(weights.shape[-1], device=weights.device)
    index = position[:, None] + torch.arange(earlier + 1 + later, device=weights.device)
    return F.pad(weights, (earlier, later))[:, index]


def beta_binomial(trials: int, alpha: float, beta: float) -> Tensor:
    """(trials + 1) the probabilities of 0 to ``trials`` successes whose chance has the distribution Beta(alpha, beta).

    >>> beta_binomial(trials=3, alpha=1.0, beta=1.0)
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    def log_beta(first: float, second: float) -> float:
        return math.lgamma(first) + math.lgamma(second) - math.lgamma(first + second)

    def log_choose(count: int) -> float:
        return -math.log(trials + 1) - log_beta(count + 1, trials - count + 1)

    return torch.tensor(
        [
            math.exp(log_choose(count) + log_beta(count + alpha, trials - count + beta) - log_beta(alpha, beta))
            for count in range(trials + 1)
        ]
    )
