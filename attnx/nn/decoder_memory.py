"""Projects decoder states into the attention memory, beside the encoder's."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.nn.position_encoding import POSITIONS


class DecoderStateProjection(nn.Module):
    """Give the decoder's states the widths that the memory has.

    ``keys`` are ``one_hot`` or ``sinusoidal`` positions, or anything else for the states.
    """

    def __init__(self, state_size: int, keys_size: int, values_size: int, keys: str) -> None:
        super().__init__()
        self.positions, self.keys_size = POSITIONS.get(keys), keys_size
        # One map where keys and values have one width: as with the encoder's states, they are then the same.
        self.shared = self.positions is None and keys_size == values_size
        self.values = _fit(state_size, values_size)
        self.keys = _fit(state_size, keys_size) if self.positions is None and not self.shared else nn.Identity()

    def forward(self, states: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
        """(b, t, state_size) and their steps, (t,) or (b, t) -> keys (b, t, keys_size), values (b, t, values_size)."""
        values = self.values(states)
        if self.positions is not None:
            keys = self.positions(steps, self.keys_size).to(states.dtype)
            return keys.expand(*states.shape[:2], -1), values
        return (values if self.shared else self.keys(states)), values


def _fit(size: int, target_size: int) -> nn.Module:
    return nn.Identity() if size == target_size else nn.Linear(size, target_size, bias=False)
