"""Several hops: numbers by hand, and what they share."""

import math
from typing import Any

import pytest
import torch

from attnx import registry
from attnx.attention import Hops, build
from attnx.config.compose import compose
from attnx.errors import UserError


def build_hops(hops: int = 2, **options: Any) -> Hops:
    attention = build(scorer="dot", query_size=2, memory_size=2, hops=hops, **options)
    assert isinstance(attention, Hops)
    return attention


def test_two_hops_by_hand():
    """Equation 4 with H = 2 I: q_1 = (ln 3, 0) on the keys (1, 0) and (0, 0) has the weights 3/4 and 1/4.

    Values (0, 1) and (0, 5) give o_1 = (0, 2), q_2 = (2 ln 3, 2), weights 9/10 and 1/10, and o_2 = (0, 1.4).
    """
    attention = build_hops()
    with torch.no_grad():
        attention.refine.weight.copy_(2 * torch.eye(2))
    memory = attention.make_memory(torch.tensor([[[1.0, 0], [0, 0]]]), values=torch.tensor([[[0.0, 1], [0, 5]]]))
    output = attention(torch.tensor([[[math.log(3), 0.0]]]), memory, need_weights=True)
    torch.testing.assert_close(output.weights, torch.tensor([[[0.9, 0.1]]]))
    torch.testing.assert_close(output.context, torch.tensor([[[0.0, 1.4]]]))


@pytest.mark.parametrize("heads", [1, 2])
def test_hops_share_parts_and_read_what_is_allowed(heads):
    """Parameters: those of one attention, H, and P where widths differ. A hidden position changes nothing."""
    attention = build(scorer="additive", query_size=6, memory_size=4, hops=3, heads=heads)
    assert isinstance(attention, Hops)
    single = build(scorer="additive", query_size=6, memory_size=4, heads=heads)
    sizes = [sum(weight.numel() for weight in module.parameters()) for module in (attention, single)]
    assert sizes[0] == sizes[1] + 6 * 6 + 4 * 6
    states, queries = torch.randn(2, 5, 4), torch.randn(2, 3, 6)
    allowed_mask = torch.arange(5) < 4
    changed = states.index_fill(1, torch.tensor([4]), 9.0)
    results = [attention(queries, attention.make_memory(part), allowed_mask).context for part in (states, changed)]
    torch.testing.assert_close(*results)


def test_one_hop_is_plain_attention():
    assert not isinstance(build(scorer="dot", query_size=2, memory_size=2, hops=1), Hops)
    scorer = registry.build("scorer", "coverage", query_size=2, memory_size=2)
    with pytest.raises(UserError, match="its parts read earlier steps"):
        build(scorer=scorer, query_size=2, memory_size=2, hops=2)


def test_a_classifier_may_have_hops():
    assert compose(["task=classification", "model=classifier", "attention.hops=2"])["attention"]["hops"] == 2
