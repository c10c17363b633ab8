"""The mixer ``gated_linear``."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.mixers.chunks import head_width, run_chunks, split_heads, zero_padding
from attnx.mixers.layers import HeadNorm
from attnx.ops import at_least_float32
from attnx.registry import Depth, PositiveInt, Size, Width, register

TEMPERATURE = 16  # of the gates: they start near 1


class GatedLinearState(NamedTuple):
    """A decaying sum over earlier positions."""

    products: Tensor  # (b, h, k, v) of keys and values


@register("mixer", "gated_linear")
class GatedLinear(nn.Module):
    """A sum over earlier positions of which each position lets every unit of the keys decay as it decides.

    Formula: ``S_t = diag(g_t) S_{t-1} + k_t v_t^T, o_t = S_t^T q_t / sqrt(k), g_t = sigmoid(W_2 W_1 x_t + b)^(1/16)``
    Source: Yang et al. 2024, section 4, https://arxiv.org/abs/2312.06635

    Keys are half as wide as values; W_1 x has ``rank`` units. Each head is normalized, and a swish gate multiplies it.
    In training it computes ``chunk`` positions at a time; a chunk has a number for each pair of its positions and each
    unit, so that no gate is divided by another and none overflows.

    >>> mixer = GatedLinear(hidden_size=8, heads=2)
    >>> outputs, state = mixer(torch.ones(3, 5, 8))
    >>> outputs.shape, state.products.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 2, 2, 4]))
    """

    head_width_multiple = 2

    def __init__(self, hidden_size: Size, heads: Depth = 4, rank: Width = 16, chunk: PositiveInt = 16) -> None:
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.values_width = head_width(heads, hidden_size, self.head_width_multiple)
        self.width, keys_size = self.values_width // 2, hidden_size // 2
        self.state_size = heads * self.width * self.values_width
        self.query = nn.Linear(hidden_size, keys_size, bias=False)
        self.keys = nn.Linear(hidden_size, keys_size, bias=False)
        self.values = nn.Linear(hidden_size, hidden_size, bias=False)
        self.gates = nn.Sequential(nn.Linear(hidden_size, rank, bias=False), nn.Linear(rank, keys_size))
        self.norm = HeadNorm(hidden_size, heads, self.values_width)
        self.out = nn.Linear(hidden_size, hidden_size, bias=False)

    def init_state(self, rows: int, like: Tensor) -> GatedLinearState:
        """Nothing is summed yet."""
        shape = rows, self.heads, self.width, self.values_width
        return GatedLinearState(like.new_zeros(shape, dtype=at_least_float32(like.dtype)))

    def forward(
        self, states: Tensor, mask: Tensor | None = None, state: GatedLinearState | None = None
    ) -> tuple[Tensor, GatedLinearState]:
        """(b, t, hidden_size) and (b, t) bool -> (b, t, hidden_size) and the state after them."""
        state = self.init_state(states.shape[0], states) if state is None else state
        states = zero_padding(states, mask)
        gates = self.gates(states)
        log_decays = zero_padding(F.logsigmoid(gates.to(at_least_float32(gates.dtype))) / TEMPERATURE, mask)
        queries = self.query(states) * self.width**-0.5
        queries, keys, values, log_decays = (
            split_heads(part, self.heads) for part in (queries, self.keys(states), self.values(states), log_decays)
        )
        context, products = self.recur(queries, keys, values, log_decays, state.products)
        outputs: Tensor = self.out(self.norm(context, states))
        return outputs, GatedLinearState(products)

    def recur(
        self, queries: Tensor, keys: Tensor, values: Tensor, log_decays: Tensor, products: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Queries, keys, log decays (b, h, t, k), values (b, h, t, v) -> (b, h, t, v) and the sum after them."""
        return run_chunks(run_decaying_chunk, (queries, keys, values, log_decays), products, self.chunk)


def run_decaying_chunk(
    products: Tensor, queries: Tensor, keys: Tensor, values: Tensor, log_decays: Tensor
) -> tuple[Tensor, Tensor]:
    """Queries, keys, log decays (b, h, c, k), values (b, h, c, v) -> (b, h, c, v) and the sum after the chunk."""
    summed, total = log_decays.cumsum(-2), log_decays.sum(-2)
    exponents = summed[..., :, None, :] - summed[..., None, :, :]  # (b, h, c, c, k) from the second axis to the first
    is_later = torch.ones(exponents.shape[-3:-1], dtype=torch.bool, device=exponents.device).triu(1)
    # A quotient of decays from the start of the chunk, though cheaper, overflows.
    decays = exponents.masked_fill(is_later[..., None], -torch.inf).exp()
    similarities = torch.einsum("bhik,bhjk,bhijk->bhij", queries, keys, decays)
    context = (queries * summed.exp()) @ products + similarities @ values
    kept_keys = keys * (total[..., None, :] - summed).exp()
    return context, total.exp()[..., None] * products + kept_keys.mT @ values
