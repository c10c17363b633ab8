"""Errors of numbers by hand: in original units, scaled, of lengths; and sums that can be merged."""

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torchmetrics import Metric

from attnx.data.features import FeatureScaler
from attnx.metrics.per_tag import PerTag
from attnx.problems.forecasting.metrics import forecast_metrics
from attnx.registry import build

# Two columns: mean 5 and 0 in training, deviation 2 and 1.
SCALES = {"mean": [5.0, 0.0], "scale": [2.0, 1.0]}
# The first lacks a step, the second has one too many.
WRITTEN = [np.array([[5.0, 1.0]]), np.array([[7.0, 0.0], [3.0, 2.0]])]
RIGHT = [np.array([[9.0, 0.0], [5.0, 3.0]]), np.array([[6.0, 0.0]])]

METRICS: dict[str, Callable[[], Metric]] = {
    name: lambda name=name: build("metric", name)
    for name in ("mean_absolute_error", "root_mean_squared_error", "root_relative_squared_error", "length_error")
}
METRICS["empirical_correlation"] = lambda: build("metric", "empirical_correlation", columns=2)
METRICS["scaled_error"] = lambda: build("metric", "scaled_error", **SCALES)
# Of the steps that both have, differences -4, 1 and 1, 0. Scaled: -2, 1; (0, 0) for (0, 3); 1/2, 0; (-1, 2) for (0, 0).
EXPECTED = {
    "mean_absolute_error": (4 + 1 + 1) / 4,
    "root_mean_squared_error": math.sqrt((16 + 1 + 1) / 4),
    # Right are 9, 0, 6 and 0.
    "root_relative_squared_error": math.sqrt((16 + 1 + 1) / (117 - 4 * 3.75**2)),
    # (5, 7) for (9, 6) goes the other way; what is right of the second column never changes.
    "empirical_correlation": -1.0,
    "length_error": (1 + 1) / 2,
    "scaled_error": math.sqrt((4 + 1 + 9 + 1 / 4 + 1 + 4) / 6),
}
every_metric = pytest.mark.parametrize("name", METRICS)


def compute_score(metric: Any, written: Any = WRITTEN, right: Any = RIGHT) -> float:
    metric.update(written, right)
    return float(metric.compute())


@every_metric
def test_by_hand(name):
    assert compute_score(METRICS[name]()) == pytest.approx(EXPECTED[name])


@every_metric
def test_a_correct_prediction_has_no_error(name):
    assert compute_score(METRICS[name](), RIGHT) == pytest.approx(1.0 if name == "empirical_correlation" else 0.0)


@every_metric
def test_copies_resets_and_empty_metrics(name):
    metric = METRICS[name]()
    expected = compute_score(metric)
    for copied in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert float(copied.compute()) == pytest.approx(expected)
    metric.reset()
    metric.update([], [])
    assert math.isnan(metric.compute())


@every_metric
def test_lists_of_different_length_are_refused(name):
    with pytest.raises(ValueError, match="shorter"):
        METRICS[name]().update(WRITTEN, RIGHT[:1])


@every_metric
def test_each_tag_has_a_score(name):
    """A tag with one step of each column correlates with nothing."""
    metric = PerTag(METRICS[name], ["ann", "bob"])
    metric.update(WRITTEN, RIGHT, ["bob", "ann"])
    scores = {tag: float(value) for tag, value in metric.compute().items()}
    assert scores["micro"] == pytest.approx(EXPECTED[name])
    assert scores["bob"] == pytest.approx(compute_score(METRICS[name](), WRITTEN[:1], RIGHT[:1]), nan_ok=True)
    assert scores["macro"] == pytest.approx((scores["ann"] + scores["bob"]) / 2, nan_ok=True)


def test_a_wrong_length_is_penalized():
    """Right steps that are left out cost what they are worth; so do wrong ones that are added, and means cost nothing.

    Columns 5 and 0 are the mean: those steps are missing anyway.
    """
    right = [np.array([[9.0, 0.0], [1.0, 1.0], [7.0, 2.0]])]
    complete = compute_score(METRICS["scaled_error"](), [right[0] + 0.5], right)
    assert compute_score(METRICS["scaled_error"](), [right[0][:1] + 0.5], right) > complete
    beyond = np.array([[5.0, 0.0]] * 97)
    added = compute_score(METRICS["scaled_error"](), [np.concatenate([right[0] + 0.5, beyond])], right)
    assert added == pytest.approx(complete)
    assert compute_score(METRICS["scaled_error"](), [np.concatenate([right[0] + 0.5, beyond + 1])], right) > complete


def test_predicting_the_mean_scores_one():
    """Whatever its length, over targets whose mean and deviation are those of the training split."""
    right = [np.array([[3.0, 1.0], [7.0, -1.0]])]
    for steps in (0, 1, 2, 11):
        assert compute_score(METRICS["scaled_error"](), [np.array([[5.0, 0.0]] * steps).reshape(steps, 2)], right) == 1


def test_correlations_are_computed_per_column():
    """By numpy, over many windows with gaps; a column that is always written alike counts 0, a constant one nothing."""
    random = np.random.default_rng(5)
    right = random.normal([3.0, -70.0, 0.0, 11.0], [1.0, 9.0, 4.0, 0.0], (40, 4))
    written = 0.5 * right + random.normal(size=(40, 4))
    written[:, 2] = 1.7
    right[[3, 8, 21], 0] = np.nan
    present = ~np.isnan(right[:, 0])
    first = np.corrcoef(written[present, 0], right[present, 0])[0, 1]
    second = np.corrcoef(written[:, 1], right[:, 1])[0, 1]
    metric: Any = build("metric", "empirical_correlation", columns=4)
    for start in range(0, 40, 10):
        metric.update([written[start : start + 10]], [right[start : start + 10]])
    assert float(metric.compute()) == pytest.approx((first + second + 0) / 3)


def test_relative_errors_use_one_mean():
    """The mean of all columns and steps together is at 1; of numbers that never differ there is no such error.

    A number that is missing does not count.
    """
    random = np.random.default_rng(7)
    right = [random.normal([1e4, 3.0], [2.0, 5.0], (3, 2)) for _ in range(9)]
    right[4][1, 0] = np.nan
    mean = np.nanmean(right)
    assert compute_score(
        build("metric", "root_relative_squared_error"), [np.full((3, 2), mean)] * 9, right
    ) == pytest.approx(1)
    errors = [random.normal(size=(3, 2)) for _ in range(9)]
    written = [np.nan_to_num(value + error) for value, error in zip(right, errors, strict=True)]
    expected = math.sqrt(np.square(errors)[~np.isnan(right)].sum() / np.nansum(np.square(right - mean)))
    assert compute_score(build("metric", "root_relative_squared_error"), written, right) == pytest.approx(expected)
    alike = [np.full((3, 2), 0.1)]
    assert math.isnan(compute_score(build("metric", "root_relative_squared_error"), [alike[0] + 1], alike))


def test_a_high_level_does_not_change_the_relative_error():
    """Squares of a billion have eighteen digits: errors of 1 and 0 against deviations of 1/2 each."""
    metric = forecast_metrics(FeatureScaler((1e9,), (1.0,)), (), ())["rse"]
    right = [np.array([[1e9 + 2]]), np.array([[1e9 + 3]])]
    assert compute_score(metric, [right[0] - 1, right[1]], right) == pytest.approx(2**0.5)
