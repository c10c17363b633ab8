"""Additive attention with softmax in one Triton kernel on a GPU, the kernel ``fused_additive_cuda``."""

from __future__ import annotations

from typing import cast

import torch

from attnx.accel.attention.additive import blocks
from attnx.attention.attention import Attention
from attnx.attention.normalizers.softmax import Softmax
from attnx.attention.scorers.additive import Additive
from attnx.attention.types import AttentionInputs, AttentionOutput
from attnx.registry import register

MIN_QUERIES = 16
"""Queries in a tile. Fewer are left to the kernel of scores, which also divides the positions among its programs."""
MAX_VALUE_WIDTH = 512
"""Widest values for which a tile of contexts fits into registers."""


@register("kernel", "fused_additive_cuda")
class FusedAdditive:
    """Additive attention with softmax on a GPU in one Triton kernel: no scores and no weights are in memory.

    Formula: ``context(q) = sum_m e^(s_qm) value_m / sum_m e^(s_qm), s_qm = v . tanh(a_q + b_m) / T, tile by tile of m``
    Source: Milakov and Gimelshein 2018 (online softmax), https://arxiv.org/abs/1805.02867

    Never run on a GPU: its Triton code is compiled for three generations of them, and tested in Triton's interpreter.
    Tiles in which nothing is allowed (padding, or positions outside all windows) are skipped. Gradients compute scores
    and weights again, for a block of queries at a time, without atomic additions. The tile, chosen by time and kept in
    Triton's cache, changes the rounding of contexts. A gain after softmax, as predicted windows have, is left to the
    kernel of scores.
    """

    scorers = ("additive",)
    scopes = ()
    normalizers = ("softmax",)
    priority = 15
    device = "cuda"

    def supports(self, attention: Attention, inputs: AttentionInputs) -> bool:
        """Whether the call is in single precision or less, needs the contexts alone, and has queries for a tile."""
        queries, values = inputs.prepared_queries, inputs.memory.values
        needs_weights = inputs.need_weights or inputs.dropout_mask is not None or inputs.history is not None
        fits = queries.shape[-2] >= MIN_QUERIES and 0 < values.shape[-1] <= MAX_VALUE_WIDTH
        is_alike = values.dtype == inputs.memory.keys.dtype or torch.is_autocast_enabled(queries.device.type)
        is_narrow = queries.dtype in blocks.SINGLE and values.dtype in blocks.SINGLE and is_alike
        return fits and is_narrow and not needs_weights and blocks.can_compare(attention, inputs)

    def build(self, device: torch.device) -> None:
        """Import Triton, and compile and launch each function once.

        Raises:
            Exception: whatever Triton, its compilers or CUDA raise.
        """
        from attnx.accel.attention.additive import triton_fused, triton_kernels

        triton_kernels.compile_kernels(device)
        triton_fused.compile_kernel(device)

    def __call__(self, attention: Attention, inputs: AttentionInputs) -> AttentionOutput:
        """Attend in one pass over the memory; with a gain by scores."""
        from attnx.accel.attention.additive import triton_fused, triton_kernels

        scope_mask = attention.scope_mask(inputs)
        if scope_mask.gain is not None:
            return blocks.attend_in_blocks(attention, inputs, triton_kernels.BACKEND)
        queries, (keys, values, *_) = inputs.prepared_queries, inputs.memory
        v, temperature = cast("Additive", attention.scorer).v, cast("Softmax", attention.normalizer).temperature
        operands = queries.float(), keys.float(), v.float(), values.float()
        contexts = triton_fused.attend_online(*operands, scope_mask.allowed_mask, temperature)
        return AttentionOutput(contexts.to(blocks.result_type(queries)))
