"""The task ``pointing``: find a sequence of input points; examples are drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from torch import nn

from attnx import registry
from attnx.data.examples import Pair, Symbols
from attnx.data.features import FeatureScaler
from attnx.data.splits import Splits
from attnx.data.vocabulary import SPECIALS, Vocabulary
from attnx.errors import UserError
from attnx.files.parse_number import parse_counts
from attnx.metrics.per_tag import update_all
from attnx.registry import NonNegativeInt, PositiveInt, register
from attnx.tasks.contract import SequenceData, SequenceTask, TaskOutput

from .answers import ANSWER_FORMS, PointingReference, is_right_answer, read_positions
from .draw_problems import (
    MAX_POINTS_FOR_EXACT_TOUR,
    POINT_COLUMNS,
    Problem,
    check_distinct_points,
    draw_problems,
    encode_examples,
)
from .metrics import MAX_POINTS
from .saved_points import write_points

# The metrics of the paper besides the share of well-formed answers.
METRICS: Final[dict[Problem, tuple[str, ...]]] = {
    "hull": ("area_coverage",),
    "delaunay": ("triangle_coverage",),
    "tsp": ("tour_length", "tour_ratio"),
    "sorting": (),
}
MONITORS: Final = {"hull": "accuracy", "delaunay": "triangle_coverage", "tsp": "loss", "sorting": "accuracy"}


@register(
    "task",
    "pointing",
    read_if={"max_exact_points": "problem=tsp"},
    figures={"predictions": ".figures.draw_points"},
    pictures={"points.png": "some answers drawn among their points"},
    metric_facts={
        "tour_length": {"higher_is_better": False},
        "tour_ratio": {"higher_is_better": False},
        "area_coverage": {"higher_is_better": True, "is_percent": True},
        "triangle_coverage": {"higher_is_better": True, "is_percent": True},
        "well_formed": {"higher_is_better": True, "is_percent": True},
    },
)
class Pointing(SequenceTask):
    """Problems whose answers are positions of the input: which points, in which order.

    Formula: ``minimize -sum_t log p(C_t | C_<t, P)``, P points drawn uniformly from [0, 1)^2, C positions in P
    Source: Vinyals et al. 2015, sections 2.2, 3 and 4, https://arxiv.org/abs/1506.03134

    ``hull`` is the convex hull, counter-clockwise from its lowest position and back to it. ``delaunay`` are the
    triangles of the Delaunay triangulation, each with ascending positions, sorted by incenter. ``tsp`` is the shortest
    round trip from the first point, lower neighbor first. ``sorting`` puts numbers in ascending order. Positions are
    written 1, 2, ... ``sizes`` are the numbers of points: a number, a list of them, or a range such as ``5-50``, all
    equally often; ``test`` are those of the test split (by default the same), which may lie outside the training sizes.
    Examples are drawn from ``seed`` before training: ``examples`` for training and ``num_held_out`` each for validation
    and testing. Tours of more than ``max_exact_points`` points are the best of a local search.
    """

    has_position_targets = True
    label_smoothing = 0.0
    has_file_inputs = True
    num_drawn = "examples"

    def __init__(
        self,
        problem: Literal["hull", "delaunay", "tsp", "sorting"] = "hull",
        sizes: PositiveInt | list[PositiveInt] | str = 5,
        test: PositiveInt | list[PositiveInt] | str | None = None,
        examples: PositiveInt = 100_000,
        num_held_out: PositiveInt = 1000,
        max_exact_points: PositiveInt = 12,
        seed: NonNegativeInt = 1,
    ) -> None:
        self.problem: Problem = problem
        self.sizes = _parse_sizes("sizes", sizes)
        self.test_sizes = self.sizes if test is None else _parse_sizes("test", test)
        self.examples, self.num_held_out, self.seed = examples, num_held_out, seed
        self.max_exact_points = max_exact_points
        if max_exact_points > MAX_POINTS_FOR_EXACT_TOUR:
            raise UserError(
                f"task.max_exact_points={max_exact_points}: the time and memory of a shortest tour double with each "
                f"point; use at most {MAX_POINTS_FOR_EXACT_TOUR}, and longer tours come from a local search"
            )
        self.monitor, self.maximize = f"valid_{MONITORS[problem]}", MONITORS[problem] != "loss"
        self.notes: list[str] = []

    def load(self) -> SequenceData:
        """Draw the data; ``notes`` then says which tours may not be the shortest. Too few points are a UserError."""
        self.notes = []
        inexact = sorted(size for size in {*self.sizes, *self.test_sizes} if size > self.max_exact_points)
        if self.problem == "tsp" and inexact:
            self.notes = [
                f"tours of {', '.join(map(str, inexact))} points (more than "
                f"task.max_exact_points={self.max_exact_points}) come from a local search and may not be the shortest"
            ]
        # Mean and deviation of the uniform distribution on [0, 1), the same for every run.
        columns = POINT_COLUMNS[self.problem]
        source = FeatureScaler((0.5,) * len(columns), (12**-0.5,) * len(columns), columns)
        target = Vocabulary(SPECIALS + _write_positions(range(MAX_POINTS)))
        train = encode_examples(self._draw("train", self.sizes, self.examples), source)
        valid = self._make_pairs("valid", self.sizes)
        return SequenceData(Splits([], valid, self.test_pairs()), source, target, rows=train)

    def test_pairs(self) -> list[Pair]:
        """Draw the test split alone."""
        return self._make_pairs("test", self.test_sizes)

    def _draw(self, part: str, sizes: Sequence[int], count: int) -> Iterable[PointingReference]:
        return draw_problems(self.problem, sizes, count, (self.seed, Splits._fields.index(part)), self.max_exact_points)

    def _make_pairs(self, part: str, sizes: Sequence[int]) -> list[Pair]:
        return [
            Pair(_write_positions(range(len(points))), (_write_positions(answer),), features=points)
            for points, answer in self._draw(part, sizes, self.num_held_out)
        ]

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """Build the paper's metrics of the problem, which are reported per size too."""
        form = ANSWER_FORMS[self.problem]
        return {
            "accuracy": registry.build("metric", ("answer_accuracy", {"form": form})),
            **{name: registry.build("metric", name) for name in METRICS[self.problem]},
            "well_formed": registry.build("metric", ("well_formed", {"form": form})),
        }

    def update(self, metrics: nn.ModuleDict, outputs: Sequence[TaskOutput], pairs: Sequence[Pair]) -> None:
        """Update the metrics with a batch of output positions."""
        references = [_read_reference(pair) for pair in pairs]
        update_all(metrics, [read_positions(output) for output in outputs], references, [])

    def is_right(self, output: TaskOutput, pair: Pair) -> bool:
        """Whether an answer means the same as the reference, from whichever point and in whichever direction."""
        return is_right_answer(ANSWER_FORMS[self.problem], read_positions(output), _read_reference(pair))

    def save_sources(self, folder: Path, pairs: Sequence[Pair]) -> None:
        """Write the points of the first examples."""
        write_points(folder, [pair.features for pair in pairs if pair.features is not None])

    def check_source(self, matrix: np.ndarray[Any, Any]) -> None:
        """Raise a UserError for a user's points if they are too many, or two are equal and there is no answer."""
        if len(matrix) > MAX_POINTS:
            raise UserError(f"{len(matrix)} points are more than {MAX_POINTS}, the most that this task points to")
        if self.problem != "sorting":
            check_distinct_points(matrix)


def _parse_sizes(option: str, value: int | list[int] | str) -> list[int]:
    """Return the numbers of points; a UserError if it is not a number, a list or a range, or one is too large."""
    sizes = parse_counts(option, value, "points")
    if max(sizes) > MAX_POINTS:
        raise UserError(f"task.{option}={value}: more than {MAX_POINTS} points")
    return sizes


def _write_positions(indices: Iterable[int]) -> Symbols:
    """Indices from 0 to symbols, which count from 1."""
    return tuple(str(index + 1) for index in indices)


def _read_reference(pair: Pair) -> PointingReference:
    assert pair.features is not None
    return PointingReference(pair.features, read_positions(pair.references[0]))
