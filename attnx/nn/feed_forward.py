"""What every position of a stream goes through by itself."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

Activation = Literal["relu", "gelu", "silu"]
ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}


class FeedForward(nn.Module):
    """Two linear maps with an activation between them.

    Formula: ``f(x) = W_2 activation(W_1 x + b_1) + b_2``
    Source: Vaswani et al. 2017, equation 2, https://arxiv.org/abs/1706.03762

    Args:
        width: of the positions.
        hidden: units between the maps.
        activation: ``relu``, ``gelu`` or ``silu``.
    """

    def __init__(self, width: int, hidden: int, activation: Activation) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.activation = ACTIVATIONS[activation]()

    def forward(self, states: Tensor) -> Tensor:
        """(b, t, width) -> (b, t, width)."""
        mapped: Tensor = self.out(self.activation(self.into(states)))
        return mapped
