"""Length error of predicted sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.registry import register


@register("metric", "length_error")
class LengthError(Metric):
    """Mean number of steps by which a prediction is too long or too short.

    Formula: ``sum |steps of the prediction - steps of the reference| / sequences``
    Source: a mean absolute error, Willmott and Matsuura 2005, https://doi.org/10.3354/cr030079

    The metrics of numbers ignore these steps. It is NaN before the first sequence. Both sums are integers, so merging
    processes is exact.

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
        """Count a batch of sequences, each with its reference.

        Raises:
            ValueError: the two lists differ in length.
        """
        pairs = list(zip(predictions, references, strict=True))
        self.steps += sum(abs(len(prediction) - len(reference)) for prediction, reference in pairs)
        self.sequences += len(pairs)

    def compute(self) -> Tensor:
        """Return the error in steps, a scalar."""
        return self.steps / self.sequences
