"""The readout ``joint``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from attnx.registry import Size, Width, register


@register("readout", "joint")
class Joint(nn.Module):
    """Join state, context and token, or any of them, into the vector that the output layer sees.

    Formula: ``r_t = tanh(W [h_t; c_t])``
    Source: Luong et al. 2015, equation 5, https://arxiv.org/abs/1508.04025

    ``inputs`` names what is joined. ``hidden_size`` is the width of r_t; it defaults to the state's. With
    ``tanh=false`` there is no tanh, and no W unless ``hidden_size`` or ``model.tie_embeddings`` asks for a width other
    than the joined vectors'. With ``model.feed=next`` r_t enters the recurrence one step later.

    >>> readout = Joint(state_size=13, context_size=26, token_size=11)
    >>> readout(torch.ones(2, 3, 13), torch.ones(2, 3, 26), torch.ones(2, 3, 11)).shape
    torch.Size([2, 3, 13])
    """

    def __init__(
        self,
        state_size: Size,
        context_size: Size,
        token_size: Size,
        inputs: Sequence[Literal["state", "context", "token"]] = ("state", "context"),
        tanh: bool = True,
        hidden_size: Width | None = None,
    ) -> None:
        super().__init__()
        self.inputs = tuple(inputs)
        widths = {"state": state_size, "context": context_size, "token": token_size}
        joined = sum(widths[name] for name in self.inputs)
        self.size = hidden_size or (state_size if tanh else joined)
        self.join = (
            nn.Sequential(nn.Linear(joined, self.size, bias=False), nn.Tanh())
            if tanh
            else nn.Identity()
            if self.size == joined
            else nn.Linear(joined, self.size, bias=False)
        )

    def forward(self, state: Tensor, context: Tensor, token: Tensor) -> Tensor:
        """(..., state_size), (..., context_size), (..., token_size) -> (..., size)."""
        parts = {"state": state, "context": context, "token": token}
        joined: Tensor = self.join(torch.cat([parts[name] for name in self.inputs], dim=-1))
        return joined
