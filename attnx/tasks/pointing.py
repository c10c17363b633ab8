"""The task ``pointing``: from points to a sequence of them, drawn by chance from a seed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from torch import nn

from attnx import registry
from attnx.data.examples import Pair, Symbols
from attnx.data.features import Features
from attnx.data.split import Splits
from attnx.data.synthetic.geometry import refuse_coinciding
from attnx.data.synthetic.pointing_problems import COLUMNS, MOST_EXACT, PointingExample, Problem, pose, rows
from attnx.data.vocabulary import SPECIALS, Vocabulary
from attnx.errors import UserError
from attnx.metrics.per_tag import update_all
from attnx.metrics.polygons import PointingReference
from attnx.registry import Natural, Positive, register
from attnx.tasks.protocols import SequenceData

LONGEST: Final = 1000
"""The most points that anything is asked about; it costs a name each."""
EXACT: Final = 12
"""Up to so many points the shortest tours are found, unless another number is asked for."""
PARTS: Final = ("train", "valid", "test")
MEASURES: Final[dict[str, dict[str, tuple[str, dict[str, str]]]]] = {
    "hull": {
        "accuracy": ("answer_accuracy", {"form": "polygon"}),
        "area_coverage": ("area_coverage", {}),
        "well_formed": ("well_formed", {"form": "polygon"}),
    },
    "delaunay": {
        "accuracy": ("answer_accuracy", {"form": "triangles"}),
        "triangle_coverage": ("triangle_coverage", {}),
        "well_formed": ("well_formed", {"form": "triangles"}),
    },
    "tsp": {
        "accuracy": ("answer_accuracy", {"form": "round_trip"}),
        "tour_length": ("tour_length", {}),
        "tour_ratio": ("tour_ratio", {}),
        "well_formed": ("well_formed", {"form": "round_trip"}),
    },
    "sorting": {
        "accuracy": ("answer_accuracy", {"form": "order"}),
        "well_formed": ("well_formed", {"form": "order"}),
    },
}


@register("task", "pointing")
class Pointing:
    """Answers that are positions of the question: which points, in which order.

    Formula: ``minimize -sum_t log p(C_t | C_<t, P)``, P points drawn uniformly from [0, 1)^2, C positions in P
    Source: Vinyals et al. 2015, sections 2.2, 3 and 4, https://arxiv.org/abs/1506.03134

    ``hull`` asks for the convex hull, counter-clockwise from the corner with the lowest number and back to it;
    ``delaunay`` for the triangles of the Delaunay triangulation, each with rising numbers, in the order of their
    incenters; ``tsp`` for the shortest round trip from the first point, lower neighbor first; ``sorting`` for numbers
    in rising order. Positions are written 1, 2, ... ``sizes`` says how many points there are: a number, a list of them,
    or from one to another, as ``5-50``, all equally often; ``test`` those to test on, which may lie beyond what is
    trained on (left out: the same). All is drawn from ``seed`` before training: ``examples`` to train on, and
    ``num_held_out`` each for validation and testing. Tours of more than ``max_exact_points`` points are the best of a
    local search.
    """

    positions = True
    smoothing = 0.0
    reads_files = True

    def __init__(
        self,
        problem: Literal["hull", "delaunay", "tsp", "sorting"] = "hull",
        sizes: Positive | list[Positive] | str = 5,
        test: Positive | list[Positive] | str | None = None,
        examples: Positive = 100_000,
        num_held_out: Positive = 1000,
        max_exact_points: Positive = 12,
        seed: Natural = 1,
    ) -> None:
        self.problem: Problem = problem
        self.sizes = _sizes("sizes", sizes)
        self.test_sizes = self.sizes if test is None else _sizes("test", test)
        self.examples, self.num_held_out, self.max_exact_points, self.seed = (
            examples,
            num_held_out,
            max_exact_points,
            seed,
        )
        if max_exact_points != EXACT and problem != "tsp":
            raise UserError(
                f"task.max_exact_points={max_exact_points} is about tours, and task.problem={problem} has none; "
                "leave it out"
            )
        if max_exact_points > MOST_EXACT:
            raise UserError(
                f"task.max_exact_points={max_exact_points}: the time and memory of a shortest tour double with "
                "each point; choose up to "
                f"{MOST_EXACT}, and longer ones are the best of a local search"
            )
        asked = {"hull": "accuracy", "delaunay": "triangle_coverage", "tsp": "loss", "sorting": "accuracy"}[problem]
        self.monitor, self.maximize = f"valid_{asked}", asked != "loss"
        self.notes: list[str] = []

    def load(self) -> SequenceData:
        """Draw the data; ``notes`` then says which tours may not be the shortest.

        Raises:
            UserError: too few points for the problem.
        """
        self.notes = []
        beyond = sorted(size for size in {*self.sizes, *self.test_sizes} if size > self.max_exact_points)
        if self.problem == "tsp" and beyond:
            self.notes = [
                f"tours of {', '.join(map(str, beyond))} points are the best of a local search, perhaps not the "
                f"shortest: those of more than task.max_exact_points={self.max_exact_points} are too many to try"
            ]
        source = self._source()
        train = rows(self._posed("train", self.sizes, self.examples), source)
        valid = self._pairs("valid", self.sizes)
        return SequenceData(Splits([], valid, self.test_pairs()), source, self._target(), rows=train)

    def test_pairs(self) -> list[Pair]:
        """The test part alone."""
        return self._pairs("test", self.test_sizes)

    def _posed(self, part: str, sizes: Sequence[int], count: int) -> Iterable[PointingExample]:
        return pose(self.problem, sizes, count, (self.seed, PARTS.index(part)), self.max_exact_points)

    def _pairs(self, part: str, sizes: Sequence[int]) -> list[Pair]:
        return [
            Pair(_names(range(len(points))), (_names(answer),), features=points)
            for points, answer in self._posed(part, sizes, self.num_held_out)
        ]

    def _source(self) -> Features:
        """Scaled by the mean and deviation that numbers drawn evenly from [0, 1) have, the same for every run."""
        columns = COLUMNS[self.problem]
        return Features((0.5,) * len(columns), (12**-0.5,) * len(columns), columns)

    def _target(self) -> Vocabulary:
        return Vocabulary(SPECIALS + _names(range(LONGEST)))

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """The paper's measures of the problem; where there are several sizes, of each of them, too."""
        measures = MEASURES[self.problem].items()
        return {name: registry.build("metric", measure) for name, measure in measures}

    def update(self, metrics: nn.ModuleDict, outputs: Sequence[Any], pairs: Sequence[Pair]) -> None:
        """Show the metrics a batch: the positions written for each pair."""
        answers = [
            PointingReference(pair.features, _places(pair.references[0])) for pair in pairs if pair.features is not None
        ]
        update_all(metrics, [_places(output) for output in outputs], answers, [])

    def check_source(self, matrix: np.ndarray[Any, Any]) -> None:
        """See that points of a user's can be asked about.

        Raises:
            UserError: two of them coincide, where that has no answer, or there are too few or too many.
        """
        if len(matrix) > LONGEST:
            raise UserError(f"{len(matrix)} points are more than the {LONGEST} that a run of this task points to")
        if self.problem != "sorting":
            refuse_coinciding(matrix)

    def symbols(self, text: str, tag: str = "") -> Symbols:
        """Nothing: points are no text.

        Raises:
            UserError: always.
        """
        raise UserError(
            "this task reads points, a row each; attnx.data.readers.feature_matrices.read_matrix reads a file of them"
        )

    def text(self, symbols: Sequence[str]) -> str:
        """Positions, counted from 1, with spaces between."""
        return " ".join(symbols)

    def save(self, folder: Path) -> None:
        """Nothing: all follows from the configuration."""

    def restore(self, folder: Path) -> None:
        """Nothing: all follows from the configuration."""


def _sizes(knob: str, asked: int | list[int] | str) -> list[int]:
    """How many points there may be.

    Raises:
        UserError: it is none of the ways to say it, or they are too many.
    """
    if isinstance(asked, str):
        found = re.fullmatch(r"(\d+)-(\d+)", asked)
        sizes = list(range(int(found[1]), int(found[2]) + 1)) if found else []
    else:
        sizes = [asked] if isinstance(asked, int) else asked
    if not sizes or min(sizes) < 1:
        raise UserError(
            f"task.{knob}={asked}: expected a number of points, a list of them, or from one to another: 5-50"
        )
    if max(sizes) > LONGEST:
        raise UserError(f"task.{knob}={asked}: more than {LONGEST} points")
    return sizes


def _names(places: Iterable[int]) -> Symbols:
    """Positions from 0 as symbols, which count from 1."""
    return tuple(str(place + 1) for place in places)


def _places(symbols: Iterable[str]) -> list[int]:
    """Symbols as positions from 0; what is none is -1."""
    return [int(symbol) - 1 if symbol.isdecimal() else -1 for symbol in symbols]
