"""The laws of every readout."""

from __future__ import annotations

import torch
from torch import Tensor

from attnx.laws.laws import StepLaws
from attnx.laws.violation import require_tensor

SIZES = {"state_size": 13, "context_size": 11, "token_size": 7}


class ReadoutLaws(StepLaws):
    """The laws of every readout."""

    kind, sizes = "readout", SIZES
    quick = (
        "declarations",
        "any_leading_axes",
        "equal_calls_agree",
        "numbers_are_finite",
        "every_parameter_has_a_gradient",
        "rows_are_independent",
        "steps_are_independent",
    )

    def _inputs(self, leading: tuple[int, ...] = (2, 3)) -> dict[str, Tensor]:
        names = ("states", "contexts", "tokens")
        return {name: torch.randn(*leading, size) for name, size in zip(names, SIZES.values(), strict=True)}

    def _compute(self, states: Tensor, contexts: Tensor, tokens: Tensor) -> Tensor:
        shape = (*states.shape[:-1], self.part.size)
        return require_tensor(self.part(states, contexts, tokens), "forward", shape)

    def declarations(self) -> None:
        """A readout is an nn.Module with a forward and a ``size``, the width of its output."""
        self._require_module()
        self._require_size("its output")

    def any_leading_axes(self) -> None:
        """States, contexts and tokens of one step (b, ...) or of all (b, t, ...) give vectors (..., size)."""
        for leading in ((2,), (2, 3)):
            self._compute(**self._inputs(leading))
