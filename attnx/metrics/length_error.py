"""Length error: how many steps too many or too few were written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.registry import register


@register("metric", "length_error")
class LengthError(Metric):
    """How many steps a sequence is too long or too short, on average.

    Formula: ``sum |steps written - steps of the reference| / sequences``
    Source: a mean absolute error, Willmott and Matsuura 2005, https://doi.org/10.3354/cr030079

    What the measures of numbers leave out. It is NaN before the first sequence. The two sums are whole numbers, so
    merging processes loses nothing.

    >>> metric = LengthError()
    >>> metric.update([[1, 2, 3], [5]], [[1], [7, 7]])
    >>> metric.compute().item()
    1.5
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    steps: Tensor
    sequences: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("steps", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("sequences", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, predictions: Sequence[Any], references: Sequence[Any]) -> None:
        """Count a batch: one sequence and one reference each, of steps of any kind.

        Raises:
            ValueError: the two lists differ in length.
        """
        found = [abs(len(one) - len(other)) for one, other in zip(predictions, references, strict=True)]
        self.steps += sum(found)
        self.sequences += len(found)

    def compute(self) -> Tensor:
        """Return the error in steps, a scalar."""
        return self.steps / self.sequences
