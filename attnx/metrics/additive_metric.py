"""Metrics that are computed from sums over examples, so that batches and processes change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torchmetrics import Metric


class AdditiveMetric(Metric):
    """What :meth:`terms` returns for an example is added to ``sums``; sums of integers are exact."""

    is_differentiable = False
    higher_is_better: bool | None = False
    full_state_update = False
    sums_dtype = torch.float64

    sums: Tensor

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.add_state("sums", torch.zeros(shape, dtype=self.sums_dtype), dist_reduce_fx="sum")

    def terms(self, prediction: Any, reference: Any) -> npt.ArrayLike:
        """Return what one example adds."""
        raise NotImplementedError

    def update(self, predictions: Sequence[Any], references: Sequence[Any]) -> None:
        """Add a batch; lists of unlike length and an example without a reference are ValueErrors."""
        terms = [np.asarray(self.terms(*pair)) for pair in zip(predictions, references, strict=True)]
        self.sums += torch.as_tensor(np.sum(terms, axis=0), dtype=self.sums.dtype, device=self.sums.device)


class RatioMetric(AdditiveMetric):
    """The first sum divided by the second; NaN before the first example."""

    unit = 1

    def __init__(self) -> None:
        super().__init__(2)

    def compute(self) -> Tensor:
        """Return the ratio, a scalar."""
        return self.unit * self.sums[0] / self.sums[1]
