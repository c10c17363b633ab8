"""Products of many rows equal torch, wherever they are computed."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from attnx import accel
from attnx.accel.lstm import bindings
from attnx.accel.modules import MIN_ROWS_FOR_C, fast_linear
from attnx.attention.scorers.additive import Additive


@pytest.fixture(params=[1, 10**9], ids=["in C", "by torch"])
def _ways(request, monkeypatch):
    monkeypatch.setattr(bindings, "MIN_ROWS_TO_PACK", request.param)
    monkeypatch.setattr("attnx.accel.modules.MIN_ROWS_FOR_C", request.param)


@pytest.mark.usefixtures("_ways")
@pytest.mark.parametrize("units", [1, 4, 43, 64, 148, 197])
@pytest.mark.parametrize("rows", [1, 6, 97])
@torch.no_grad()
def test_a_product_matches_torch(rows, units):
    """Of what lies in something wider, written into something wider, with and without a bias."""
    part, weights, out = torch.randn(rows, 40)[:, 3:], torch.randn(units, 37), torch.zeros(rows, units + 5)
    bias = torch.randn(units)
    expected = (part.double() @ weights.double().t()).float()
    torch.testing.assert_close(fast_linear(part, weights), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(fast_linear(part, weights, bias), expected + bias, rtol=1e-5, atol=1e-5)
    fast_linear(part, weights, out=out[:, 2 : 2 + units])
    torch.testing.assert_close(out[:, 2 : 2 + units], expected, rtol=1e-5, atol=1e-5)
    assert not out[:, :2].any()
    assert not out[:, 2 + units :].any()


@pytest.mark.usefixtures("_ways")
@torch.no_grad()
def test_rows_of_any_shape():
    weights = torch.randn(8, 5)
    for shape in ((5,), (3, 5), (2, 3, 5), (2, 0, 5), (2, 3, 4, 5)):
        inputs = torch.randn(shape)
        torch.testing.assert_close(fast_linear(inputs, weights), nn.functional.linear(inputs, weights))


@pytest.mark.usefixtures("_ways")
def test_gradients_are_computed_where_required():
    inputs, weights = torch.randn(2 * MIN_ROWS_FOR_C, 5, requires_grad=True), torch.randn(8, 5, requires_grad=True)
    fast_linear(inputs, weights).sum().backward()
    torch.testing.assert_close(inputs.grad, weights.sum(0).expand_as(inputs), rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(weights.grad, inputs.sum(0).expand_as(weights), rtol=1e-4, atol=1e-3)


@torch.no_grad()
def test_a_long_memory_of_keys_matches_torch():
    """Of a wide one, too, and in other types."""
    scorer, memory = Additive(query_size=3, memory_size=24, hidden_size=16), torch.randn(4, MIN_ROWS_FOR_C, 24)
    accel.enable(scorer)
    expected = nn.functional.linear(memory.double(), scorer.memory.weight.double())
    torch.testing.assert_close(scorer.project_keys(memory), expected.float(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(scorer.double().project_keys(memory.double()), expected)


class Adapted(nn.Linear):
    """A map whose weight is not all that it computes with, as of an adapter of low rank."""

    def forward(self, vectors: Tensor) -> Tensor:
        return super().forward(vectors) + vectors.sum(-1, keepdim=True)


PROJECTIONS = {
    "adapted": lambda projection: Adapted(24, 16),
    "with a bias": lambda projection: nn.Linear(24, 16),
    "two layers": lambda projection: nn.Sequential(projection, nn.Tanh()),
    "pruned": lambda projection: prune.l1_unstructured(projection, "weight", 0.5),
    "with a hook": lambda projection: projection.register_forward_hook(lambda *call: 2 * call[-1]) and projection,
}


@pytest.mark.parametrize("is_enabled_first", [False, True])
@pytest.mark.parametrize("change", PROJECTIONS.values(), ids=PROJECTIONS)
@torch.no_grad()
def test_another_projection_is_called(change, is_enabled_first):
    """Weights that a hook makes anew are those of the call."""
    scorer, memory = Additive(query_size=3, memory_size=24, hidden_size=16), torch.randn(2, 7, 24)
    accel.enable(scorer if is_enabled_first else nn.Identity())
    scorer.memory = change(scorer.memory)
    accel.enable(scorer)
    for weight in scorer.parameters():
        weight.mul_(3)
    keys = scorer.project_keys(memory)
    accel.disable(scorer)
    torch.testing.assert_close(keys, scorer.project_keys(memory))


@pytest.mark.usefixtures("_ways")
@torch.no_grad()
def test_mixed_types_raise_torchs_error():
    with pytest.raises(RuntimeError, match="dtype"):
        fast_linear(torch.randn(9, 5), torch.randn(8, 5).double())
