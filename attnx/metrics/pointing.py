"""The measures of the task ``pointing``: as Pointer Networks were measured, for each of their problems."""

from __future__ import annotations

from functools import partial
from typing import Literal

from attnx.metrics.polygons import Answer, Order, area, length, polygon, round_trip, simple, triangles, within
from attnx.metrics.ratio_by_size import AnswerRate, Answers
from attnx.registry import register

Form = Literal["order", "polygon", "round_trip", "triangles"]


@register("metric", "answer_accuracy")
def answer_accuracy(form: Literal["order", "polygon", "round_trip", "triangles"] = "order") -> AnswerRate:
    """Answers that mean what is right, in percent of all.

    Formula: ``100 * right / answers``
    Source: Vinyals et al. 2015, sections 4.2 and 4.3, https://arxiv.org/abs/1506.03134

    A ``polygon`` or ``round_trip`` is the same wherever it begins and whichever way it goes, with or without the step
    back to its start; ``triangles`` are a set; of an ``order`` every position counts.

    >>> import numpy as np
    >>> metric = answer_accuracy("polygon")
    >>> metric.update([[2, 3, 5, 2], [2, 5]], [Answer(np.zeros((7, 2)), [2, 5, 3, 2])] * 2)
    >>> metric.compute()[""].item()
    50.0
    """
    return AnswerRate(partial(_right, form))


@register("metric", "well_formed")
def well_formed(form: Literal["order", "polygon", "round_trip", "triangles"] = "order") -> AnswerRate:
    """Answers that are of the kind asked for, right or wrong, in percent of all.

    Formula: ``100 * well formed / answers``
    Source: Vinyals et al. 2015, section 4.2 (simple polygons, FAIL below 99 %) and 4.4 (valid tours),
        https://arxiv.org/abs/1506.03134

    A ``polygon`` has three corners or more and does not cross itself; an ``order`` or ``round_trip`` holds every
    position once; ``triangles`` are threes of unlike positions, none twice.

    >>> import numpy as np
    >>> metric = well_formed("order")
    >>> metric.update([[2, 1, 0], [2, 1, 2]], [Answer(np.zeros((3, 1)), [0, 1, 2])] * 2)
    >>> metric.compute()[""].item()
    50.0
    """
    return AnswerRate(partial(_formed, form))


@register("metric", "area_coverage")
def area_coverage() -> Answers:
    """How much of the true hull's area simple polygons cover, on average, in percent.

    Formula: ``100 * mean over simple polygons of area(written) / area(hull)``
    Source: Vinyals et al. 2015, section 4.2, https://arxiv.org/abs/1506.03134

    Corners are points, so that no polygon leaves the hull. Answers that are no simple polygon are left out: look at
    ``well_formed``, too.

    >>> import numpy as np
    >>> metric = area_coverage()
    >>> square = Answer(np.array([[0, 0], [1, 0], [1, 1], [0, 1]]), [0, 1, 2, 3, 0])
    >>> metric.update([[0, 1, 2, 0], [0, 2, 1, 3, 0]], [square] * 2)
    >>> metric.compute()[""].item()
    50.0
    """
    return Answers(_covered, 100)


@register("metric", "triangle_coverage")
def triangle_coverage() -> Answers:
    """How many of the true triangles were written, in percent.

    Formula: ``100 * sum |written and true| / sum |true|``
    Source: Vinyals et al. 2015, section 4.3, https://arxiv.org/abs/1506.03134

    >>> import numpy as np
    >>> metric = triangle_coverage()
    >>> metric.update([[0, 1, 2, 0, 1, 3]], [Answer(np.zeros((5, 2)), [0, 1, 2, 1, 2, 3, 2, 3, 4])])
    >>> round(metric.compute()[""].item(), 1)
    33.3
    """
    return Answers(_found, 100)


@register("metric", "tour_length")
def tour_length() -> Answers:
    """How long the tours are, on average, of those that come to every point once.

    Formula: ``mean over valid tours of sum_i |p_i - p_i+1|, the way back included``
    Source: Vinyals et al. 2015, section 4.4, https://arxiv.org/abs/1506.03134

    >>> import numpy as np
    >>> metric = tour_length()
    >>> metric.update([[0, 1, 2], [0, 1, 1]], [Answer(np.array([[0, 0], [3, 0], [3, 4]]), [0, 1, 2])] * 2)
    >>> metric.compute()[""].item()
    12.0
    """
    return Answers(_long)


@register("metric", "tour_ratio")
def tour_ratio() -> Answers:
    """How long valid tours are for each unit of the references' length; 1 where all are as short.

    Formula: ``sum length(written) / sum length(reference), over valid tours``
    Source: Vinyals et al. 2015, table 2 (lengths against the optimum), https://arxiv.org/abs/1506.03134

    >>> import numpy as np
    >>> metric = tour_ratio()
    >>> metric.update([[0, 2, 1, 3]], [Answer(np.array([[0, 0], [4, 0], [4, 3], [0, 3]]), [0, 1, 2, 3])])
    >>> round(metric.compute()[""].item(), 4)  # (5 + 3 + 5 + 3) / (4 + 3 + 4 + 3)
    1.1429
    """
    return Answers(_against)


def _right(form: Form, written: Order, answer: Answer) -> tuple[float, float]:
    if form == "order":
        return float(list(written) == list(answer.order)), 1
    if form == "triangles":
        return float(_formed(form, written, answer)[0] and triangles(written) == triangles(answer.order)), 1
    return float(polygon(written) == polygon(answer.order)), 1


def _formed(form: Form, written: Order, answer: Answer) -> tuple[float, float]:
    points = answer.points
    if form == "polygon":
        return float(simple(points, written)), 1
    if form == "round_trip":
        return float(round_trip(points, written)), 1
    if form == "order":
        return float(sorted(written) == list(range(len(points)))), 1
    whole = len(written) > 0 and 3 * len(triangles(written)) == len(written)
    return float(whole and within(points, written)), 1


def _covered(written: Order, answer: Answer) -> tuple[float, float]:
    if not simple(answer.points, written):
        return 0, 0
    return area(answer.points, written) / area(answer.points, answer.order), 1


def _found(written: Order, answer: Answer) -> tuple[float, float]:
    true = triangles(answer.order)
    return len(triangles(written) & true), len(true)


def _long(written: Order, answer: Answer) -> tuple[float, float]:
    return (length(answer.points, written), 1) if round_trip(answer.points, written) else (0, 0)


def _against(written: Order, answer: Answer) -> tuple[float, float]:
    if not round_trip(answer.points, written):
        return 0, 0
    return length(answer.points, written), length(answer.points, answer.order)
