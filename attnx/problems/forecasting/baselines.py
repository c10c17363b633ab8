"""Baseline forecasts: the last value, the last season, and a linear map."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from attnx.files.atomic_files import atomic_write
from attnx.files.bounded_files import read_array

Numbers = npt.NDArray[np.floating]

LINEAR_BASELINE = "linear.npy"  # the weights of the linear map in a run's folder of vocabularies

Baseline: TypeAlias = Callable[[Numbers], Numbers]
"""A forecast of a window: (lookback, f) -> (horizon, f)."""


def repeat_season(past: Numbers, horizon: int, season: int) -> Numbers:
    """Repeat the last season, (lookback, f) -> (horizon, f); a lookback that is shorter is repeated.

    >>> repeat_season(np.array([[5.0], [7.0], [11.0]]), horizon=3, season=2).tolist()
    [[7.0], [11.0], [7.0]]
    """
    last = past[-season:]
    return last[np.arange(horizon) % len(last)]


class Linear:
    """A least-squares linear map from past to future, the same for all columns, relative to the last value.

    Formula: ``y = x_L + W (x - x_L)``, W fitted to the training windows with a small ridge
    Source: Zeng et al. 2023 (NLinear, trained there by gradient descent), https://arxiv.org/abs/2205.13504

    >>> past, future = np.array([[1.0], [2.0]]), np.array([[3.0]])
    >>> rising = Linear.fit([(past, future), (2 * past, 2 * future)])
    >>> rising(np.array([[5.0], [8.0]])).round(3).tolist()  # continues the trend
    [[11.0]]
    """

    def __init__(self, weights: npt.NDArray[np.float64]) -> None:
        self.weights = weights  # (horizon, lookback)

    @classmethod
    def fit(cls, windows: Iterable[tuple[Numbers, Numbers]], ridge: float = 1e-6) -> Linear:
        """Fit to windows of past (lookback, f) and future (horizon, f), equally scaled.

        Columns with missing (NaN) future values are skipped; without any columns the result repeats the last value.
        """
        squares, products = np.zeros(()), np.zeros(())
        for past, future in windows:
            last = past[-1:].astype(np.float64)
            is_complete = ~np.isnan(future).any(0)
            inputs, outputs = (past - last)[:, is_complete], (future - last)[:, is_complete]
            squares = squares + inputs @ inputs.T
            products = products + outputs @ inputs.T
        squares = squares + ridge * max(float(np.trace(squares)) / len(squares), 1e-12) * np.eye(len(squares))
        return cls(np.linalg.solve(squares, products.T).T.astype(np.float64))

    def __call__(self, past: Numbers) -> Numbers:
        """(lookback, f) -> (horizon, f)."""
        last = past[-1:]
        return last + self.weights @ (past - last)

    def save(self, path: Path) -> None:
        """Write the weights."""
        with atomic_write(path) as partial, partial.open("wb") as file:
            np.save(file, self.weights)

    @classmethod
    def load(cls, path: Path) -> Linear:
        """Read the file that :meth:`save` wrote; a damaged one is a UserError."""
        return cls(read_array(path))
