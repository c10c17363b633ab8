"""What scopes forbid, in pictures, from the configuration or from the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from attnx.attention.scopes.local import Local
from attnx.reports.figures.forbidden_positions import forbidden_mask, read_window


def test_the_window_follows_from_the_configuration() -> None:
    assert read_window({"scope": {"name": "local", "window": 3, "center": "monotonic"}}) == 3
    assert read_window({"scope": {"name": "local", "window": 0, "center": "predictive"}}) is None
    assert read_window({"scope": {"name": "local", "window": 3, "dilation": 1, "sinks": 0}}) == 3
    assert read_window({"scope": {"name": "local", "window": 3, "sinks": 2}}) is None
    assert read_window({"scope": {"name": "global"}}) is None
    assert read_window({}) is None


@pytest.mark.parametrize(("steps", "symbols", "reach"), [(5, 7, 1), (11, 3, 2), (2, 5, 0)])
def test_a_monotonic_window_matches_the_scope(steps: int, symbols: int, reach: int) -> None:
    scope = Local(query_size=2, window=reach)
    memory_mask = torch.ones(1, 1, symbols, dtype=torch.bool)
    allowed_mask = scope(torch.zeros(1, steps, 2), torch.arange(steps), memory_mask).allowed_mask[0].numpy()
    np.testing.assert_array_equal(forbidden_mask(np.zeros((steps, symbols)), 0, reach), ~allowed_mask)


def history(steps: int, source: int, lag: int) -> Any:
    """Equal weights (t, m) on the source and on the states that were written at least ``lag`` steps before."""
    ages = np.arange(steps)[:, None] - np.arange(-source, steps)
    allowed = (ages >= lag) | (np.arange(-source, steps) < 0)
    return allowed / np.maximum(allowed.sum(1, keepdims=True), 1)


@pytest.mark.parametrize("lag", [0, 1, 2])
@pytest.mark.parametrize("source", [0, 3])
def test_later_decoder_states_are_forbidden(source: int, lag: int) -> None:
    weights = history(5, source, lag)
    np.testing.assert_array_equal(forbidden_mask(weights, 5), weights == 0)


def test_a_state_that_is_not_read_may_be_allowed() -> None:
    """Steps of a sparse normalizer that read only the first state: nobody knows what they might have read."""
    weights = np.zeros((4, 4))
    weights[1:, 0] = 1
    assert forbidden_mask(weights, 4).astype(int).tolist() == np.triu(np.ones((4, 4), int), 1).tolist()


def test_a_source_is_forbidden_only_outside_a_window() -> None:
    weights = np.eye(3, 5)
    assert not forbidden_mask(weights, 0).any()
    assert forbidden_mask(weights, 0, 1).astype(int).tolist() == [[0, 0, 1, 1, 1], [0, 0, 0, 1, 1], [1, 0, 0, 0, 1]]
