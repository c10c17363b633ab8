"""95 % intervals of test metrics: exact for right and wrong examples, never without width."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, norm
from torch import nn

from attnx import registry
from attnx.data.examples import Pair
from attnx.inference.metric_intervals import baseline_differences, bootstrap_metrics, measure_intervals
from attnx.inference.predictor import Prediction
from attnx.metrics.per_tag import metrics_per_tag
from attnx.metrics.proportions import Proportion, interval_of_mean
from attnx.problems.pointing.answers import PointingReference
from attnx.tasks.contract import SequenceData, SequenceTask


class Rates(SequenceTask):
    """A task as far as intervals are concerned: both error rates, of each tag."""

    def load(self) -> SequenceData:
        raise NotImplementedError

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        return metrics_per_tag({name: name for name in ("phone_error_rate", "word_error_rate")}, tags)


class Windows(Rates):
    """The same, of examples that overlap."""

    def neighbors(self, pairs: Sequence[Pair]) -> tuple[list[int], int]:
        return [*range(len(pairs))], 10


def words(wrong: int, right: int, tag: str = "") -> list[Prediction]:
    pair = Pair((), (("a", "b"),), tag)
    return [Prediction(pair, ["a", "c"], 0.0, None)] * wrong + [Prediction(pair, ["a", "b"], 0.0, None)] * right


def intervals(task: Any, predictions: Sequence[Prediction], tags: Sequence[str] = ()) -> dict[str, Any]:
    return measure_intervals(task, tags, predictions, bootstrap_metrics(task, tags, predictions))


def test_zero_errors_have_an_interval_above_zero():
    """0 of n is 0 to 1 - 0.025^(1/n): here 0.37 %. Edits that never occur have no interval rather than 0 to 0."""
    interval = intervals(Rates(), words(0, 1000))
    assert interval == {"test_word_error_rate": pytest.approx((0, 100 * (1 - 0.025 ** (1 / 1000))))}
    assert interval["test_word_error_rate"].high == pytest.approx(0.37, abs=0.005)
    assert intervals(Rates(), words(7, 0))["test_word_error_rate"] == pytest.approx((100 * 0.025 ** (1 / 7), 100))


def test_a_proportion_has_the_interval_of_its_count():
    """By the quantiles of the beta distribution; of many examples as the normal distribution has it."""
    low, high = intervals(Rates(), words(3, 17))["test_word_error_rate"]
    assert (low, high) == pytest.approx((100 * beta.ppf(0.025, 3, 18), 100 * beta.ppf(0.975, 4, 17)))
    low, high = intervals(Rates(), words(300, 700))["test_word_error_rate"]
    assert (high - low) / 2 == pytest.approx(norm.ppf(0.975) * 100 * math.sqrt(0.3 * 0.7 / 1000), rel=0.02)


def test_a_mean_over_tags_is_never_certain():
    """Of two tags without a mistake: half of what each may have, added as squares. Without words of a third
    there is no mean.
    """
    predictions = [*words(0, 50, "x"), *words(0, 80, "y")]
    interval = intervals(Rates(), predictions, ("x", "y"))
    first, second = (100 * (1 - 0.025 ** (1 / count)) for count in (50, 80))
    assert interval["test_word_error_rate_x"] == pytest.approx((0, first))
    assert interval["test_word_error_rate_macro"] == pytest.approx((0, math.hypot(first, second) / 2))
    assert interval["test_word_error_rate_micro"] == pytest.approx((0, 100 * (1 - 0.025 ** (1 / 130))))
    assert intervals(Rates(), predictions, ("x", "y", "z")).keys() == interval.keys() - {"test_word_error_rate_macro"}


def test_a_mean_over_tags_is_as_certain_as_its_examples():
    """Of many examples the interval is that of the bootstrap over them."""
    counts = [Proportion(300, 1000), Proportion(100, 1000), Proportion(550, 1000)]
    low, high = interval_of_mean(counts)
    deviation = math.sqrt(sum(share * (1 - share) / 1000 for share in (0.3, 0.1, 0.55))) / 3
    assert (low + high) / 2 == pytest.approx(0.95 / 3, abs=0.001)
    assert (high - low) / 2 == pytest.approx(norm.ppf(0.975) * deviation, rel=0.03)


def test_other_metrics_have_bootstrap_percentiles():
    predictions = words(8, 12)
    drawn = bootstrap_metrics(Rates(), (), predictions)
    expected = np.percentile(drawn["test_phone_error_rate"], [2.5, 97.5])
    assert intervals(Rates(), predictions)["test_phone_error_rate"] == pytest.approx(tuple(expected))


def test_a_difference_is_the_run_minus_its_baseline():
    """Draws from 0 to 1 and 10 times as much: 95 % of them are between 2.5 % and 97.5 % of minus 9."""
    draws = np.linspace(0, 1, 1001)
    results = {"test_mse": 0.25, "test_naive_mse": 2.0}
    task: Any = Rates()
    task.baselines = {"naive": "the last value"}
    differences = baseline_differences(task, results, {"test_mse": draws, "test_naive_mse": 10 * draws})
    assert differences == {"naive": {"test_mse": pytest.approx((-1.75, -9 * 0.975, -9 * 0.025))}}


def test_overlapping_examples_widen_the_interval():
    """Their rate has the interval of draws in blocks, which is wider than the exact one of as many examples."""
    mixed = [word for number in range(10) for word in words(10 * (number % 2), 10 * (1 - number % 2))]
    separate, together = (intervals(task, mixed)["test_word_error_rate"] for task in (Rates(), Windows()))
    assert together.high - together.low > 1.5 * (separate.high - separate.low)


@pytest.mark.parametrize("metric", ["answer_accuracy", "well_formed"])
def test_answers_have_a_binomial_interval(metric):
    """Of all and of each size."""
    metric: Any = registry.build("metric", metric)
    for size, order in ((3, [2, 1, 0]), (4, [0, 1, 2, 3])):
        answers = [PointingReference(np.zeros((size, 1)), order)] * 5
        metric.update([order, order, order, order, [0, 0]], answers)
    expected = {"": [Proportion(8, 10)], "3": [Proportion(4, 5)], "4": [Proportion(4, 5)]}
    assert metric.proportions() == expected
    assert {name: float(value) for name, value in metric.compute().items()} == {"": 80, "3": 80, "4": 80}
