"""What measures of answers that are positions share: a ratio of two sums, over all answers and by their size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.metrics.polygons import Answer, Order
from attnx.metrics.proportions import Proportion

Judge = Callable[[Order, Answer], tuple[float, float]]

MOST: Final = 1000
"""Points that a question has at most."""
EACH: Final = 12
"""Up to so many sizes are told one by one."""


class Answers(Metric):
    """A sum over answers, divided by another; NaN where there is nothing to divide by.

    Args:
        judge: what was written and what is right -> what each of them adds to the two sums.
        unit: what the ratio is multiplied by.
    """

    is_differentiable = False
    full_state_update = False

    gained: Tensor
    total: Tensor
    asked: Tensor

    def __init__(self, judge: Judge, unit: float = 1.0) -> None:
        super().__init__()
        self.judge, self.unit = judge, unit
        for sums in ("gained", "total", "asked"):
            self.add_state(sums, torch.zeros(MOST + 1, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, written: Sequence[Order], answers: Sequence[Answer]) -> None:
        """Add a batch: the positions written, from 0, and the answer to each.

        Raises:
            ValueError: the two lists differ in length.
        """
        for one, answer in zip(written, answers, strict=True):
            size = len(answer.points)
            for sums, more in zip((self.gained, self.total, self.asked), (*self.judge(one, answer), 1), strict=True):
                sums[size] += more

    def compute(self) -> dict[str, Tensor]:
        """Return the ratio of all as ``""``; where there are several sizes, up to twelve, each one's by its number."""
        return {name: self.unit * gained / total for name, (gained, total) in self._sums().items()}

    def _sums(self) -> dict[str, tuple[Tensor, Tensor]]:
        """The two sums over all answers as ``""``, and over those of each size."""
        sizes = self.asked.nonzero()[:, 0].tolist()
        found = {"": (self.gained.sum(), self.total.sum())}
        if 1 < len(sizes) <= EACH:
            found |= {str(size): (self.gained[size], self.total[size]) for size in sizes}
        return found


class AnswerRate(Answers):
    """Answers that are as they should be, in percent of all.

    Args:
        judge: what was written and what is right -> 1 or 0, and 1.
    """

    def __init__(self, judge: Judge) -> None:
        super().__init__(judge, 100)

    def proportions(self) -> dict[str, list[Proportion]]:
        """The answers that are, of all and of each size."""
        return {name: [Proportion(int(gained), int(total))] for name, (gained, total) in self._sums().items()}
