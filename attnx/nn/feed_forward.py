"""The position-wise feed-forward layer of a transformer."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

Activation = Literal["relu", "gelu", "silu"]
ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}


class FeedForward(nn.Module):
    """Two linear maps with an activation between them, which may be multiplied by a third map.

    Formula: ``f(x) = W_2 activation(W_1 x + b_1) + b_2``, or gated ``f(x) = W_2 (activation(V x + c) * (W_1 x + b_1)) +
        b_2``
    Source: Vaswani et al. 2017, equation 2, https://arxiv.org/abs/1706.03762; gated, Shazeer 2020, equation 6,
        https://arxiv.org/abs/2002.05202, with ``silu`` its SwiGLU
    """

    def __init__(
        self,
        hidden_size: int,
        feedforward_size: int,
        activation: Activation,
        is_gated: bool = False,
        has_bias: bool = True,
    ) -> None:
        super().__init__()
        self.up = nn.Linear(hidden_size, feedforward_size, has_bias)
        self.gate = nn.Linear(hidden_size, feedforward_size, has_bias) if is_gated else None
        self.down = nn.Linear(feedforward_size, hidden_size, has_bias)
        self.activation = ACTIVATIONS[activation]()

    def forward(self, states: Tensor) -> Tensor:
        """(b, t, hidden_size) -> (b, t, hidden_size)."""
        units = self.up(states)
        units = self.activation(units) if self.gate is None else self.activation(self.gate(states)) * units
        outputs: Tensor = self.down(units)
        return outputs
