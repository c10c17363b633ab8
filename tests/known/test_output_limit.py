"""The longest output that a search may write, from the lengths of the training data."""

import numpy as np
import pytest

from attnx.data.output_limit import OutputLimit
from attnx.errors import UserError


def limit_of(sources: list[int], targets: list[int]) -> OutputLimit:
    return OutputLimit.from_lengths(np.array([sources, targets]).T)


def test_targets_that_grow_with_their_sources_have_a_ratio():
    """Ten steps for one, and one for the end: 1.5 times both, and five steps."""
    limit = limit_of([1, 2, 3, 5], [11, 21, 31, 51])
    assert (limit.ratio, limit.extra) == (15.0, 7)


def test_short_outputs_of_long_sources_have_a_short_limit():
    """Labels of two symbols and the end, whatever the source: 4.5, rounded up, and five steps; 10.5 where 7 shrink."""
    assert limit_of([100, 900, 500, 300, 700], [3, 3, 3, 3, 3]) == OutputLimit(0.0, 10)
    assert limit_of([1, 3, 2], [7, 3, 5]) == OutputLimit(0.0, 16)


def test_long_outputs_that_do_not_depend_on_the_source_fit():
    limit = limit_of([1, 3, 2, 3, 1, 2], [43, 41, 47, 43, 41, 47])
    assert limit.ratio == 0
    assert limit.extra > 47 * 1.4


def test_sources_of_one_length_leave_longer_ones_longer_outputs():
    """Those of length 0, too."""
    for length, ratio in ((7, 1.5 * 8 / 7), (1, 1.5 * 8), (0, 1.5 * 8)):
        assert limit_of([length] * 3, [8, 8, 8]).ratio == pytest.approx(ratio, abs=0.001)


def test_nearly_all_training_targets_fit():
    random = np.random.default_rng(0)
    sources = random.integers(1, 43, 5003)
    targets = random.poisson(1.7 * sources) + 1
    limit = OutputLimit.from_lengths(np.stack([sources, targets], axis=1))
    assert (targets <= limit.ratio * sources + limit.extra).mean() > 0.999
    assert limit_of([1, 3] * 1009 + [2], [3] * 2018 + [997]) == OutputLimit(0.0, 10)


@pytest.mark.parametrize("limit", [OutputLimit(1.327, 11), OutputLimit(0.0, 0)])
def test_a_limit_is_read_as_it_was_written(limit, tmp_path):
    limit.save(tmp_path / "limit.json")
    assert OutputLimit.load(tmp_path / "limit.json") == limit
    assert OutputLimit.load(tmp_path / "missing.json") == OutputLimit()
    (tmp_path / "limit.json").write_text('{"ratio": -1, "extra": 3}')
    with pytest.raises(UserError, match=r"limit\.json: not the limit"):
        OutputLimit.load(tmp_path / "limit.json")
