"""The scorers ``mlp`` and ``concat``, worked by hand."""

import math

import pytest
import torch
from torch import Tensor, nn

from attnx.attention.factory import build
from attnx.attention.scorers.concat import Concat
from attnx.attention.scorers.mlp import Mlp


def fill(layer: nn.Linear, weight: list[list[float]], bias: list[float] | None = None) -> None:
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight))
        if bias is not None:
            layer.bias.copy_(torch.tensor(bias))


def score(scorer: Mlp | Concat, query: list[float], memory: list[list[float]]) -> Tensor:
    return scorer.score(scorer.project_queries(torch.tensor([query])), scorer.project_keys(torch.tensor(memory)))


def test_concat_is_linear():
    """w . [m; q] = (2, 3) . (7, 11) + 5 * 13 = 14 + 33 + 65."""
    scorer = Concat(query_size=1, memory_size=2)
    fill(scorer.query, [[5.0]])
    fill(scorer.memory, [[2.0, 3.0]])
    assert score(scorer, [13.0], [[7.0, 11.0], [1.0, -1.0]]).tolist() == [[112.0, 64.0]]


def test_concat_weights_do_not_depend_on_the_query():
    """What a query adds to every score of its row, a softmax takes away."""
    attention = build(scorer="concat", query_size=3, memory_size=2)
    read = attention(torch.randn(1, 5, 3), attention.make_memory(torch.randn(1, 7, 2)), need_weights=True)
    torch.testing.assert_close(read.weights, read.weights[:, :1].expand(1, 5, 7))


def test_mlp_of_two_layers():
    """relu throughout, q = 2, m = 3.

    First layer: relu((1, -1) * 3 + (2, 1) * 2 + (-4, 2)) = relu(3 + 4 - 4, -3 + 2 + 2) = (3, 1).
    Second: relu(5 * 3 - 2 * 1 - 6, -3 + 1 + 1) = relu(7, -1) = (7, 0). Output: 11 * 7 + 13 * 0 = 77.
    """
    scorer = Mlp(query_size=1, memory_size=1, depth=2, hidden_sizes=[2], activation="relu")
    fill(scorer.memory, [[1.0], [-1.0]], [-4.0, 2.0])
    fill(scorer.query, [[2.0], [1.0]])
    fill(scorer.hidden_layers[1], [[5.0, -2.0], [-1.0, 1.0]], [-6.0, 1.0])
    fill(scorer.hidden_layers[3], [[11.0, 13.0]])
    assert score(scorer, [2.0], [[3.0]]).tolist() == [[77.0]]


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        ("tanh", 4 / 5),  # (9 - 1) / (9 + 1)
        ("relu", math.log(3)),
        ("sigmoid", 3 / 4),  # 3 / (3 + 1)
        ("gelu", math.log(3) * (1 + math.erf(math.log(3) / math.sqrt(2))) / 2),  # x times the normal's share below x
    ],
)
def test_activations_at_ln_3(activation, expected):
    scorer = Mlp(query_size=1, memory_size=1, hidden_sizes=[1], activation=activation)
    fill(scorer.memory, [[1.0]], [0.0])
    fill(scorer.query, [[0.0]])
    fill(scorer.hidden_layers[1], [[1.0]])
    torch.testing.assert_close(score(scorer, [0.0], [[math.log(3)]]), torch.tensor([[expected]]))


@pytest.mark.parametrize(
    ("depth", "widths", "layers"),
    [
        (1, [7], [7]),
        (3, [7], [7, 7, 7]),
        (4, [7, 5], [7, 5, 5, 5]),
        (1, [7, 5], [7, 5]),  # widths name the layers; a depth only adds to them
    ],
)
def test_depth_repeats_the_last_width(depth, widths, layers):
    scorer = Mlp(query_size=3, memory_size=2, depth=depth, hidden_sizes=widths)
    inner = [layer for layer in scorer.hidden_layers if isinstance(layer, nn.Linear)]
    assert [scorer.memory.out_features, *(layer.out_features for layer in inner)] == [*layers, 1]
    assert [layer.in_features for layer in inner] == layers
