"""Errors of predicted matrices over the steps that prediction and reference both have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.floating[Any]]


def aligned_errors(predictions: Sequence[Matrix], references: Sequence[Matrix]) -> npt.NDArray[np.float64]:
    """Predictions minus references (n,), number by number, over the steps that both have.

    Numbers that are missing (NaN) in the reference are left out.

    Raises:
        ValueError: the two lists differ in length.

    >>> aligned_errors([np.array([[2.0], [3.0]])], [np.array([[2.5], [3.0], [7.0]])]).tolist()
    [-0.5, 0.0]
    """
    errors = [np.zeros(0)]
    for prediction, reference in zip(predictions, references, strict=True):
        steps = min(len(prediction), len(reference))
        valid_mask = ~np.isnan(reference[:steps])
        errors.append(prediction[:steps].astype(np.float64)[valid_mask] - reference[:steps][valid_mask])
    return np.concatenate(errors)
