"""Forecasts by hand: windows over series, targets and their losses, missing values, and baselines."""

import math

import numpy as np
import pytest
import torch

from attnx import registry
from attnx.data.batches import collate
from attnx.data.dataset import Row
from attnx.data.examples import digest
from attnx.data.features import FeatureScaler
from attnx.errors import UserError
from attnx.metrics.aligned_errors import aligned_errors
from attnx.metrics.number_errors import QuantileLoss, mean_squared_error
from attnx.models.sequence_model import Output
from attnx.nn.targets.build import build_target
from attnx.nn.targets.numbers import Numbers
from attnx.nn.targets.symbols import Symbols
from attnx.problems.forecasting.baselines import Linear, repeat_season
from attnx.problems.forecasting.series import Series, fill_missing
from attnx.problems.forecasting.series_split import SeriesSplit, split_series
from attnx.problems.forecasting.target import ForecastTarget, median_first
from attnx.problems.forecasting.windows import Span, WindowSpec, training_windows, window_scales
from attnx.tasks.loss import token_loss


def make_series(steps: int, columns: tuple[str, ...] = ("a", "b"), name: str = "") -> Series:
    """Column k of step s holds s + 1000 k."""
    numbers = np.arange(steps)[:, None] + 1000.0 * np.arange(len(columns))
    return Series(name, numbers, columns, np.arange(float(steps)), tuple(map(str, range(steps))))


def test_scaling_uses_only_the_training_part():
    """0 to 4 have mean 2 and deviation sqrt 2, whatever comes later."""
    series = make_series(23)
    windows = WindowSpec(3, 2, ("a",), ("b",))
    source, target = window_scales(windows, [(series, Span(0, 5))])
    assert source.columns == ("a", "b")
    assert target.columns == ("a",)
    assert source.mean == pytest.approx((2, 1002))
    assert source.scale == pytest.approx((2**0.5, 2**0.5))
    assert (target.mean, target.scale) == (source.mean[:1], source.scale[:1])


def test_a_window_does_not_read_its_targets():
    """Known columns continue; the targets are absent."""
    series = make_series(23)
    (pair, *_) = WindowSpec(3, 2, ("a",), ("b",)).pairs(series, Span(5, 11))
    np.testing.assert_array_equal(pair.features, [[2, 1002], [3, 1003], [4, 1004], [np.nan, 1005], [np.nan, 1006]])
    assert pair.target.tolist() == [[5], [6]]
    assert (pair.source, pair.references, pair.name) == (("2", "3", "4", "5", "6"), (("5", "6"),), "5")
    plain = next(iter(WindowSpec(3, 2, ("a",)).pairs(series, Span(5, 11))))
    assert plain.features.tolist() == [[2], [3], [4]]


def test_windows_of_measured_columns_share_one_table():
    """A thousand windows of 96 steps each would take 96 times the memory of the series."""
    first, second, *_ = WindowSpec(3, 2, ("a",)).pairs(make_series(23), Span(5, 11))
    for one, other in ((first.features, second.features), (first.target, second.target)):
        assert np.shares_memory(one, other)
        assert not one.flags.writeable


@pytest.mark.parametrize("known_columns", [(), ("b",)])
@pytest.mark.parametrize("stride", [1, 3])
def test_training_windows_are_cut_on_access(known_columns, stride):
    """The same windows as pairs, scaled, of two series one after the other; none reaches over to the other."""
    read = [(make_series(17, name="x"), Span(0, 11)), (make_series(13, name="y"), Span(0, 7))]
    windows = WindowSpec(3, 2, ("a",), known_columns)
    scales = window_scales(windows, read)
    rows = training_windows(windows, read, scales, stride)
    pairs = [pair for series, span in read for pair in windows.pairs(series, span)][::stride]
    assert len(pairs) == len(range(0, 7 + 3, stride)) == len(rows)  # 11 - 3 - 2 + 1 and 7 - 3 - 2 + 1
    for pair, row in zip(pairs, (rows[place] for place in range(len(rows))), strict=True):
        np.testing.assert_allclose(row.source, scales[0].encode(pair.features), rtol=1e-6)
        np.testing.assert_allclose(row.target, scales[1].encode(pair.target), rtol=1e-6)
    assert rows.lengths(np.arange(len(rows))).tolist() == [[3 + (2 if known_columns else 0), 2]] * len(pairs)
    if not known_columns and stride == 1:
        assert np.shares_memory(rows[0].source, rows[1].source)


