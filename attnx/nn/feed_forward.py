"""The position-wise feed-forward layer of a transformer."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

Activation = Literal["relu", "gelu", "silu"]
ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}


class FeedForward(nn.Module):
    """Two linear maps with an activation between them.

    Formula: ``f(x) = W_2 activation(W_1 x + b_1) + b_2``
    Source: Vaswani et al. 2017, equation 2, https://arxiv.org/abs/1706.03762
    """

    def __init__(self, hidden_size: int, feedforward_size: int, activation: Activation) -> None:
        super().__init__()
        self.up = nn.Linear(hidden_size, feedforward_size)
        self.down = nn.Linear(feedforward_size, hidden_size)
        self.activation = ACTIVATIONS[activation]()

    def forward(self, states: Tensor) -> Tensor:
        """(b, t, hidden_size) -> (b, t, hidden_size)."""
        outputs: Tensor = self.down(self.activation(self.up(states)))
        return outputs
