"""Windows over series: the borders of the ETT papers, scaling by the training split, and training windows."""

import numpy as np
import pytest

from attnx.data.examples import digest
from attnx.problems.forecasting.series import Series
from attnx.problems.forecasting.windows import Span, WindowSpec, training_windows, window_scales


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
    assert digest(pairs[0]) == digest(single)


def test_missing_values_are_filled_from_the_past_only():
    """Of what is measured from step 5 on, no window is forecast from before step 6."""
    series = make_series(23)
    series.numbers[:5, 1] = np.nan
    windows = WindowSpec(3, 2, ("a", "b"))
    assert windows.valid_starts(series, Span(0, 11)).tolist() == [6, 7, 8, 9]
    assert WindowSpec(3, 2, ("a",)).valid_starts(series, Span(0, 11)).tolist() == [3, 4, 5, 6, 7, 8, 9]
    series.numbers[:, 1] = np.nan
    assert windows.valid_starts(series, Span(0, 11)).tolist() == []
