"""Forecasts that cost nothing, to see what a model is worth: the last value, the last season, and a linear map."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.floating]


class Baseline(Protocol):
    """Forecasts from what a window holds: (lookback, f) -> (horizon, f)."""

    def __call__(self, past: Numbers) -> Numbers: ...  # noqa: D102 - above


class Naive:
    """The last value, for good.

    >>> Naive(2)(np.array([[5.0], [7.0]])).tolist()
    [[7.0], [7.0]]
    """

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon

    def __call__(self, past: Numbers) -> Numbers:
        """(lookback, f) -> (horizon, f)."""
        return np.repeat(past[-1:], self.horizon, axis=0)


class Seasonal:
    """What was a season before; the last season again and again.

    >>> Seasonal(3, 2)(np.array([[5.0], [7.0], [11.0]])).tolist()
    [[7.0], [11.0], [7.0]]
    """

    def __init__(self, horizon: int, season: int) -> None:
        self.horizon, self.season = horizon, season

    def __call__(self, past: Numbers) -> Numbers:
        """(lookback, f) -> (horizon, f); where the season is longer than what is looked back on, the latter repeats."""
        season = past[-self.season :]
        return season[np.arange(self.horizon) % len(season)]


class Linear:
    """One linear map from the past to the future for all columns, by least squares; both are seen from the last value.

    Formula: ``y = x_L + W (x - x_L)``, W from the training windows with a small ridge
    Source: Zeng et al. 2023 (NLinear, there trained by steps), https://arxiv.org/abs/2205.13504

    Args:
        weights: (horizon, lookback).

    >>> past, future = np.array([[1.0], [2.0]]), np.array([[3.0]])
    >>> rising = Linear.fit([(past, future), (2 * past, 2 * future)])
    >>> rising(np.array([[5.0], [8.0]])).round(3).tolist()  # goes on as before
    [[11.0]]
    """

    def __init__(self, weights: npt.NDArray[np.float64]) -> None:
        self.weights = weights

    @classmethod
    def fit(cls, windows: Iterable[tuple[Numbers, Numbers]], ridge: float = 1e-6) -> Linear:
        """Fit to windows: of each the past (lookback, f) and what came (horizon, f), scaled alike.

        A window's column of which anything that came is missing (NaN) is left out; without any left it is ``Naive``.
        """
        squares, products = np.zeros(()), np.zeros(())
        for past, future in windows:
            last = past[-1:].astype(np.float64)
            whole = ~np.isnan(future).any(0)
            before, after = (past - last)[:, whole], (future - last)[:, whole]
            squares = squares + before @ before.T
            products = products + after @ before.T
        squares = squares + ridge * max(float(np.trace(squares)) / len(squares), 1e-12) * np.eye(len(squares))
        return cls(np.linalg.solve(squares, products.T).T.astype(np.float64))

    def __call__(self, past: Numbers) -> Numbers:
        """(lookback, f) -> (horizon, f)."""
        last = past[-1:]
        forecast: Numbers = last + self.weights @ (past - last)
        return forecast

    def save(self, path: Path) -> None:
        """Write the map."""
        np.save(path, self.weights)

    @classmethod
    def load(cls, path: Path) -> Linear:
        """Read what :meth:`save` wrote."""
        return cls(np.load(path, allow_pickle=False))
