"""The kernel ``flex``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from attnx.accel.attention.kernels import Kernel, has_hooks
from attnx.accel.attention.sdpa import PRODUCTS
from attnx.attention.attention import Attention
from attnx.attention.contracts import BiasWithScoreMod, MaskMod, ScopeWithMaskMod
from attnx.attention.normalizers.softmax import Softmax
from attnx.attention.scopes.global_ import Global
from attnx.attention.types import AttentionInputs, AttentionOutput, Memory
from attnx.ops import is_tracing

MIN_QUERIES = 128
"""Queries of a block; with fewer no block is skipped."""
MIN_WIDTH = 16
"""Width of the narrowest keys for which torch writes a kernel."""
_compiled: Callable[[Callable[..., Any]], Callable[..., Any]] = functools.cache(torch.compile)


class Flex(Kernel):
    """Scores, softmax and sum in one kernel that torch writes for a scope and a bias, on a GPU.

    Formula: ``context = softmax((cap(q K) + bias) / T) V, over the blocks in which the scope allows a position``
    Source: Dong et al. 2024 (FlexAttention), https://arxiv.org/abs/2412.05496

    A scope takes part by its method ``mask_mod``, a bias by its ``score_mod``. Neither a mask nor a bias of
    all pairs is in memory, and blocks out of scope are skipped. What needs no mask at all is left to ``sdpa``.

    >>> Flex.device, [normalizer.__name__ for normalizer in Flex.normalizers]
    ('cuda', ['Softmax'])
    """

    name, device, scorers, normalizers = "flex", "cuda", PRODUCTS, (Softmax,)
    supports_bias = supports_softcap = True
    supports_heads_as_batch = True  # these scorers have parameters only to prepare queries and keys

    def build(self, device: torch.device) -> None:
        """Compile a small call and its gradients."""
        part = torch.ones(1, 1, MIN_QUERIES, 16, device=device, requires_grad=True)
        _attend(part, part, part, lambda score, *_: score, lambda _b, _h, q, m: m <= q).sum().backward()  # type: ignore[no-untyped-call]

    def supports(self, attention: Attention, inputs: AttentionInputs) -> bool:
        """Whether scope and bias can be asked position by position, and ``sdpa`` would need a mask or cannot serve."""
        memory, scope, bias = inputs.memory, attention.scope, attention.bias
        is_plain = not (inputs.need_weights or is_tracing()) and inputs.dropout_mask is inputs.allowed_mask is None
        is_one_source = len(memory.source_sizes) == 1 and memory.mask.dim() == 2
        is_asked = hasattr(scope, "mask_mod") and (bias is None or hasattr(bias, "score_mod"))
        parts = (scope, attention.normalizer, *(() if bias is None else (bias,)))
        is_sdpa_slower = bias is not None or attention.softcap is not None or not isinstance(scope, Global)
        queries, width = inputs.prepared_queries.shape[-2:]
        fits = memory.keys.shape == memory.values.shape and width >= MIN_WIDTH and queries >= MIN_QUERIES
        return is_plain and is_one_source and is_asked and is_sdpa_slower and fits and not any(map(has_hooks, parts))

    def __call__(self, attention: Attention, inputs: AttentionInputs) -> AttentionOutput:
        """Attend in one kernel; with a gain by the definition."""
        memory, steps = inputs.memory, inputs.steps.expand(inputs.prepared_queries.shape[:2])
        scope = cast("ScopeWithMaskMod", attention.scope)
        # How many positions there are when each query asks: (b, 1), or (b, q) of a causal memory.
        mask = memory.mask
        counts = mask.cumsum(-1)[:, -steps.shape[1] :] if memory.is_causal else mask.sum(-1, keepdim=True)
        allows = scope.mask_mod(inputs.queries, steps, counts)
        if allows is None:
            return attention.attend_with_scores(inputs, attention.score(inputs))
        queries, keys, values = (part[:, None] for part in (inputs.prepared_queries, memory.keys, memory.values))
        contexts = _attend(
            queries, keys, values, _score_mod(attention, inputs.queries, steps), _hide(allows, memory, steps)
        )
        return AttentionOutput(contexts[:, 0])


def _attend(
    queries: Tensor, keys: Tensor, values: Tensor, score_mod: Callable[..., Tensor], mask_mod: MaskMod
) -> Tensor:
    """The contexts (b, 1, q, v) of queries (b, 1, q, k); by torch's definition where it compiles no kernel."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # late: a slow import

    make_mask: Callable[..., Any] = create_block_mask
    attend: Callable[..., Any] = flex_attention
    if queries.device.type == "cuda":
        make_mask, attend = _compiled(make_mask), _compiled(attend)
    sizes = len(queries), None, queries.shape[2], keys.shape[2]
    block_mask = make_mask(mask_mod, *sizes, device=str(queries.device))
    contexts: Tensor = attend(queries, keys, values, score_mod=score_mod, block_mask=block_mask, scale=1.0)
    return contexts


def _hide(allows: MaskMod, memory: Memory, steps: Tensor) -> MaskMod:
    """Hide padding, and of a causal memory what comes later, from what a scope allows."""
    positions = memory.keys.shape[-2]
    own = torch.arange(positions - steps.shape[1], positions, device=steps.device)  # the place of each query

    def is_read(b: Tensor, h: Tensor, q: Tensor, m: Tensor) -> Tensor:
        allowed = allows(b, h, q, m)
        if memory.is_causal:
            allowed = allowed & (m <= own[q])
        return allowed & memory.mask[b, m] if memory.has_padding else allowed

    return is_read


def _score_mod(attention: Attention, queries: Tensor, steps: Tensor) -> Callable[..., Tensor]:
    """What becomes of a score: soft cap, bias and temperature, as in the definition."""
    bias = None if attention.bias is None else cast("BiasWithScoreMod", attention.bias).score_mod(queries)
    # Tensors: torch compiles no kernel for numbers that differ from call to call.
    temperature = torch.full((), cast("Softmax", attention.normalizer).temperature, device=queries.device)
    cap = None if attention.softcap is None else torch.full((), attention.softcap, device=queries.device)

    def change(score: Tensor, b: Tensor, h: Tensor, q: Tensor, m: Tensor) -> Tensor:
        if cap is not None:
            score = cap * torch.tanh(score / cap)
        if bias is not None:
            score = score + bias(b, q, steps[b, q] - m)
        return score / temperature

    return change
