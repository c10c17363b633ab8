"""The normalizer ``softmax_with_sink``, worked by hand."""

import math

import pytest
import torch

from attnx.attention import build
from attnx.attention.normalizers.softmax_with_sink import SoftmaxWithSink

LOGS = torch.tensor([math.log(1), math.log(2), math.log(5)])
ALL = torch.ones(3, dtype=torch.bool)


@pytest.mark.parametrize("sink", ["learned", "one"])
def test_the_sink_is_one_more_in_the_sum(sink):
    """exp gives 1, 2 and 5; with the sink's exp(0) they sum to 9. A learned sink starts there."""
    torch.testing.assert_close(SoftmaxWithSink(sink)(LOGS, ALL), torch.tensor([1 / 9, 2 / 9, 5 / 9]))


def test_a_learned_sink_of_log_4():
    """4 of the sink, 1 and 2 of what is allowed: sevenths."""
    normalizer = SoftmaxWithSink()
    with torch.no_grad():
        normalizer.sink.fill_(math.log(4))
    result = normalizer(LOGS, torch.tensor([True, True, False]))
    torch.testing.assert_close(result, torch.tensor([1 / 7, 2 / 7, 0.0]))


def test_low_scores_read_nothing_and_high_ones_read_as_softmax():
    normalizer = SoftmaxWithSink("one")
    assert normalizer(LOGS - 1e4, ALL).tolist() == [0.0, 0.0, 0.0]
    torch.testing.assert_close(normalizer(LOGS + 1e4, ALL), torch.softmax(LOGS + 1e4, -1))


def test_every_head_has_a_sink_of_its_own():
    attention = build(query_size=6, memory_size=6, scorer="dot", normalizer="softmax_with_sink", heads=3)
    assert len([name for name, _ in attention.named_parameters() if name.endswith("normalizer.sink")]) == 3
