"""Scores of recurrent normalizers by the kernel of additive attention: the definition's outputs and gradients."""

import copy
from typing import Any

import pytest
import torch

from attnx import accel
from attnx.accel import c_build
from attnx.accel.attention.additive import cpu
from attnx.attention import build

B, Q, M, WIDTH = 3, 41, 149, 7
RECURRENT = ["monotonic", "mocha", "stepwise_monotonic", "forward"]


@pytest.mark.parametrize("normalizer", RECURRENT)
def test_the_kernel_scores_all_queries_at_once(normalizer, monkeypatch):
    """Also where other normalizers have a block of queries at a time."""
    if c_build.unsupported_platform() is not None:
        pytest.skip("no C on this platform")
    monkeypatch.setattr(cpu, "BACKEND", cpu.BACKEND._replace(max_scores_to_keep=97))
    monkeypatch.setattr(cpu, "MIN_TERMS_FOR_C", 0)
    torch.manual_seed(0)
    options = {} if normalizer == "forward" else {"noise": 0.0}
    plain: Any = build(normalizer=(normalizer, options), query_size=WIDTH, memory_size=WIDTH)
    fast: Any = accel.enable(copy.deepcopy(plain))
    calls = []
    monkeypatch.setattr(cpu.CompiledAdditive, "supports", lambda *call: calls.append(call) or True)
    queries, states, mask = torch.randn(B, Q, WIDTH), torch.randn(B, M, WIDTH), torch.rand(B, M) < 0.8
    results = []
    for attention in (plain, fast):
        output = attention(queries, attention.make_memory(states, mask))
        (output.context * torch.linspace(-1, 1, WIDTH)).sum().backward()
        gradients = [parameter.grad for parameter in attention.parameters()]
        results.append([output.context, output.normalizer_carry, *gradients])
    assert len(calls) == 1
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