def test_windows_of_a_high_level_keep_their_digits():
    """Half units at a hundred million, where single precision has steps of eight."""
    series = make_series(23, ("a",))
    series.numbers[:] = 1e8 + series.numbers / 2
    windows, parts = WindowSpec(3, 2, ("a",)), [(series, Span(0, 23))]
    scales, _ = window_scales(windows, parts)
    pairs, rows = list(windows.pairs(series, Span(0, 23))), training_windows(windows, parts, (scales, scales), 1)
    assert pairs[0].target[:, 0].tolist() == [1e8 + 1.5, 1e8 + 2]
    np.testing.assert_array_equal(scales.encode(pairs[0].features), rows[0].source)
    np.testing.assert_allclose(scales.decode(rows[0].target), pairs[0].target, rtol=0, atol=1e-5)
    single = pairs[0]._replace(features=pairs[0].features.astype(np.float32), target=np.float32(pairs[0].target))
    assert digest(pairs[0]) == digest(single) != digest(single._replace(target=single.target + 8))


def test_missing_values_are_filled_from_the_past_only():
    """Of what is measured from step 5 on, no window is forecast from before step 6."""
    series = make_series(23)
    series.numbers[:5, 1] = np.nan
    windows = WindowSpec(3, 2, ("a", "b"))
    assert windows.valid_starts(series, Span(0, 11)).tolist() == [6, 7, 8, 9]
    assert WindowSpec(3, 2, ("a",)).valid_starts(series, Span(0, 11)).tolist() == [3, 4, 5, 6, 7, 8, 9]
    series.numbers[:, 1] = np.nan
    assert windows.valid_starts(series, Span(0, 11)).tolist() == []


TARGET_MASK = torch.tensor([[True, True], [True, False]])
RIGHT = torch.tensor([[[2.0, 3.0], [5.0, 7.0]], [[11.0, 13.0], [0.0, 0.0]]])


def test_squared_error():
    """Means over two columns (1 + 4) / 2, (0 + 9) / 2 and (4 + 0) / 2; what is not there does not count."""
    outputs = RIGHT + torch.tensor([[[1.0, -2.0], [0.0, 3.0]], [[2.0, 0.0], [17.0, 19.0]]])
    side = ForecastTarget(features=2, steps=2)
    assert side.width == 2
    assert side.step_losses(outputs, RIGHT, TARGET_MASK).sum().item() == 2.5 + 4.5 + 2


def test_quantile_loss_weighs_the_two_sides():
    """Too low by 4 costs 4 q, too high by 4 costs 4 (1 - q): the median 2 either way, 0.75 3 or 1."""
    side = ForecastTarget(features=1, steps=1, quantiles=(0.5, 0.75))
    right, target_mask = torch.tensor([[[10.0]]]), torch.tensor([[True]])
    assert side.width == 2
    assert side.step_losses(torch.tensor([[[6.0, 6.0]]]), right, target_mask).sum().item() == (2 + 3) / 2
    assert side.step_losses(torch.tensor([[[14.0, 14.0]]]), right, target_mask).sum().item() == (2 + 1) / 2
    metric = QuantileLoss(quantiles=[0.5, 0.75])
    metric.update([np.array([[6.0, 14.0]])], [np.array([[10.0]])])
    assert metric.compute().item() == (2 + 1) / 2


def test_quantile_columns_are_ordered_by_quantile():
    """Columns are a, b of the median, then a, b of the other; all right but the last, too low by 4."""
    side = ForecastTarget(features=2, steps=1, quantiles=(0.5, 0.75))
    outputs = torch.tensor([[[2.0, 3.0, 2.0, -1.0]]])
    assert side.step_losses(outputs, torch.tensor([[[2.0, 3.0]]]), torch.tensor([[True]])).sum().item() == 3 / 4
    metric = QuantileLoss(quantiles=[0.5, 0.75])
    metric.update([outputs[0].numpy()], [np.array([[2.0, 3.0]])])
    assert metric.compute().item() == 3 / 4


def test_mean_squares_cover_all_steps_of_all_batches():
    """(1 + 4 + 9 + 25) / 4 = 39 / 4."""
    metric = mean_squared_error()
    metric.update([np.array([[1.0, 2.0]])], [np.array([[2.0, 4.0]])])
    metric.update([np.array([[3.0], [5.0]])], [np.array([[0.0], [0.0]])])
    assert metric.compute().item() == 39 / 4


@pytest.mark.parametrize("recursive", [False, True])
def test_the_median_is_fed_back(recursive):
    """Of a recursive forecast the median of the row before; of a direct one nothing that was written."""
    layer = ForecastTarget(2, 3, (0.5, 0.9), recursive).embedding(5)
    written = torch.tensor([[2.0, 3.0, 5.0, 7.0]])
    with torch.no_grad():
        assert torch.equal(layer(written), layer(written + torch.tensor([0, 0, 1.0, 1.0])))
        assert torch.equal(layer(written), layer(written + 1)) != recursive


