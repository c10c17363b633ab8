"""The laws of every decoder: a recurrence that runs over a full target, or takes one step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.laws.laws import TensorLaws
from attnx.laws.violation import require, require_close, require_tensor
from attnx.nn.recurrent import State

ROWS, STEPS = 3, 4
SIZES = {"input_size": 5}
# The protocol :class:`attnx.nn.contracts.Decoder`.
MEMBERS = ("run", "step", "num_layers", "size", "tensors_per_layer", "dropout")


class DecoderLaws(TensorLaws):
    """The laws of every decoder."""

    kind, member, results, sizes = "decoder", "run", "states", SIZES
    quick = (
        "declarations",
        "equal_calls_agree",
        "numbers_are_finite",
        "every_parameter_has_a_gradient",
        "steps_equal_one_run",
        "rows_are_independent",
    )

    def _inputs(self) -> dict[str, Tensor]:
        names = [f"state {layer}.{i}" for layer in range(self.part.num_layers) for i in range(self._per_layer)]
        return {"inputs": torch.randn(ROWS, STEPS, 5), **{name: torch.randn(ROWS, self.part.size) for name in names}}

    def _compute(self, inputs: Tensor, **state: Tensor) -> Tensor:
        """The top states (b, t, size) of a run over all steps."""
        outputs = self.part.run([inputs], state=self._layers(state)).outputs
        return require_tensor(outputs[-1], "run", (*inputs.shape[:2], self.part.size))

    @property
    def _per_layer(self) -> int:
        return int(self.part.tensors_per_layer)

    def _layers(self, state: dict[str, Tensor]) -> State:
        """The tensors of a state by layer."""
        tensors = iter(state.values())
        return tuple(zip(*[tensors] * self._per_layer, strict=True))

    def declarations(self) -> None:
        """A decoder is an nn.Module with the protocol :class:`attnx.nn.contracts.Decoder`.

        Its option ``hidden_size`` is its size: other parts are built by it.
        """
        require(isinstance(self.part, nn.Module), "", "it is no torch.nn.Module")
        missing = [name for name in MEMBERS if not hasattr(self.part, name)]
        require(not missing, "", f"it has no {', '.join(missing)}")
        options = {option.name: option.default for option in self.candidate.info.options} | dict(self.candidate.options)
        size, hidden_size = self.part.size, options.get("hidden_size")
        require(hidden_size is not None, "", "it has no option hidden_size, the width of its state")
        require(size == hidden_size, "", f"its size is {size}, and its option hidden_size {hidden_size}")

    def steps_equal_one_run(self) -> None:
        """Steps one after another give the states (b, t, size) of one run over all of them."""
        inputs = self._inputs()
        states, full = (
            self._layers({name: inputs[name] for name in inputs if name != "inputs"}),
            self._compute(**inputs),
        )
        for step in range(STEPS):
            states = self.part.step([inputs["inputs"][:, step]], states)
            require_close(states[-1][0], full[:, step], "", f"step {step} differs from the run")
