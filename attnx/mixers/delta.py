"""The mixer ``delta``."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.mixers.chunks import zero_padding
from attnx.mixers.delta_rule import DeltaRule, DeltaState
from attnx.mixers.layers import HeadNorm
from attnx.registry import Depth, PositiveInt, Size, register


@register("mixer", "delta")
class Delta(nn.Module):
    """A state that forgets what it holds of a key as it takes up the key's new value.

    Formula: ``S_t = S_{t-1} + k_t (b_t (v_t - S_{t-1}^T k_t))^T, o_t = S_t^T q_t / sqrt(k), b_t = sigmoid(w x_t)``
    Source: Yang et al. 2024, section 3, https://arxiv.org/abs/2406.06484; eigenvalues, Grazzi et al. 2025,
        https://arxiv.org/abs/2411.12537

    Queries, keys and values pass a causal ``convolution`` over so many positions (1: a factor by channel) and a swish;
    queries and keys are scaled to length 1. With ``negative_eigenvalues`` b_t is twice as large: a step may turn what
    the state holds of a key around, and not only erase it, which is what counting modulo 2 needs. In training it
    computes ``chunk`` positions at a time.

    >>> import torch
    >>> mixer = Delta(hidden_size=8, heads=2)
    >>> outputs, state = mixer(torch.ones(3, 5, 8))
    >>> outputs.shape, state.products.shape, state.inputs.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 2, 4, 4]), torch.Size([3, 3, 24]))
    """

    def __init__(
        self,
        hidden_size: Size,
        heads: Depth = 4,
        convolution: PositiveInt = 4,
        negative_eigenvalues: bool = False,
        chunk: PositiveInt = 64,
    ) -> None:
        super().__init__()
        self.rule = DeltaRule(hidden_size, heads, hidden_size, convolution, negative_eigenvalues, chunk)
        self.norm = HeadNorm(hidden_size, heads, self.rule.values_width, is_gated=False)
        self.out = nn.Linear(hidden_size, hidden_size, bias=False)
        self.state_size = self.rule.state_size

    def init_state(self, rows: int, like: Tensor) -> DeltaState:
        """Nothing is written yet."""
        return self.rule.init_state(rows, like)

    def forward(
        self, states: Tensor, mask: Tensor | None = None, state: DeltaState | None = None
    ) -> tuple[Tensor, DeltaState]:
        """(b, t, hidden_size) and (b, t) bool -> (b, t, hidden_size) and the state after them."""
        state = self.init_state(states.shape[0], states) if state is None else state
        states = zero_padding(states, mask)
        context, after = self.rule(states, mask, state)
        outputs: Tensor = self.out(self.norm(context, states))
        return outputs, after
