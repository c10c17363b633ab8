"""The kernel ``sdpa``."""

from __future__ import annotations

import functools
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.accel.attention.kernels import Kernel, has_hooks, is_plain
from attnx.attention.attention import Attention
from attnx.attention.normalizers.softmax import Softmax
from attnx.attention.scopes.global_ import Global
from attnx.attention.scorers.biased_general import BiasedGeneral
from attnx.attention.scorers.cosine import Cosine
from attnx.attention.scorers.dot import Dot
from attnx.attention.scorers.low_rank import LowRank
from attnx.attention.scorers.multiplicative import Multiplicative
from attnx.attention.scorers.scaled import Scaled
from attnx.attention.types import AttentionInputs, AttentionOutput, ScopeMask
from attnx.ops import is_all_true_on_cpu, is_tracing

PRODUCTS = (Dot, Scaled, Multiplicative, BiasedGeneral, LowRank, Cosine)
"""Scorers that change queries and keys, and then multiply them."""
MAX_WIDENED = 2
"""How many times as wide as keys values may be: differential attention has two keys to a value of both their widths."""


class Sdpa(Kernel):
    """Scores, softmax and sum in one operation of torch: scores and weights are never in memory.

    Formula: ``context = softmax(q K / T) V``
    Source: Rabe and Staats 2021 (attention without its scores in memory), https://arxiv.org/abs/2112.05682

    These scorers change queries and keys and then multiply them; softmax's temperature is the scale. Weights cannot be
    returned, dropped or multiplied by a gain, and gradients have no gradients; with ``accel=off`` they do.

    >>> from attnx import accel
    >>> from attnx.attention import build
    >>> attention = accel.enable(build(scorer="scaled", query_size=13, memory_size=13))
    >>> [type(kernel).__name__ for kernel in attention.kernels]
    ['Flex', 'Sdpa']
    >>> attention(torch.ones(2, 3, 13), attention.make_memory(torch.ones(2, 5, 13))).context.shape
    torch.Size([2, 3, 13])
    """

    name, scorers, normalizers = "sdpa", PRODUCTS, (Softmax,)
    supports_bias = True
    supports_heads_as_batch = True  # these scorers have parameters only to prepare queries and keys

    def supports(self, attention: Attention, inputs: AttentionInputs) -> bool:
        """Whether keys are about as wide as values, weights are not needed, and it is faster at these sizes."""
        queries, keys, values = inputs.prepared_queries, inputs.memory.keys, inputs.memory.values
        if inputs.need_weights or inputs.dropout_mask is not None or is_tracing() or has_hooks(attention.normalizer):
            return False
        bias = cast("nn.Module | None", attention.bias)
        if bias is not None and torch.is_grad_enabled() and any(weight.requires_grad for weight in bias.parameters()):
            return False  # for the gradients of a bias torch computes as the definition does
        steps, width = queries.shape[-2], values.shape[-1]
        # On a CPU it is 1.1 to 1.8 times as fast as the definition with gradients up to a width of 64, 1.1 to 5 times
        # without. From a width of 128 on gradients, which torch computes in blocks of 32 queries, take up to 1.6 times
        # as long between 17 and 192 queries.
        is_slower = 16 < steps < 192 and width >= 128 and torch.is_grad_enabled() and queries.device.type == "cpu"
        fits = keys.shape[:-1] == values.shape[:-1] and keys.shape[-1] <= width <= MAX_WIDENED * keys.shape[-1]
        return fits and keys.numel() > 0 and not is_slower

    def __call__(self, attention: Attention, inputs: AttentionInputs) -> AttentionOutput:
        """Attend in one operation; with a gain by the definition."""
        mask, memory = _scope_mask(attention, inputs), inputs.memory
        if mask is not None and mask.gain is not None:
            return attention.attend_with_scores(inputs, attention.score(inputs), mask)
        queries, keys, values = (part[:, None] for part in (inputs.prepared_queries, memory.keys, memory.values))
        bias = attention.position_bias(inputs)
        return AttentionOutput(_attend(attention, queries, keys, values, memory.is_causal, mask, bias)[:, 0])

    def attend_heads(self, attention: Attention, inputs: AttentionInputs) -> AttentionOutput:
        """Attend with heads that share a mask: prepared queries (b, h, q, k) and a memory of all or fewer.

        Heads folded into the rows would each have a mask of their own, which torch keeps as numbers for the gradients.
        """
        mask, memory = _scope_mask(attention, inputs), inputs.memory
        queries, keys, values = inputs.prepared_queries, memory.keys, memory.values
        return AttentionOutput(_attend(attention, queries, keys, values, memory.is_causal, mask))


def _widen(part: Tensor, values: Tensor) -> Tensor:
    """Queries or keys (..., k) with zeros up to the width of values (..., v), which change no product.

    torch's fast forms need one width; with two it computes as the definition does, and on a CPU more slowly.
    """
    return F.pad(part, (0, values.shape[-1] - part.shape[-1]))


def _scope_mask(attention: Attention, inputs: AttentionInputs) -> ScopeMask | None:
    """What may be read; None if that is known without a mask: everything, or of a causal pass what came before."""
    memory = inputs.memory
    scope: object = attention.scope
    is_all_read = is_plain(scope, Global) and attention.bias is None and inputs.allowed_mask is None
    # torch aligns a causal mask with the first position, which is right where every position has a query.
    is_aligned = not memory.is_causal or inputs.prepared_queries.shape[-2] == memory.keys.shape[-2]
    has_full_mask = not memory.has_padding or (memory.mask.dim() == 2 and is_all_true_on_cpu(memory.mask))
    return None if is_all_read and is_aligned and has_full_mask else attention.scope_mask(inputs)


def _attend(
    attention: Attention,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    is_causal: bool,
    mask: ScopeMask | None,
    bias: Tensor | None = None,
) -> Tensor:
    """The contexts (b, h, q, v) of queries (b, h, q, k) that may read what the mask allows; zeros if nothing.

    Without a mask they read all keys, or with ``is_causal`` those up to their own place.
    """
    scale, is_grouped = 1 / cast("Softmax", attention.normalizer).temperature, queries.shape[1] != keys.shape[1]
    queries, keys = _widen(queries, values), _widen(keys, values)
    attend = functools.partial(
        F.scaled_dot_product_attention, queries, keys, values, scale=scale, enable_gqa=is_grouped
    )
    if mask is None:
        return attend(is_causal=is_causal)
    # Queries with the same mask share one row of it.
    allowed_mask = mask.allowed_mask if mask.allowed_mask.stride(1) else mask.allowed_mask[:, :1]
    if bias is None and allowed_mask.device.type == "cpu":
        # Reading the mask is cheap on a CPU; a row without an allowed position gives zeros, as it must.
        return attend(None if bool(allowed_mask.all()) else allowed_mask[:, None])
    some = allowed_mask.any(-1, keepdim=True)
    added = allowed_mask | ~some
    if bias is not None:
        added = torch.where(added, bias * scale, -torch.inf)
    return attend(added[:, None]).masked_fill(~some[:, None], 0.0)
