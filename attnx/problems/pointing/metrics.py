"""Metrics of the task ``pointing``, as in Pointer Networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from torch import Tensor

from attnx.metrics.additive_metric import AdditiveMetric
from attnx.metrics.proportions import Proportion
from attnx.registry import register

from .answers import (
    Order,
    PointingReference,
    is_right_answer,
    is_round_trip,
    is_simple_polygon,
    is_well_formed,
    path_length,
    polygon_area,
    triangle_set,
)

MAX_POINTS: Final = 1000
"""Most points of a problem."""
MAX_SIZES_SHOWN: Final = 12
"""Results are split by size up to so many sizes."""


class RatioBySize(AdditiveMetric):
    """Sum over answers divided by another sum, in total and per problem size; NaN if the divisor is zero."""

    higher_is_better = None
    unit = 1

    def __init__(self) -> None:
        super().__init__(3, MAX_POINTS + 1)  # numerator, denominator and number of answers of each size

    def score(self, answer: Order, reference: PointingReference) -> tuple[float, float]:
        """What an answer adds to the numerator and to the denominator."""
        raise NotImplementedError

    def update(self, predictions: Sequence[Order], references: Sequence[PointingReference]) -> None:
        """Add a batch of answers (positions from 0), each with its reference."""
        for answer, reference in zip(predictions, references, strict=True):
            self.sums[:, len(reference.points)] += self.sums.new_tensor([*self.score(answer, reference), 1])

    def compute(self) -> dict[str, Tensor]:
        """Return the ratio over all answers as ``""``; of two to twelve sizes also each one's, by its number."""
        return {name: self.unit * numerator / total for name, (numerator, total) in self._ratios().items()}

    def _ratios(self) -> dict[str, Tensor]:
        """Numerator and denominator over all answers as ``""``, and per size."""
        ratios, answers = self.sums[:2], self.sums[2]
        sizes = answers.nonzero()[:, 0].tolist()
        by_size = {str(size): ratios[:, size] for size in sizes} if 1 < len(sizes) <= MAX_SIZES_SHOWN else {}
        return {"": ratios.sum(1), **by_size}


class AnswerRate(RatioBySize):
    """Percentage of answers that meet a condition, which depends on their form."""

    unit = 100

    def __init__(self, form: Literal["order", "polygon", "round_trip", "triangles"] = "order") -> None:
        super().__init__()
        self.form = form

    def proportions(self) -> dict[str, list[Proportion]]:
        """The proportion of such answers, in total and per size."""
        return {name: [Proportion(*map(int, ratio))] for name, ratio in self._ratios().items()}


@register("metric", "answer_accuracy")
class AnswerAccuracy(AnswerRate):
    """Percentage of answers that equal the reference in meaning.

    Formula: ``100 * right / answers``
    Source: Vinyals et al. 2015, sections 4.2 and 4.3, https://arxiv.org/abs/1506.03134

    A ``polygon`` or ``round_trip`` is equal for any start and direction, with or without the closing step;
    ``triangles`` are a set; in an ``order`` every position counts.

    >>> import numpy as np
    >>> metric = AnswerAccuracy("polygon")
    >>> metric.update([[2, 3, 5, 2], [2, 5]], [PointingReference(np.zeros((7, 2)), [2, 5, 3, 2])] * 2)
    >>> metric.compute()[""].item()
    50.0
    """

    def score(self, answer: Order, reference: PointingReference) -> tuple[float, float]:
        """Whether it is right, and 1."""
        return is_right_answer(self.form, answer, reference), 1


@register("metric", "well_formed")
class WellFormed(AnswerRate):
    """Percentage of answers of the required form, right or wrong.

    Formula: ``100 * well formed / answers``
    Source: Vinyals et al. 2015, section 4.2 (simple polygons, FAIL below 99 %) and 4.4 (valid tours),
        https://arxiv.org/abs/1506.03134

    A ``polygon`` has three corners or more and does not cross itself; an ``order`` or ``round_trip`` has every position
    once; ``triangles`` are triples of different positions, none twice.

    >>> import numpy as np
    >>> metric = WellFormed("order")
    >>> metric.update([[2, 1, 0], [2, 1, 2]], [PointingReference(np.zeros((3, 1)), [0, 1, 2])] * 2)
    >>> metric.compute()[""].item()
    50.0
    """

    def score(self, answer: Order, reference: PointingReference) -> tuple[float, float]:
        """Whether it is well formed, and 1."""
        return is_well_formed(self.form, answer, reference), 1


