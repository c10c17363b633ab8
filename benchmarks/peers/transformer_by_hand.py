"""A decoder-only transformer by hand in plain torch: the speed that a library can lose. It needs torch alone."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    """Causal self-attention and a feed-forward map, each behind a layer normalization."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size, bias=False), nn.Linear(size, size, bias=False)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, states: Tensor) -> Tensor:
        """(b, t, size) -> (b, t, size)."""
        qkv = self.qkv(self.attention_norm(states)).unflatten(-1, (3, self.heads, -1))
        queries, keys, values = qkv.permute(2, 0, 3, 1, 4)
        contexts = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        states = states + self.out(contexts.transpose(1, 2).flatten(2))
        hidden: Tensor = self.down(F.gelu(self.up(self.feed_forward_norm(states))))
        return states + hidden


class HandWrittenTransformer(nn.Module):
    """Embedded symbols with positions, sinusoidal or learned as nanoGPT's, blocks, and an output layer."""

    positions: Tensor

    def __init__(
        self, symbols: int, size: int, layers: int, heads: int, length: int, has_learned_positions: bool = False
    ) -> None:
        super().__init__()
        self.size = size
        self.embedding = nn.Embedding(symbols, size)
        self.blocks = nn.ModuleList(Block(size, heads) for _ in range(layers))
        self.norm, self.output = nn.LayerNorm(size), nn.Linear(size, symbols)
        angles = torch.arange(length)[:, None] * 10_000.0 ** (-torch.arange(size // 2) / (size // 2))
        positions = torch.cat([angles.sin(), angles.cos()], -1)
        if has_learned_positions:
            self.positions = nn.Parameter(torch.randn_like(positions) * size**-0.5)
        else:
            self.register_buffer("positions", positions, persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """(b, t) ids -> logits (b, t, symbols)."""
        states = self.embedding(tokens) * self.size**0.5 + self.positions[: tokens.shape[1]]
        for block in self.blocks:
            states = block(states)
        logits: Tensor = self.output(self.norm(states))
        return logits


RENAMED = {
    "attention_norm": "self_residual.norm",
    "feed_forward_norm": "feed_forward_residual.norm",
    "out": "self_attention.out",
    "up": "feed_forward.up",
    "down": "feed_forward.down",
}
"""The modules of a block, and those of a layer of attnx."""


def weights_of_attnx(model: HandWrittenTransformer, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of attnx's transformer under the names of this one."""

    def find(name: str) -> Tensor:
        if name == "positions":
            return state["target_positions.learned"]
        if not name.startswith("blocks."):
            return state[name.replace("norm.", "decoder.norm.")]
        _, index, part, kind = name.split(".")
        layer = f"decoder.layers.{index}"
        if part == "qkv":
            return torch.cat([state[f"{layer}.self_attention.{side}.{kind}"] for side in ("query", "keys", "values")])
        return state[f"{layer}.{RENAMED[part]}.{kind}"]

    return {name: find(name) for name in model.state_dict()}