def test_last_value_normalization_subtracts_the_last_row():
    """Targets a, b and one known column: the last row looked back on is (5, 7); rows to forecast have no targets."""
    source = torch.tensor([[[2.0, 3.0, 11.0], [5.0, 7.0, 13.0], [0.0, 0.0, 17.0], [0.0, 0.0, 19.0]]])
    original = source.clone()
    side = ForecastTarget(2, 2, (0.5, 0.9), subtracts_last=True)
    moved, target = side.prepare(source, torch.tensor([[[6.0, 6.0], [8.0, 4.0]]]))
    assert moved.tolist() == [[[-3, -4, 11], [0, 0, 13], [0, 0, 17], [0, 0, 19]]]
    assert target.tolist() == [[[1, -1], [3, -3]]]
    best, next_best = [1.0, -1, 2, 0], [3.0, -3, 4, 1]  # two quantiles of both targets
    outputs = side.restore(torch.tensor([[[best], [next_best]]]), source)
    assert outputs.tolist() == [[[[6, 6, 7, 7]], [[8, 4, 9, 8]]]]
    moved, target = ForecastTarget(3, 2, subtracts_last=True).prepare(source[:, :2])  # nothing is known, nor the target
    assert (moved.tolist(), target) == ([[[-3, -4, -2], [0, 0, 0]]], None)
    assert torch.equal(source, original)


@pytest.mark.parametrize("plain", [ForecastTarget(2, 2), Numbers(2), Symbols(7)])
def test_other_targets_are_read_as_they_are(plain):
    source, target, outputs = torch.rand(1, 3, 2), torch.rand(1, 2, 2), torch.rand(1, 5, 2, 2)
    assert plain.prepare(source, target) == (source, target)
    assert plain.prepare(source) == (source, None)
    assert plain.restore(outputs, source) is outputs


def test_each_task_has_its_kind_of_target():
    changed = {"horizon": 7, "quantiles": [0.9, 0.5, 0.1], "forecast": "recursive", "subtract_last_value": True}
    task = {"name": "forecasting", **registry.check("task", "forecasting", changed)}
    assert build_target(task, 0, 3) == ForecastTarget(3, 7, (0.5, 0.1, 0.9), recursive=True, subtracts_last=True)
    for other in ({}, {"name": "sequences"}):
        assert build_target(other, 0, 3) == Numbers(3)
        assert build_target(other, 17, 0) == Symbols(17)
    assert median_first([0.25, 0.5, 0.75]) == (0.5, 0.25, 0.75)


NAN = np.nan
WINDOWS = WindowSpec(2, 2, ("a", "b"))
PLAIN = FeatureScaler((0.0, 0.0), (1.0, 1.0), ("a", "b"))


def gappy_series() -> Series:
    """Seven steps of two columns; of the fifth nothing was measured, of the sixth and seventh only b."""
    numbers = np.array([[2, 3], [5, NAN], [7, 11], [13, 17], [NAN, NAN], [NAN, 19], [NAN, 23]])
    return fill_missing(Series("", numbers, ("a", "b"), np.arange(7.0), tuple("0123456")))[0]


def test_windows_read_filled_values_and_are_scored_on_measured_ones():
    pairs = {pair.name: pair for pair in WINDOWS.pairs(gappy_series(), Span(2, 7))}
    assert list(pairs) == ["2", "3", "4", "5"]
    np.testing.assert_array_equal(pairs["2"].features, [[2, 3], [5, 3]])
    np.testing.assert_array_equal(pairs["3"].target, [[13, 17], [NAN, NAN]])
    np.testing.assert_array_equal(pairs["5"].features, [[13, 17], [13, 17]])
    np.testing.assert_array_equal(pairs["5"].target, [[NAN, 19], [NAN, 23]])
    rows = training_windows(WINDOWS, [(gappy_series(), Span(0, 7))], (PLAIN, PLAIN), 1)
    np.testing.assert_array_equal(rows[2].source, pairs["4"].features)
    np.testing.assert_array_equal(rows[2].target, pairs["4"].target)


def test_a_window_without_measurements_is_dropped():
    """Of column a alone there is nothing behind the fourth step; a part of such windows is refused."""
    alone = WindowSpec(2, 2, ("a",))
    assert alone.valid_starts(gappy_series(), Span(0, 7)).tolist() == [2, 3]
    assert [pair.name for pair in alone.pairs(gappy_series(), Span(0, 7))] == ["2", "3"]
    scales = PLAIN, FeatureScaler((0.0,), (1.0,), ("a",))
    assert len(training_windows(alone, [(gappy_series(), Span(0, 7))], scales, 1)) == 2
    with pytest.raises(UserError, match="the test split has no value of a"):
        split_series(gappy_series(), WindowSpec(1, 1, ("a",)), SeriesSplit.parse([2, 2, 3]))


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