@register("metric", "area_coverage")
class AreaCoverage(RatioBySize):
    """Mean share of the hull's area that simple polygons cover, in percent.

    Formula: ``100 * mean over simple polygons of area(answer) / area(hull)``
    Source: Vinyals et al. 2015, section 4.2, https://arxiv.org/abs/1506.03134

    Corners are points, so no polygon leaves the hull. Answers that are not simple polygons are left out;
    ``well_formed`` counts them.

    >>> import numpy as np
    >>> metric = AreaCoverage()
    >>> square = PointingReference(np.array([[0, 0], [1, 0], [1, 1], [0, 1]]), [0, 1, 2, 3, 0])
    >>> metric.update([[0, 1, 2, 0], [0, 2, 1, 3, 0]], [square] * 2)
    >>> metric.compute()[""].item()
    50.0
    """

    unit = 100

    def score(self, answer: Order, reference: PointingReference) -> tuple[float, float]:
        """The share of a simple polygon, and 1."""
        if not is_simple_polygon(reference.points, answer):
            return 0, 0
        return polygon_area(reference.points, answer) / polygon_area(reference.points, reference.order), 1


@register("metric", "triangle_coverage")
class TriangleCoverage(RatioBySize):
    """Percentage of the true triangles that were predicted.

    Formula: ``100 * sum |predicted and true| / sum |true|``
    Source: Vinyals et al. 2015, section 4.3, https://arxiv.org/abs/1506.03134

    >>> import numpy as np
    >>> metric = TriangleCoverage()
    >>> metric.update([[0, 1, 2, 0, 1, 3]], [PointingReference(np.zeros((5, 2)), [0, 1, 2, 1, 2, 3, 2, 3, 4])])
    >>> round(metric.compute()[""].item(), 1)
    33.3
    """

    unit = 100

    def score(self, answer: Order, reference: PointingReference) -> tuple[float, float]:
        """The number of true triangles in the answer, and of all."""
        expected = triangle_set(reference.order)
        return len(triangle_set(answer) & expected), len(expected)


@register("metric", "tour_length")
class TourLength(RatioBySize):
    """Mean length of the valid tours, which visit every point once.

    Formula: ``mean over valid tours of sum_i |p_i - p_i+1|, the return included``
    Source: Vinyals et al. 2015, section 4.4, https://arxiv.org/abs/1506.03134

    >>> import numpy as np
    >>> metric = TourLength()
    >>> metric.update([[0, 1, 2], [0, 1, 1]], [PointingReference(np.array([[0, 0], [3, 0], [3, 4]]), [0, 1, 2])] * 2)
    >>> metric.compute()[""].item()
    12.0
    """

    def score(self, answer: Order, reference: PointingReference) -> tuple[float, float]:
        """The length of a valid tour, and 1."""
        return (path_length(reference.points, answer), 1) if is_round_trip(reference.points, answer) else (0, 0)


@register("metric", "tour_ratio")
class TourRatio(RatioBySize):
    """Length of valid tours relative to the references; 1 if all are as short.

    Formula: ``sum length(tour) / sum length(reference), over valid tours``
    Source: Vinyals et al. 2015, table 2 (lengths against the optimum), https://arxiv.org/abs/1506.03134

    >>> import numpy as np
    >>> metric = TourRatio()
    >>> metric.update([[0, 2, 1, 3]], [PointingReference(np.array([[0, 0], [4, 0], [4, 3], [0, 3]]), [0, 1, 2, 3])])
    >>> round(metric.compute()[""].item(), 4)  # (5 + 3 + 5 + 3) / (4 + 3 + 4 + 3)
    1.1429
    """

    def score(self, answer: Order, reference: PointingReference) -> tuple[float, float]:
        """The length of a valid tour, and of the reference."""
        if not is_round_trip(reference.points, answer):
            return 0, 0
        return path_length(reference.points, answer), path_length(reference.points, reference.order)
