"""Memories that are joined, that grow, and that have a history of weights, entry by entry."""

import pytest
import torch
from torch import Tensor, nn

from attnx.attention import AttentionOutput, Memory, ScopeMask, build
from attnx.attention.inputs import query_mask, zero_padding
from attnx.attention.memory import (
    append_positions,
    concat_sources,
    empty_history,
    hide_future,
    pad_history_to_memory,
    pad_positions,
    stack_step_weights,
    update_history,
)


def memory(*numbers: float, absent: int = 0) -> Memory:
    """One row of positions that hold a number each, as keys; as values twice and three times that."""
    keys = torch.tensor(numbers)[None, :, None]
    memory_mask = torch.arange(len(numbers))[None] < len(numbers) - absent
    return Memory(keys, torch.cat([2 * keys, 3 * keys], -1), memory_mask, (len(numbers),))


def test_memories_are_joined_and_extended():
    """Two sources, then one more position of the second."""
    both = concat_sources(memory(2.0, 3.0, 5.0, absent=1), memory(7.0))
    assert both.source_sizes == (3, 1)
    extra = append_positions(both, memory(11.0, 13.0))
    assert extra.source_sizes == (3, 3)
    assert extra.keys.flatten().tolist() == [2.0, 3.0, 5.0, 7.0, 11.0, 13.0]
    assert extra.values[0, :, 1].tolist() == [6.0, 9.0, 15.0, 21.0, 33.0, 39.0]
    assert extra.mask.tolist() == [[True, True, False, True, True, True]]
    assert both.source_sizes == (3, 1), "what was there is as it was"


def test_hide_future_masks_later_positions():
    """Each query sees the whole first source, as far as it is there, and the first so many positions of the last."""
    both = concat_sources(memory(2.0, 3.0, absent=1), memory(5.0, 7.0, 11.0))
    expected = [[1, 0, 0, 0, 0], [1, 0, 1, 0, 0], [1, 0, 1, 1, 1]]
    assert hide_future(both, torch.tensor([-1, 1, 5])).mask[0].int().tolist() == expected
    rows = Memory(*(torch.cat([tensor, tensor]) for tensor in both[:3]), source_sizes=both.source_sizes)
    actual = hide_future(rows, torch.tensor([[1], [2]])).mask
    assert actual.int().tolist() == [[expected[1]], [[1, 0, 1, 1, 0]]]


def test_a_causal_memory_ends_with_its_queries():
    """The last of two queries reads all four positions, the one before three; padding stays hidden."""
    whole = memory(2.0, 3.0, 5.0, 7.0)._replace(has_padding=False)
    assert query_mask(whole, 2).shape == (1, 1, 4)
    causal = whole._replace(is_causal=True)
    assert query_mask(causal, 2).int().tolist() == [[[1, 1, 1, 0], [1, 1, 1, 1]]]
    padded = concat_sources(memory(2.0, 3.0, absent=1), whole)._replace(is_causal=True)
    assert padded.has_padding
    assert query_mask(padded, 2).int().tolist() == [[[1, 0, 1, 1, 1, 0], [1, 0, 1, 1, 1, 1]]]


def test_unread_positions_have_zero_weight():
    """As many zeros as there are positions."""
    assert [tensor.tolist() for tensor in empty_history(memory(2.0, 3.0))[:2]] == [[[0.0, 0.0]]] * 2
    heads = memory(2.0, 3.0)._replace(keys=torch.ones(1, 5, 2, 7), values=torch.ones(1, 5, 2, 3))
    assert empty_history(heads).cumulative.shape == (1, 5, 2)


def test_the_history_grows_with_the_memory():
    """Reads of weights (1/4, 3/4), then (1/2, 1/4, 1/4) over one position more: sums (3/4, 1, 1/4)."""
    context = torch.zeros(1, 1, 2)
    read = AttentionOutput(context, torch.tensor([[[1 / 4, 3 / 4]]]))
    first = update_history(empty_history(memory(2.0, 3.0)), read)
    assert [tensor.tolist() for tensor in first[:2]] == [[[1 / 4, 3 / 4]]] * 2
    later = pad_history_to_memory(first, memory(2.0, 3.0, 5.0))
    assert [tensor.tolist() for tensor in later[:2]] == [[[1 / 4, 3 / 4, 0.0]]] * 2
    second = update_history(first, AttentionOutput(context, torch.tensor([[[1 / 2, 1 / 4, 1 / 4]]])))
    assert second.previous.tolist() == [[1 / 2, 1 / 4, 1 / 4]]
    assert second.cumulative.tolist() == [[3 / 4, 1.0, 1 / 4]]


@pytest.mark.parametrize("leading", [(3,), (3, 2)], ids=["one head", "heads"])
def test_step_weights_are_padded_and_stacked(leading):
    """Steps stand one after another, as wide as the last; what was not there yet weighs 0."""
    actual = stack_step_weights([torch.ones(*leading, 1, positions) for positions in (0, 2, 5)])
    expected = torch.tensor([[0, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1.0]])
    assert torch.equal(actual, expected.expand(*leading, 3, 5))


def test_padded_positions_become_zeros():
    assert pad_positions(torch.ones(2, 3), 5).tolist() == [[1.0, 1.0, 1.0, 0.0, 0.0]] * 2


def test_an_unpadded_memory_is_not_copied():
    """Absent positions become zero in a copy; the input is unchanged."""
    states, memory_mask = torch.full((2, 3, 5), float("nan")), torch.ones(2, 3, dtype=torch.bool)
    result, _, values = zero_padding(states, memory_mask, None)
    assert result is states
    assert values is states
    memory_mask[1, 2] = False
    result, _, _ = zero_padding(states, memory_mask, None)
    assert not result[1, 2].any()
    assert states[1, 2].isnan().all()


class HalfOfShortSources(nn.Module):
    """Has a gain for sources of fewer than three positions, and none for others."""

    def forward(self, queries: Tensor, steps: Tensor, memory_mask: Tensor) -> ScopeMask:
        allowed_mask = memory_mask.expand(-1, queries.shape[1], -1)
        is_short = memory_mask.shape[-1] < 3
        return ScopeMask(allowed_mask, torch.full(allowed_mask.shape, 0.5) if is_short else None)


@pytest.mark.parametrize("positions", [1, 2])
def test_a_gain_may_be_of_one_source(positions):
    attention = build(scorer="dot", scope=HalfOfShortSources(), query_size=1, memory_size=1)
    both = concat_sources(memory(*[1.0] * positions), memory(1.0, 1.0, 1.0))
    weights = attention(torch.zeros(1, 1, 1), both, need_weights=True).weights
    share = 1 / (positions + 3)
    assert weights.flatten().tolist() == pytest.approx([share / 2] * positions + [share] * 3)
