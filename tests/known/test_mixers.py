"""Mixers by hand, by plain loops, and as attention."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx import UserError, accel, registry
from attnx.attention.factory import build_multi_head
from attnx.attention.memory import hide_future
from attnx.attention.options import AttentionOptions
from attnx.mixers.delta_rule import run_delta_chunk, unit_length
from attnx.mixers.gated_linear import run_decaying_chunk
from attnx.mixers.layers import ShortConvolution
from benchmarks.mixer_memory import kept_bytes


def build_identity(name: str, size: int = 1, **options: Any) -> Any:
    """A mixer whose maps are the identity, without biases, and repeat it where they are wider."""
    mixer = registry.build("mixer", (name, options), hidden_size=size)
    with torch.no_grad():
        for module in mixer.modules():
            if isinstance(module, nn.Linear):
                width, copies = module.in_features, -(-module.out_features // module.in_features)
                module.weight.copy_(torch.eye(width).repeat(copies, 1)[: module.out_features])
            if isinstance(module, ShortConvolution):
                nn.init.ones_(module.weight)
    return mixer


def test_linear_by_hand():
    """Of 1 and 2 the features are 2 and 3; the second position reads (3 * 2 * 1 + 3 * 3 * 2) / (3 * 2 + 3 * 3)."""
    outputs, state = build_identity("linear", heads=1)(torch.tensor([[[1.0], [2.0]]]))
    torch.testing.assert_close(outputs, torch.tensor([[[1.0], [24 / 15]]]))
    assert (state.products.item(), state.keys.item()) == (2 * 1 + 3 * 2, 2 + 3)


def sigmoid(number: float) -> float:
    return 1 / (1 + math.exp(-number))


def swish(number: float) -> float:
    return number * sigmoid(number)


def test_retention_by_hand():
    """The second key is turned by one radian, and the first head forgets 1/32 of what it holds."""
    mixer = build_identity("retention", size=2, heads=1, value_ratio=1)
    _, state = mixer(torch.tensor([[[1.0, 0], [1, 0]]]))
    expected = torch.tensor([[[[31 / 32 + math.cos(1), 0], [math.sin(1), 0]]]])
    torch.testing.assert_close(state.products, expected)
    assert state.position.item() == 2


def test_gated_linear_by_hand():
    """Without weights and biases of the gates each is the sixteenth root of 1/2."""
    mixer = build_identity("gated_linear", size=2, heads=1)
    for weight in mixer.gates.parameters():
        torch.nn.init.zeros_(weight)
    _, state = mixer(torch.tensor([[[1.0, 0], [1, 0]]]))
    torch.testing.assert_close(state.products, torch.tensor([[[[2 ** (-1 / 16) + 1, 0]]]]))


@pytest.mark.parametrize("factor", [1, 2])
def test_delta_by_hand(factor):
    """Keys of one unit have length 1; the second value replaces a share of the first."""
    mixer = build_identity("delta", heads=1, convolution=1, negative_eigenvalues=factor == 2)
    _, state = mixer(torch.tensor([[[1.0], [2.0]]]))
    first = factor * sigmoid(1) * swish(1)
    second = first + factor * sigmoid(2) * (swish(2) - first)
    torch.testing.assert_close(state.products, torch.tensor([[[[second]]]]), rtol=1e-5, atol=1e-5)


def test_gated_delta_by_hand():
    """With e^A = 1/2 and softplus(c) = 2 the state decays by e before the second value replaces a share of it."""
    mixer = build_identity("gated_delta", heads=1, convolution=1, value_ratio=1)
    assert mixer.log_scale.exp() <= 16
    assert 0.0009 < F.softplus(mixer.time_bias) < 0.11
    torch.nn.init.zeros_(mixer.times.weight)
    torch.nn.init.constant_(mixer.log_scale, -math.log(2))
    torch.nn.init.constant_(mixer.time_bias, math.log(math.e**2 - 1))
    _, state = mixer(torch.tensor([[[1.0], [2.0]]]))
    kept = math.exp(-1) * sigmoid(1) * swish(1)
    second = kept + sigmoid(2) * (swish(2) - kept)
    torch.testing.assert_close(state.products, torch.tensor([[[[second]]]]), rtol=1e-5, atol=1e-5)


def test_lstm_by_hand():
    """All weights are 1 and all biases 0, so that each gate sees the input plus the last output."""
    mixer = build_identity("lstm")
    for name, weight in mixer.named_parameters():
        torch.nn.init.constant_(weight, float("weight" in name))
    outputs, state = mixer(torch.tensor([[[1.0], [-2.0]]]))
    cell = sigmoid(1) * math.tanh(1)
    first = sigmoid(1) * math.tanh(cell)
    seen = first - 2
    cell = sigmoid(seen) * cell + sigmoid(seen) * math.tanh(seen)
    torch.testing.assert_close(outputs.flatten(), torch.tensor([first, sigmoid(seen) * math.tanh(cell)]))
    torch.testing.assert_close(state.cell, torch.tensor([[cell]]))


def test_a_short_convolution_by_hand():
    """It weighs the last position by 5 and the one before by 3, which the next call still knows."""
    convolution = ShortConvolution(channels=1, width=2)
    with torch.no_grad():
        convolution.weight.copy_(torch.tensor([[3.0], [5]]))
    first, earlier = convolution(torch.tensor([[[1.0], [2]]]), None, convolution.init_state(1, torch.ones(1)))
    assert first.flatten().tolist() == [5, 3 * 1 + 5 * 2]
    second, _ = convolution(torch.tensor([[[7.0]]]), None, earlier)
    assert second.flatten().tolist() == [3 * 2 + 5 * 7]


def random_inputs(*last_axes: int) -> list[Tensor]:
    """Random numbers (b, h, t, ...)."""
    return [torch.randn(2, 3, 13, *((axis,) if axis else ())) for axis in last_axes]


def read(state: Tensor, vectors: Tensor) -> Tensor:
    """State (b, h, k, v) and vectors (b, h, k) -> (b, h, v)."""
    return (vectors[..., None, :] @ state)[..., 0, :]


def require_loop(run: Any, products: Tensor, inputs: list[Tensor], outputs: list[Tensor], last: Tensor) -> None:
    """A chunk gives what a plain loop gave in double precision, in both precisions."""
    for dtype, tolerance in {torch.float64: 1e-10, torch.float32: 1e-4}.items():
        context, after = run(products.to(dtype), *(part.to(dtype) for part in inputs))
        torch.testing.assert_close(context.double(), torch.stack(outputs, 2), rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(after.double(), last, rtol=tolerance, atol=tolerance)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("strength", [0.1, 30.0])
def test_a_decaying_chunk_is_a_plain_loop(strength):
    """The gates may forget all, and their quotients would overflow."""
    inputs = random_inputs(5, 5, 7, 5)
    inputs[3] = -strength * inputs[3].abs()
    products, expected = torch.randn(2, 3, 5, 7), []
    state = products
    for query, key, value, log_decay in zip(*(part.unbind(2) for part in inputs), strict=True):
        state = log_decay.exp()[..., None] * state + key[..., None] * value[..., None, :]
        expected.append(read(state, query))
    require_loop(run_decaying_chunk, products, inputs, expected, state)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("strength", [0.0, 0.1, 30.0])
def test_a_chunk_of_the_delta_rule_is_a_plain_loop(strength):
    queries, keys, values, rates, log_decays = random_inputs(5, 5, 7, 0, 0)
    inputs = [queries, unit_length(keys), values, 2 * rates.sigmoid(), -strength * log_decays.abs()]
    products, expected = torch.randn(2, 3, 5, 7), []
    state = products
    for query, key, value, rate, log_decay in zip(*(part.unbind(2) for part in inputs), strict=True):
        state = log_decay.exp()[..., None, None] * state
        news = rate[..., None] * (value - read(state, key))
        state = state + key[..., None] * news[..., None, :]
        expected.append(read(state, query))
    require_loop(run_delta_chunk, products, inputs, expected, state)


@pytest.mark.parametrize("name", registry.names("mixer"))
def test_a_state_is_in_single_precision_under_autocast(name):
    mixer = registry.build("mixer", name, hidden_size=24)
    with torch.autocast("cpu", torch.bfloat16):
        _, state = mixer(torch.randn(2, 70, 24))
    assert {part.dtype for part in state} == {torch.float32}


@pytest.mark.parametrize("name", registry.names("mixer"))
def test_what_training_keeps_grows_with_the_length(name):
    mixer = registry.build("mixer", name, hidden_size=24)
    assert kept_bytes(mixer, 1024, 24) < 2.1 * kept_bytes(mixer, 512, 24)


@pytest.mark.parametrize("prepare", [accel.enable, lambda mixer: mixer], ids=["fast", "as defined"])
@pytest.mark.parametrize("mask", [None, torch.ones(0, 5, dtype=torch.bool)], ids=["no mask", "mask"])
@pytest.mark.parametrize("name", registry.names("mixer"))
def test_no_rows_have_no_outputs(name, mask, prepare):
    outputs, state = prepare(registry.build("mixer", name, hidden_size=24))(torch.randn(0, 5, 24), mask)
    assert outputs.shape == (0, 5, 24)
    assert {len(part) for part in state} == {0}


@pytest.mark.parametrize(
    "mask", [torch.ones(3, 1, dtype=torch.bool), torch.ones(3, 5)], ids=["one position", "numbers"]
)
@pytest.mark.parametrize("name", registry.names("mixer"))
def test_an_invalid_mask_is_refused(name, mask):
    with pytest.raises(UserError, match=r"^mixer: mask: .*; expected \(3, 5\) bool"):
        registry.build("mixer", name, hidden_size=24)(torch.randn(3, 5, 24), mask)


class FeatureProduct(nn.Module):
    """The inner product of positive features."""

    requires_equal_dims = True

    def project_keys(self, memory: Tensor) -> Tensor:
        return F.elu(memory) + 1

    def project_queries(self, queries: Tensor) -> Tensor:
        return F.elu(queries) + 1

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries @ keys.mT


class Share(nn.Module):
    """Scores divided by their sum."""

    is_distribution = True

    def forward(self, scores: Tensor, allowed_mask: Tensor) -> Tensor:
        scores = scores.masked_fill(~allowed_mask, 0.0)
        return scores / scores.sum(-1, keepdim=True).clamp(min=1e-30)


@pytest.mark.usefixtures("float64")
def test_linear_is_attention_with_a_feature_map_and_a_sum():
    mixer = registry.build("mixer", ("linear", {"heads": 2, "chunk": 3}), hidden_size=14)
    attention = build_multi_head((FeatureProduct(), "global", Share()), 14, 14, 14, 2, AttentionOptions())
    attention.load_state_dict(mixer.state_dict())
    states, mask = torch.randn(3, 11, 14), torch.arange(11) < torch.tensor([11, 5, 1])[:, None]
    memory = hide_future(attention.make_memory(states, mask), torch.arange(11) + 1)
    expected = attention(states, memory).context
    torch.testing.assert_close(mixer(states, mask)[0][mask], expected[mask])
