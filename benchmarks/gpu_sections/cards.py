"""What cards can do, by their data sheets, from which predictions are made."""

from __future__ import annotations

from typing import NamedTuple

RECIPROCALS_PER_CLOCK = 16
"""Of a multiprocessor of compute capability 8.0 to 10.0 (CUDA C++ Programming Guide, arithmetic instructions)."""


class Card(NamedTuple):
    """Rates of a card, all per second, without sparsity."""

    name: str
    float32_flop: float
    bfloat16_flop: float
    memory_bytes: float
    multiprocessors: int
    clocks: float

    @property
    def reciprocals(self) -> float:
        """Approximate reciprocals of float32 numbers."""
        return RECIPROCALS_PER_CLOCK * self.multiprocessors * self.clocks


CARDS = (
    Card("H100", 66.9e12, 989.4e12, 3.35e12, 132, 1.98e9),
    Card("H200", 66.9e12, 989.4e12, 4.8e12, 132, 1.98e9),
)
"""The modules of the kind SXM."""


def find_card(device: str) -> Card | None:
    """The card of torch's name of a device.

    >>> find_card("NVIDIA H100 80GB HBM3").name, find_card("CPU")
    ('H100', None)
    """
    return next((card for card in CARDS if card.name in device), None)
