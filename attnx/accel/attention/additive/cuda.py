"""Additive attention in Triton on a GPU, the kernel ``additive_cuda``."""

from __future__ import annotations

import torch

from attnx.accel.attention.additive import blocks
from attnx.accel.attention.kernels import Kernel
from attnx.attention.attention import Attention
from attnx.attention.scorers.additive import Additive
from attnx.attention.types import AttentionInputs, AttentionOutput


class CudaAdditive(Kernel):
    """Additive attention on a GPU, its scores in Triton: hidden units exist in registers alone.

    Formula: ``v . tanh(a + b) = v . (1 - 2 / (1 + e^(2a) e^(2b)))``, the exponentials once a query and once a position
    Source: Bahdanau et al. 2015, appendix A.1.2, https://arxiv.org/abs/1409.0473

    Where numbers are so large that the exponentials would not do, it takes tanh of each sum. Tiles are chosen by time,
    and have no influence on the results: scores are sums over the hidden units in their order, and gradients of queries
    and of keys are summed by a pass each, without atomic additions.
    """

    name, device = "additive_cuda", "cuda"
    scorers = (Additive,)
    supports_bias = supports_softcap = supports_recurrence = True

    def supports(self, attention: Attention, inputs: AttentionInputs) -> bool:
        """Whether the call is in single precision or less."""
        return blocks.can_compare(attention, inputs)

    def build(self, device: torch.device) -> None:
        """Import Triton, compile and launch each function once, and raise what Triton, its compilers or CUDA raise."""
        from attnx.accel.attention.additive import triton_kernels

        triton_kernels.compile_kernels(device)

    def __call__(self, attention: Attention, inputs: AttentionInputs) -> AttentionOutput:
        """Attend, in blocks of queries if there are many."""
        from attnx.accel.attention.additive.triton_kernels import BACKEND

        return blocks.attend_in_blocks(attention, inputs, BACKEND)
