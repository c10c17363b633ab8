"""When an answer to a pointing problem is right, and when it is well formed."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from .polygons import (
    Order,
    Points,
    are_positions,
    canonical_polygon,
    is_round_trip,
    is_simple_polygon,
    triangle_set,
)

Form = Literal["order", "polygon", "round_trip", "triangles"]

ANSWER_FORMS: Final[dict[str, Form]] = {
    "hull": "polygon",
    "delaunay": "triangles",
    "tsp": "round_trip",
    "sorting": "order",
}
"""What the answers to each problem are, by its name in ``task.problem``."""


class PointingReference(NamedTuple):
    """The points (n, columns) of a problem, and the right answer as positions from 0."""

    points: Points
    order: Order


def is_right_answer(form: Form, answer: Order, reference: PointingReference) -> bool:
    """Whether an answer equals the reference in meaning: see ``answer_accuracy``."""
    if form == "order":
        return list(answer) == list(reference.order)
    if form == "triangles":
        return is_well_formed(form, answer, reference) and triangle_set(answer) == triangle_set(reference.order)
    return canonical_polygon(answer) == canonical_polygon(reference.order)


def is_well_formed(form: Form, answer: Order, reference: PointingReference) -> bool:
    """Whether an answer, right or wrong, has the required form: see ``well_formed``."""
    points = reference.points
    if form == "polygon":
        return is_simple_polygon(points, answer)
    if form == "round_trip":
        return is_round_trip(points, answer)
    if form == "order":
        return sorted(answer) == list(range(len(points)))
    return 0 < len(answer) == 3 * len(triangle_set(answer)) and are_positions(points, answer)
