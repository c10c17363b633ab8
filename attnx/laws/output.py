"""The laws of every output layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnx.laws.laws import StepLaws
from attnx.laws.violation import require_tensor
from attnx.nn.contracts import OutputInputs

SIZE, WIDTH, ROWS, STEPS = 19, 17, 2, 3
SIZES = {"state_size": 13, "context_size": 11, "token_size": 7}
SOURCE = torch.tensor([[4, 5, 3, 22, 7], [9, 16, 0, 0, 0]])


class OutputLaws(StepLaws):
    """The laws of every output layer, for 17 symbols, of which those from 4 are in the source vocabulary, too."""

    kind = "output"
    quick = (
        "declarations",
        "equal_calls_agree",
        "numbers_are_finite",
        "every_parameter_has_a_gradient",
        "rows_are_independent",
        "steps_are_independent",
    )
    methods = ("forward", "copy_ids")

    def _build(self) -> Any:
        part = self.candidate.build(size=SIZE, width=WIDTH, tied=None, **SIZES)
        if hasattr(part, "set_vocabulary_map"):
            part.set_vocabulary_map([index if 4 <= index < WIDTH else 0 for index in range(23)])
        return part

    def _inputs(self) -> dict[str, Tensor]:
        sizes = {"readouts": SIZE, "states": 13, "contexts": 11, "tokens": 7}
        inputs = {name: torch.randn(ROWS, STEPS, size) for name, size in sizes.items()}
        weights = torch.softmax(torch.randn(ROWS, STEPS, SOURCE.shape[1]), -1)
        return {**inputs, "weights": weights, "source_rows": torch.arange(ROWS)[:, None].expand(ROWS, STEPS)}

    def _compute(self, readouts: Tensor, *, source_rows: Tensor, **inputs: Tensor) -> Tensor:
        """The outputs (b, t, 17); ``source_rows`` (b, t) are the rows of the source that may be copied."""
        source = SOURCE[source_rows[:, 0]]
        copy_ids = self.part.copy_ids(source, source != 0)
        outputs = self.part(readouts, OutputInputs(**inputs, copy_ids=copy_ids))
        return require_tensor(outputs, "forward", (*readouts.shape[:-1], WIDTH))

    def declarations(self) -> None:
        """An output layer is an nn.Module with forward and copy_ids, and declares whether it ``needs_weights``."""
        self._require_declarations()
        self._require_module()
