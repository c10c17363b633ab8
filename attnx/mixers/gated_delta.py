"""The mixer ``gated_delta``."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.mixers.chunks import zero_padding
from attnx.mixers.delta_rule import DeltaRule, DeltaState
from attnx.mixers.layers import HeadNorm
from attnx.registry import Depth, PositiveInt, Size, register

LARGEST_SCALE = 16.0  # of the decays, as they start
FIRST_TIMES = (1e-3, 0.1)  # between which softplus(c) starts, uniform in its logarithm


@register("mixer", "gated_delta")
class GatedDelta(nn.Module):
    """The delta rule on a state that decays as each position decides.

    Formula: ``S' = e^(a_t) S_{t-1}, S_t = S' + k_t (b_t (v_t - S'^T k_t))^T, o_t = S_t^T q_t / sqrt(k),
        a_t = -e^A softplus(w x_t + c), b_t = sigmoid(u x_t)``
    Source: Yang et al. 2025, equation 10, https://arxiv.org/abs/2412.06464

    As ``delta``, with a swish gate after the normalization, and values ``value_ratio`` times as wide as keys. Each head
    has an A and a c of its own.

    >>> mixer = GatedDelta(hidden_size=8, heads=2)
    >>> outputs, state = mixer(torch.ones(3, 5, 8))
    >>> outputs.shape, state.products.shape, state.inputs.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 2, 4, 8]), torch.Size([3, 3, 32]))
    """

    def __init__(
        self,
        hidden_size: Size,
        heads: Depth = 4,
        value_ratio: PositiveInt = 2,
        convolution: PositiveInt = 4,
        negative_eigenvalues: bool = False,
        chunk: PositiveInt = 64,
    ) -> None:
        super().__init__()
        values_size = value_ratio * hidden_size
        self.rule = DeltaRule(hidden_size, heads, values_size, convolution, negative_eigenvalues, chunk)
        self.times = nn.Linear(hidden_size, heads, bias=False)
        self.log_scale = nn.Parameter(torch.empty(heads).uniform_(0, LARGEST_SCALE).clamp(min=1e-4).log())
        first_times = torch.empty(heads).uniform_(*map(math.log, FIRST_TIMES)).exp()
        self.time_bias = nn.Parameter(first_times.expm1().log())  # whose softplus they are
        self.norm = HeadNorm(hidden_size, heads, self.rule.values_width)
        self.out = nn.Linear(values_size, hidden_size, bias=False)
        self.state_size = self.rule.state_size

    def init_state(self, rows: int, like: Tensor) -> DeltaState:
        """Nothing is written yet."""
        return self.rule.init_state(rows, like)

    def forward(
        self, states: Tensor, mask: Tensor | None = None, state: DeltaState | None = None
    ) -> tuple[Tensor, DeltaState]:
        """(b, t, hidden_size) and (b, t) bool -> (b, t, hidden_size) and the state after them."""
        state = self.init_state(states.shape[0], states) if state is None else state
        states, dtype = zero_padding(states, mask), state.products.dtype
        times = F.softplus(self.times(states).to(dtype) + self.time_bias.to(dtype))
        log_decays = zero_padding(-self.log_scale.to(dtype).exp() * times, mask).mT  # (b, h, t), 0 at padding
        context, after = self.rule(states, mask, state, log_decays)
        outputs: Tensor = self.out(self.norm(context, states))
        return outputs, after
