"""The protocol of a mixer."""

from __future__ import annotations

from typing import Protocol, TypeVar

from torch import Tensor

MixerState = TypeVar("MixerState", bound=tuple[Tensor, ...])


class Mixer(Protocol[MixerState]):
    """How a layer reads earlier positions without keeping them: what it knows of them is a state of fixed size.

    It is an ``nn.Module`` whose constructor takes ``hidden_size``. Positions read themselves and earlier ones. The
    state is an argument and a result: a module keeps nothing between calls.
    """

    state_size: int  # how many numbers the state of a row holds

    def init_state(self, rows: int, like: Tensor) -> MixerState:
        """The state before the first position, on the device of ``like``.

        A named tuple of tensors, (rows, ...) in float32, or in the type of ``like`` if that is wider.
        """

    def __call__(
        self, states: Tensor, mask: Tensor | None = None, state: MixerState | None = None
    ) -> tuple[Tensor, MixerState]:
        """Read consecutive positions: one call for all gives what a call for each gives.

        Args:
            states: (b, t, hidden_size).
            mask: (b, t) bool, False at padding, which comes last and leaves the state as it was; all True if left out.
            state: after the positions before; that of :meth:`init_state` if left out.

        Returns:
            what each position read (b, t, hidden_size), anything at padding; and the state after the last.
        """
