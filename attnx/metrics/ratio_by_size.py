"""Ratio of two sums over pointing answers, in total and per problem size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.metrics.polygons import Order, PointingReference
from attnx.metrics.proportions import Proportion

AnswerScore = Callable[[Order, PointingReference], tuple[float, float]]

MAX_POINTS: Final = 1000
"""Points of a problem at most."""
MAX_SIZES_SHOWN: Final = 12
"""Results are split by size up to so many sizes."""


class RatioBySize(Metric):
    """Sum over answers divided by another sum; NaN if the divisor is zero.

    Args:
        score: maps an answer and its reference to what they add to the numerator and to the denominator.
        unit: factor of the ratio.
    """

    is_differentiable = False
    full_state_update = False

    numerator: Tensor
    denominator: Tensor
    answers: Tensor

    def __init__(self, score: AnswerScore, unit: float = 1.0) -> None:
        super().__init__()
        self.score, self.unit = score, unit
        for name in ("numerator", "denominator", "answers"):
            self.add_state(name, torch.zeros(MAX_POINTS + 1, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, answers: Sequence[Order], references: Sequence[PointingReference]) -> None:
        """Add a batch of answers (positions from 0), each with its reference.

        Raises:
            ValueError: the two lists differ in length.
        """
        for answer, reference in zip(answers, references, strict=True):
            size = len(reference.points)
            numerator, denominator = self.score(answer, reference)
            self.numerator[size] += numerator
            self.denominator[size] += denominator
            self.answers[size] += 1

    def compute(self) -> dict[str, Tensor]:
        """Return the ratio over all answers as ``""``; of two to twelve sizes also each one's, by its number."""
        return {name: self.unit * numerator / total for name, (numerator, total) in self._sums().items()}

    def _sums(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Numerator and denominator over all answers as ``""``, and per size."""
        sizes = self.answers.nonzero()[:, 0].tolist()
        sums = {"": (self.numerator.sum(), self.denominator.sum())}
        if 1 < len(sizes) <= MAX_SIZES_SHOWN:
            sums |= {str(size): (self.numerator[size], self.denominator[size]) for size in sizes}
        return sums


class AnswerRate(RatioBySize):
    """Percentage of answers that meet a condition.

    Args:
        score: maps an answer and its reference to 1 or 0, and 1.
    """

    def __init__(self, score: AnswerScore) -> None:
        super().__init__(score, 100)

    def proportions(self) -> dict[str, list[Proportion]]:
        """The proportion of such answers, in total and per size."""
        return {name: [Proportion(int(numerator), int(total))] for name, (numerator, total) in self._sums().items()}
