"""Least-squares fits of factors and of their interactions to the values of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 1e-9
Numbers = NDArray[np.float64]
Term = tuple[int, ...]
"""A main effect, ``(0,)`` of the first factor, or an interaction, ``(0, 2)`` of the first and the third."""
Model = frozenset[Term]


class LeastSquares:
    """A fit of terms together: its design (runs, parameters), rank, and residual sum of squares.

    ``columns`` are those of each term in the design; the first column is the intercept.
    """

    def __init__(self, terms: Mapping[Term, Numbers], values: Numbers) -> None:
        blocks = [np.ones((len(values), 1)), *terms.values()]
        ends = np.cumsum([block.shape[1] for block in blocks]).tolist()
        self.columns = {term: slice(*ends[index : index + 2]) for index, term in enumerate(terms)}
        self.values, self.design = values, np.concatenate(blocks, axis=1)
        parameters, _, rank, _ = np.linalg.lstsq(self.design, values, rcond=None)
        self.rank, self.squares = int(rank), float(np.square(values - self.design @ parameters).sum())

    @cached_property
    def inverse(self) -> Numbers:
        """(parameters, runs)."""
        return np.asarray(np.linalg.pinv(self.design), dtype=np.float64)

    def estimate(self, contrast: Numbers, variance: float) -> tuple[float, float] | None:
        """A contrast of parameters (parameters,) and its standard error; None if it cannot be estimated."""
        weights = contrast @ self.inverse
        if np.abs(weights @ self.design - contrast).max() >= TOLERANCE:
            return None
        return float(weights @ self.values), math.sqrt(float(weights @ weights) * variance)


class ModelFits:
    """The fits of models, which are sets of terms, to the values of runs; each is computed once.

    ``columns`` are of each factor the index of its level in each run, ``sizes`` the number of its levels.
    """

    def __init__(self, columns: Sequence[NDArray[np.int_]], sizes: Sequence[int], values: Numbers) -> None:
        codes = [coding(size)[column] for column, size in zip(columns, sizes, strict=True)]
        self.main: list[Term] = [(factor,) for factor in range(len(codes))]
        self.pairs: list[Term] = [*combinations(range(len(codes)), 2)]
        self.values = values
        self.num_cells = len({*zip(*(column.tolist() for column in columns), strict=True)})  # combinations of levels
        self._terms = dict(zip(self.main, codes, strict=True)) | {
            (a, b): (codes[a][:, :, None] * codes[b][:, None, :]).reshape(len(values), -1) for a, b in self.pairs
        }
        self._fits: dict[Model, LeastSquares] = {}

    def __getitem__(self, model: Model) -> LeastSquares:
        if model not in self._fits:
            terms = {term: numbers for term, numbers in self._terms.items() if term in model}
            self._fits[model] = LeastSquares(terms, self.values)
        return self._fits[model]

    @property
    def additive(self) -> Model:
        """All main effects."""
        return frozenset(self.main)

    @property
    def full(self) -> Model:
        """All main effects and all interactions of two factors."""
        return frozenset([*self.main, *self.pairs])

    def degrees(self, term: Term, model: Model) -> int:
        """The rank that a term adds to the model of the other terms."""
        return self[model].rank - self[model - {term}].rank


def coding(size: int) -> Numbers:
    """Sum-to-zero coding (size, size - 1) of the levels of a factor."""
    return np.vstack([np.eye(size - 1), np.full(size - 1, -1.0)])
