"""What the scope ``local`` reads beside its window, by hand."""

from typing import Any

import pytest
import torch

from attnx import accel
from attnx.attention.factory import build
from attnx.attention.scopes.local import Local

ALL = torch.ones(1, 1, 9, dtype=torch.bool)


def allowed(step: int, memory_mask: torch.Tensor = ALL, **options: Any) -> list[int]:
    """The positions that a step reads."""
    scope = Local(query_size=1, **options)
    return (
        scope(torch.zeros(1, 1, 1), torch.tensor([step]), memory_mask).allowed_mask[0, 0].nonzero().flatten().tolist()
    )


def test_dilation_leaves_gaps():
    """Beltagy et al. 2020, figure 2c: a window of 2 with gaps of size dilation reaches twice as far."""
    assert allowed(4, window=2, dilation=2) == [0, 2, 4, 6, 8]
    assert allowed(5, window=1, dilation=3) == [2, 5, 8]
    assert allowed(1, window=1, dilation=3) == [1, 4]


def test_sinks_are_read_by_every_query():
    """Xiao et al. 2023: the first positions and a window; once where they overlap."""
    assert allowed(6, window=1, sinks=2) == [0, 1, 5, 6, 7]
    assert allowed(2, window=1, sinks=2) == [0, 1, 2, 3]
    padded = torch.tensor([[[True] * 5 + [False] * 4]])
    assert allowed(8, padded, window=0, sinks=2) == [0, 1, 4]
    assert allowed(8, padded & False, window=0, sinks=2) == []


def test_global_tokens_are_read_by_all_and_read_all():
    """Beltagy et al. 2020, figure 2d: attention is symmetric."""
    scope = Local(query_size=1, window=0, global_tokens=1)
    mask = scope(torch.zeros(1, 4, 1), torch.arange(4), ALL[..., :4]).allowed_mask
    assert mask.int().tolist() == [[[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]]]


@pytest.mark.parametrize("options", [{"sinks": 2}, {"global_tokens": 2}])
def test_the_gaussian_spares_what_is_outside_the_window(options):
    """A center far away would make their gain 0, and they would never be read."""
    scope = Local(query_size=1, center="predictive", window=1, **options)
    torch.nn.init.ones_(scope.center_predictor[0].weight)
    torch.nn.init.constant_(scope.center_predictor[2].weight, 50.0)  # the center is the end
    mask = scope(torch.full((1, 1, 1), 9.0), torch.tensor([7]), ALL)
    assert mask.allowed_mask[0, 0].nonzero().flatten().tolist() == [0, 1, 7, 8]
    torch.testing.assert_close(mask.gain[0, 0, :2], torch.ones(2))
    assert (mask.gain[0, 0, 2:7] < 0.2).all()


def test_the_gaussian_widens_with_the_gaps():
    """Half of what a window reaches, sigma = 1 * 4 / 2, around the middle of nine positions, 9 sigmoid(0)."""
    scope = Local(query_size=1, center="predictive", window=1, dilation=4)
    torch.nn.init.zeros_(scope.center_predictor[2].weight)
    gain = scope(torch.ones(1, 1, 1), torch.tensor([0]), ALL).gain[0, 0]
    torch.testing.assert_close(gain, torch.exp(-((torch.arange(9) - 4.5) ** 2) / (2 * 2**2)))


def test_a_decoder_reads_its_first_states_for_ever():
    """A loop over a growing memory and one causal pass read the same, by kernels too."""
    for heads in (1, 2):
        scope = ("local", {"window": 1, "sinks": 1, "dilation": 2, "sources": ["decoder"]})
        attention = build(scorer="scaled", scope=scope, query_size=4, memory_size=4, heads=heads)
        queries, states = torch.randn(2, 2, 7, 4)
        full = attention(queries, attention.make_memory(states)._replace(is_causal=True), need_weights=True)
        for step in range(7):
            memory, steps = attention.make_memory(states[:, : step + 1]), torch.tensor([step])
            read = attention(queries[:, step : step + 1], memory, steps=steps, need_weights=True)
            torch.testing.assert_close(read.context, full.context[:, step : step + 1])
        assert full.weights[0, ..., 6, :].reshape(heads, 7)[0].nonzero().flatten().tolist() == [0, 4, 6]
        accel.enable(attention)
        fast = attention(queries, attention.make_memory(states)._replace(is_causal=True)).context
        torch.testing.assert_close(fast, full.context)
