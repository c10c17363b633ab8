"""The kernel ``sdpa``."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from attnx.attention.attention import Attention
from attnx.attention.types import AttentionInputs, AttentionOutput
from attnx.ops.tracing import is_tracing
from attnx.registry import register

if TYPE_CHECKING:
    from attnx.attention.normalizers.softmax import Softmax


@register("kernel", "sdpa")
class Sdpa:
    """Scores, softmax and sum in one operation of torch's: scores and weights are never laid down.

    Formula: ``context = softmax(q K / T) V``
    Source: Rabe and Staats 2021 (attention without its scores in memory), https://arxiv.org/abs/2112.05682

    All that these scorers do beside a plain product they do to queries and keys, before they compare them; softmax's
    temperature is the scale. It keeps no weights to show, to drop or to multiply by a gain, and its gradients cannot
    be differentiated once more; ``accel=off`` does all that.

    >>> from attnx import accel
    >>> from attnx.attention import build
    >>> attention = accel.enable(build(scorer="scaled", query_size=13, memory_size=13))
    >>> [type(kernel).__name__ for kernel in attention.kernels]
    ['Sdpa']
    >>> attention(torch.ones(2, 3, 13), attention.make_memory(torch.ones(2, 5, 13))).context.shape
    torch.Size([2, 3, 13])
    """

    scorers = ("dot", "scaled", "multiplicative", "cosine")
    scopes = ()
    normalizers = ("softmax",)
    priority = 20
    supports_heads_as_batch = True  # these scorers have parameters only to prepare queries and keys

    def supports(self, attention: Attention, inputs: AttentionInputs) -> bool:
        """Values as wide as the keys, nothing wanted of the weights, and sizes at which it is the faster way."""
        keys, values = inputs.memory.keys, inputs.memory.values
        plain = not (inputs.need_weights or inputs.dropout_mask is not None or is_tracing())
        # With values of another width torch does what the definition does, and on a CPU more slowly.
        return plain and keys.shape == values.shape and keys.numel() > 0 and _is_faster(inputs.prepared_queries)

    def __call__(self, attention: Attention, inputs: AttentionInputs) -> AttentionOutput:
        """Read in one operation; what a scope's gain multiplies is read by the definition."""
        field = attention.scope_mask(inputs)
        if field.gain is not None:
            return attention.attend_with_scores(inputs, attention.score(inputs), field)
        # All queries that may read the same are one row of the mask.
        allowed_mask = field.allowed_mask if field.allowed_mask.stride(1) else field.allowed_mask[:, :1]
        queries, keys, values = (
            part[:, None] for part in (inputs.prepared_queries, inputs.memory.keys, inputs.memory.values)
        )
        scale = 1 / cast("Softmax", attention.normalizer).temperature

        def read(mask: Tensor | None) -> Tensor:
            return F.scaled_dot_product_attention(queries, keys, values, mask, scale=scale)[:, 0]

        if allowed_mask.device.type == "cpu":
            # To look at the mask is cheap here; a row in which nothing is allowed gives zeros, as it should.
            return AttentionOutput(read(None if bool(allowed_mask.all()) else allowed_mask[:, None]))
        some = allowed_mask.any(-1, keepdim=True)
        return AttentionOutput(read((allowed_mask | ~some)[:, None]).masked_fill(~some, 0.0))


def _is_faster(queries: Tensor) -> bool:
    """Whether a CPU reads no more slowly with it: from 1 query on, but for the gradients of some wide ones.

    Up to a width of 64 it is 1.1 to 1.8 times as fast as the definition with gradients, 1.1 to 5 times without; from
    128 on its gradients, which torch takes in blocks of 32 queries, take up to 1.6 times as long between 17 queries
    and 192, where blocks become larger.
    """
    *_, steps, width = queries.shape
    return not 16 < steps < 192 or width < 128 or not torch.is_grad_enabled() or queries.device.type != "cpu"
