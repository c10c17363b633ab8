"""The scorer ``mlp``."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from attnx.registry import Depth, PositiveInt, Size, register

ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU, "gelu": nn.GELU, "sigmoid": nn.Sigmoid}


@register("scorer", "mlp")
class Mlp(nn.Module):
    """Any function f(m, q): a network of any depth over memory and query side by side.

    Formula: ``score(q, m) = w . f_n(... f_1(U m + W q + b)), f_i(x) = activation(A_i x + b_i)``
    Source: Luong et al. 2015, equation 8 (concat), made deeper; https://arxiv.org/abs/1508.04025

    ``hidden_sizes`` are the hidden layers from the first up; with a larger ``depth`` the last width repeats to reach
    it. The first layer is applied to memory and query apart (its matrix is [U, W]), so each is done once.

    >>> scorer = Mlp(query_size=13, memory_size=26, depth=3, hidden_sizes=[7, 5])
    >>> scorer.score(scorer.project_queries(torch.ones(2, 3, 13)), scorer.project_keys(torch.ones(2, 5, 26))).shape
    torch.Size([2, 3, 5])
    """

    requires_equal_dims = False
    has_key_parameters = True

    def __init__(
        self,
        query_size: Size,
        memory_size: Size,
        depth: Depth = 1,
        hidden_sizes: Sequence[PositiveInt] = (128,),
        activation: Literal["tanh", "relu", "gelu", "sigmoid"] = "tanh",
    ) -> None:
        super().__init__()
        sizes = [*hidden_sizes, *[hidden_sizes[-1]] * (depth - len(hidden_sizes))]
        self.hidden_size = sum(sizes)
        self.memory = nn.Linear(memory_size, sizes[0])
        self.query = nn.Linear(query_size, sizes[0], bias=False)
        layers: list[nn.Module] = [ACTIVATIONS[activation]()]
        for size_in, size_out in itertools.pairwise(sizes):
            layers += [nn.Linear(size_in, size_out), ACTIVATIONS[activation]()]
        # The output has no bias: the same number added to all scores of a row changes no weight.
        self.hidden_layers = nn.Sequential(*layers, nn.Linear(sizes[-1], 1, bias=False))

    def project_keys(self, memory: Tensor) -> Tensor:
        """(..., m, memory_size) -> (..., m, hidden_sizes[0])."""
        projected: Tensor = self.memory(memory)
        return projected

    def project_queries(self, queries: Tensor) -> Tensor:
        """(..., q, query_size) -> (..., q, hidden_sizes[0])."""
        projected: Tensor = self.query(queries)
        return projected

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(..., q, hidden_sizes[0]), (..., m, hidden_sizes[0]) -> (..., q, m)."""
        scores: Tensor = self.hidden_layers(torch.add(queries[..., :, None, :], keys[..., None, :, :]))
        return scores[..., 0]
