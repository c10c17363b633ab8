"""Forecast targets: losses by hand, feedback, and the number of decoded steps."""

import numpy as np
import pytest
import torch

from attnx import registry
from attnx.metrics.number_errors import QuantileLoss, mean_squared_error
from attnx.nn.targets.build import build_target
from attnx.nn.targets.numbers import Numbers
from attnx.nn.targets.symbols import Symbols
from attnx.problems.forecasting.target import ForecastTarget, median_first

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
