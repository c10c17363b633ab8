"""The example that the laws of attention are checked on: its sizes, random tensors, and a composition's output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnx.attention import AttentionHistory, Memory
from attnx.attention.factory import build_attention

Parts = Mapping[str, Any]  # scorer, scope and normalizer, and a bias or none, by name, or by name and options
# Rows of 7, 4, 1 and no positions; 3 queries of width 5; keys of width 11, values of width 2.
B, Q, M, WIDTH, KEYS, VALUES = 4, 3, 7, 5, 11, 2
MEMORY_MASK = torch.arange(M) < torch.tensor([7, 4, 1, 0])[:, None]


class Inputs(NamedTuple):
    """The inputs of attention: queries (b, q, 5), states (b, m, 11) and values (b, m, 2)."""

    queries: Tensor
    states: Tensor
    values: Tensor


def random_inputs() -> Inputs:
    """Random queries, states and values."""
    return Inputs(torch.randn(B, Q, WIDTH), torch.randn(B, M, KEYS), torch.randn(B, M, VALUES))


def compose_parts(parts: Parts, keys: int = KEYS, values: int = VALUES, heads: int = 1) -> Any:
    """Compose the parts, with a projection if the scorer needs one."""
    options = {"heads": heads, "bias": parts.get("bias")}
    scorer, scope, normalizer = parts["scorer"], parts["scope"], parts["normalizer"]
    return build_attention(scorer, scope, normalizer, WIDTH, keys, values, options).eval()


def example_history(states: Tensor, memory_mask: Tensor) -> AttentionHistory:
    """Earlier weights, for scorers that need a history; 0 at padding."""
    last = (3 * torch.arange(states.shape[1]) % 11 + 1).to(states.dtype) / 13 * memory_mask
    return AttentionHistory(last, 2 * last + memory_mask)


def attend(attention: Any, inputs: Inputs, memory_mask: Tensor = MEMORY_MASK, **kwargs: Any) -> Any:
    """Attend to a memory of these states, with weights and scores."""
    memory = attention.make_memory(inputs.states, memory_mask, inputs.values)
    history = kwargs.pop("history", example_history(inputs.states, memory_mask))
    history = with_carry(attention, memory, history)
    return attention(inputs.queries, memory, need_weights=True, history=history, **kwargs)


def with_carry(attention: Any, memory: Memory, history: AttentionHistory) -> AttentionHistory:
    """A history with what recurrent parts carry before the first step."""
    start = attention.init_history(memory)
    return history if start is None else start._replace(previous=history.previous, cumulative=history.cumulative)


def without_padding(tensor: Tensor) -> Tensor:
    """(b, m, ...) with zeros at padding."""
    return tensor.masked_fill(~MEMORY_MASK[..., None], 0.0)
