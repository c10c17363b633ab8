"""Baseline forecasts, by hand."""

import numpy as np
import pytest

from attnx.problems.forecasting.baselines import Linear, repeat_season

PAST = np.array([[2.0, 3.0], [5.0, 7.0], [11.0, 13.0]])


def test_the_last_value_and_the_last_season():
    assert repeat_season(PAST, 2, 1).tolist() == [[11, 13], [11, 13]]
    assert repeat_season(PAST, 5, 2).tolist() == [[5, 7], [11, 13], [5, 7], [11, 13], [5, 7]]
    assert repeat_season(PAST, 2, 7).tolist() == [[2, 3], [5, 7]]  # longer than what is looked back on


def test_the_linear_map_finds_the_rule(tmp_path):
    """y_1 = x_2 + (x_2 - x_1), y_2 = x_1: seen from x_2, of d = x_1 - x_2, they are -d and d."""
    pasts = [np.array([[2.0, 7.0], [3.0, 5.0]]), np.array([[11.0, 13.0], [19.0, 17.0]])]
    windows = [(past, np.stack([2 * past[1] - past[0], past[0]])) for past in pasts]
    fitted = Linear.fit(windows)
    # The last column of the map meets zeros alone: what is seen from itself.
    np.testing.assert_allclose(fitted.weights[:, 0], [-1, 1], rtol=1e-4)
    fitted.save(tmp_path / "linear.npy")
    for linear in (fitted, Linear.load(tmp_path / "linear.npy")):
        np.testing.assert_allclose(linear(np.array([[23.0], [29.0]])), [[35], [23]], rtol=1e-4)


def test_a_map_of_a_constant_series_is_its_last_value():
    still = np.full((3, 1), 5.0)
    assert Linear.fit([(still, still[:2])])(still).tolist() == pytest.approx(np.full((2, 1), 5.0))
