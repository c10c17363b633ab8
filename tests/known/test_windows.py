"""What scopes forbid, in pictures, from the configuration or from the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from attnx.attention.scopes.local import Local
from attnx.reports.figures.forbidden_positions import Window, forbidden_mask, read_windows, view_masks
from attnx.runs.alignments import Alignment

LOCAL = {"name": "local", "window": 3, "center": "monotonic"}


def test_the_window_follows_from_the_configuration():
    assert read_windows({"scope": LOCAL}) == [Window(3)]
    assert read_windows({"scope": {**LOCAL, "center": "predictive"}}) == ()
    assert read_windows({"scope": {**LOCAL, "dilation": 2, "sinks": 4, "global_tokens": 1}}) == [Window(3, 2, 4, 1)]
    assert read_windows({"scope": LOCAL, "encoder": {"name": "pyramid"}}) == ()
    assert read_windows({"scope": {"name": "global"}}) == ()
    assert read_windows({}) == ()
    heads = {"head_scopes": ["global", {"name": "local", "window": 2}]}
    assert read_windows({"scope": LOCAL, "attention": heads}) == [None, Window(2)]
    sites = {"model": {"self_scope": "global"}, "scope": LOCAL}
    assert [read_windows(sites), read_windows(sites, "self")] == [[Window(3)], ()]


@pytest.mark.parametrize(("steps", "symbols", "reach"), [(5, 7, 1), (11, 3, 2), (2, 5, 0)])
@pytest.mark.parametrize("options", [{}, {"dilation": 2}, {"sinks": 2}, {"global_tokens": 1, "dilation": 3}])
def test_a_monotonic_window_matches_the_scope(steps, symbols, reach, options):
    """Of a source, and of decoder states of which each step reads its own and those before."""
    scope, queries = Local(query_size=2, window=reach, **options), torch.zeros(1, steps, 2)
    window, numbers = Window(reach, **options), torch.arange(steps)
    allowed_mask = scope(queries, numbers, torch.ones(1, 1, symbols, dtype=torch.bool)).allowed_mask[0].numpy()
    np.testing.assert_array_equal(forbidden_mask(np.zeros((steps, symbols)), 0, [window]), ~allowed_mask)
    states = scope(queries, numbers, torch.ones(1, steps, steps, dtype=torch.bool).tril()).allowed_mask[0].numpy()
    np.testing.assert_array_equal(forbidden_mask(states / 7, steps, [window]), ~states)


def test_heads_have_windows_of_their_own():
    """What one head may read is not forbidden to the mean."""
    heads = np.stack([np.eye(4, 5, dtype=np.float32)] * 4)
    alignment = Alignment(heads.mean(0), tuple("abcde"), tuple("ABCD"), tuple("ABCD"), heads=heads)
    mean, *masks = view_masks(alignment, [Window(0), Window(1)])
    near, far = (abs(np.arange(5) - np.arange(4)[:, None]) > reach for reach in (0, 1))
    np.testing.assert_array_equal(mean, far)
    np.testing.assert_array_equal(masks, [near, far, near, far])
    mean, *masks = view_masks(alignment, [Window(0), None])
    assert not mean.any()
    np.testing.assert_array_equal(masks, [near, 0 * near, near, 0 * near])


def history(steps: int, source: int, lag: int) -> Any:
    """Equal weights (t, m) on the source and on the states that were written at least ``lag`` steps before."""
    ages = np.arange(steps)[:, None] - np.arange(-source, steps)
    allowed = (ages >= lag) | (np.arange(-source, steps) < 0)
    return allowed / np.maximum(allowed.sum(1, keepdims=True), 1)


@pytest.mark.parametrize("lag", [0, 1, 2])
@pytest.mark.parametrize("source", [0, 3])
def test_later_decoder_states_are_forbidden(source, lag):
    weights = history(5, source, lag)
    np.testing.assert_array_equal(forbidden_mask(weights, 5), weights == 0)


def test_a_state_that_is_not_read_may_be_allowed():
    """Steps of a sparse normalizer that read only the first state: nobody knows what they might have read."""
    weights = np.zeros((4, 4))
    weights[1:, 0] = 1
    assert forbidden_mask(weights, 4).astype(int).tolist() == np.triu(np.ones((4, 4), int), 1).tolist()


def test_a_source_is_forbidden_only_outside_a_window():
    weights = np.eye(3, 5)
    assert not forbidden_mask(weights, 0).any()
    assert forbidden_mask(weights, 0, [Window(1)]).astype(int).tolist() == [
        [0, 0, 1, 1, 1],
        [0, 0, 0, 1, 1],
        [1, 0, 0, 0, 1],
    ]
