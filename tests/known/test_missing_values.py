"""Missing targets are filled from earlier values and counted by no loss and no metric."""

import math

import numpy as np
import pytest
import torch

from attnx.data.batches import collate
from attnx.data.dataset import Row
from attnx.data.features import FeatureScaler
from attnx.errors import UserError
from attnx.metrics.aligned_errors import aligned_errors
from attnx.metrics.number_errors import QuantileLoss
from attnx.models.sequence_model import Output
from attnx.problems.forecasting.baselines import Linear
from attnx.problems.forecasting.series import Series, fill_missing
from attnx.problems.forecasting.series_split import SeriesSplit, split_series
from attnx.problems.forecasting.target import ForecastTarget
from attnx.problems.forecasting.windows import Span, WindowSpec, training_windows
from attnx.tasks.loss import token_loss

NAN = np.nan
WINDOWS = WindowSpec(2, 2, ("a", "b"))
PLAIN = FeatureScaler((0.0, 0.0), (1.0, 1.0), ("a", "b"))


def series() -> Series:
    """Seven steps of two columns; of the fifth nothing was measured, of the sixth and seventh only b."""
    numbers = np.array([[2, 3], [5, NAN], [7, 11], [13, 17], [NAN, NAN], [NAN, 19], [NAN, 23]])
    return fill_missing(Series("", numbers, ("a", "b"), np.arange(7.0), tuple("0123456")))[0]


def test_windows_read_filled_values_and_are_scored_on_measured_ones():
    pairs = {pair.name: pair for pair in WINDOWS.pairs(series(), Span(2, 7))}
    assert list(pairs) == ["2", "3", "4", "5"]
    np.testing.assert_array_equal(pairs["2"].features, [[2, 3], [5, 3]])
    np.testing.assert_array_equal(pairs["3"].target, [[13, 17], [NAN, NAN]])
    np.testing.assert_array_equal(pairs["5"].features, [[13, 17], [13, 17]])
    np.testing.assert_array_equal(pairs["5"].target, [[NAN, 19], [NAN, 23]])
    rows = training_windows(WINDOWS, [(series(), Span(0, 7))], (PLAIN, PLAIN), 1)
    np.testing.assert_array_equal(rows[2].source, pairs["4"].features)
    np.testing.assert_array_equal(rows[2].target, pairs["4"].target)


def test_a_window_without_measurements_is_dropped():
    """Of column a alone there is nothing behind the fourth step; a part of such windows is refused."""
    alone = WindowSpec(2, 2, ("a",))
    assert alone.valid_starts(series(), Span(0, 7)).tolist() == [2, 3]
    assert [pair.name for pair in alone.pairs(series(), Span(0, 7))] == ["2", "3"]
    assert (
        len(training_windows(alone, [(series(), Span(0, 7))], (PLAIN, FeatureScaler((0.0,), (1.0,), ("a",))), 1)) == 2
    )
    with pytest.raises(UserError, match="the test split has no value of a"):
        split_series(series(), WindowSpec(1, 1, ("a",)), SeriesSplit.parse([2, 2, 3]))


def test_a_batch_masks_missing_targets():
    """In the place of the rest stands the last number before, or the mean; what is padding is not real anyway."""
    target = np.array([[NAN, 3], [5, NAN], [NAN, NAN]], dtype=np.float32)
    batch = collate([Row(target, target, 0), Row(target[:1], np.ones((1, 2), np.float32), 1)])
    assert batch.target[0].tolist() == [[0, 3], [5, 3], [5, 3]]
    assert batch.measured_mask[0].tolist() == [[False, True], [True, False], [False, False]]
    assert batch.measured_mask[1, 0].all()
    assert collate([Row(target, np.ones((1, 2), np.float32), 0)]).measured_mask is None


class FixedForecaster(torch.nn.Module):
    """Writes the same rows whatever it reads, and keeps what that was."""

    def __init__(self, rows: torch.Tensor, **side: object) -> None:
        super().__init__()
        self.rows, self.target = torch.nn.Parameter(rows), ForecastTarget(features=2, steps=3, **side)

    def forward(
        self, source: torch.Tensor, source_mask: torch.Tensor, inputs: torch.Tensor, *args: object, **kwargs: object
    ) -> Output:
        self.read = inputs
        return Output(self.rows, None, None)


def test_missing_values_add_no_loss():
    """Errors 3 of two numbers that were measured and 1 of a third: (9 + 9 + 1) / 3; no gradient from the others."""
    target = np.array([[NAN, 3], [5, NAN], [NAN, 7]], dtype=np.float32)
    model = FixedForecaster(torch.tensor([[[50.0, 6.0], [2.0, 50.0], [50.0, 8.0]]]))
    loss = token_loss(model, collate([Row(target, target, 0)]))
    assert loss.mean.item() == pytest.approx(19 / 3)
    loss.mean.backward()
    np.testing.assert_allclose(model.rows.grad[0], np.array([[0, 6], [-6, 0], [0, 2]]) / 3, rtol=1e-6)
    assert model.read[0].tolist() == [[0, 0], [0, 3], [5, 3]]


def test_missing_values_add_no_quantile_loss():
    """Too low by 4 of one number out of two: 2 by the median, 3 by 0.75, the mean 5 / 2; and measured likewise."""
    target = np.array([[10, NAN]], dtype=np.float32)
    written = torch.tensor([[[6.0, 50.0, 6.0, -50.0]]])
    model = FixedForecaster(written, quantiles=(0.5, 0.75))
    loss = token_loss(model, collate([Row(target, target, 0)]))
    assert loss.mean.item() == pytest.approx(5 / 2)
    metric = QuantileLoss(quantiles=[0.5, 0.75])
    metric.update([written[0].numpy()], [target])
    assert metric.compute().item() == pytest.approx(5 / 2)


def test_missing_values_do_not_count_in_errors():
    """But a forecast that is not a number is an error."""
    assert aligned_errors([np.array([[2.0, 5.0]])], [np.array([[1.0, NAN]])]).tolist() == [1]
    (result,) = aligned_errors([np.array([[NAN]])], [np.array([[1.0]])]).tolist()
    assert math.isnan(result)


def test_a_map_is_fitted_to_whole_columns():
    """The second column would teach another rule, and lacks a number; of no column at all it is the last value."""
    past, future = np.array([[2.0, 2.0], [3.0, 3.0]]), np.array([[4.0, 9.0], [5.0, NAN]])
    fitted = Linear.fit([(past, future)])
    np.testing.assert_allclose(fitted(past[:, :1]), [[4], [5]], rtol=1e-4)
    last = Linear.fit([(past, np.full((2, 2), NAN))])
    np.testing.assert_allclose(last(past), [[3, 3], [3, 3]])
