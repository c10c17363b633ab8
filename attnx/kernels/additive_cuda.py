"""The kernel ``additive_cuda``."""

from __future__ import annotations

from attnx.attention.attention import Attention
from attnx.attention.protocols import Asked, Read
from attnx.kernels import additive_blocks, additive_triton
from attnx.registry import register

WAYS = additive_blocks.Ways(additive_triton.scores, additive_triton.gradients)


@register("kernel", "additive_cuda")
class CudaAdditive:
    """Additive attention on a GPU, its scores in Triton: hidden units exist in registers alone.

    Formula: ``tanh(x) = 1 - 2 / (1 + e^(2x))``, of each sum, where it is computed and again for the gradients
    Source: Bahdanau et al. 2015, appendix A.1.2, https://arxiv.org/abs/1409.0473

    Never run on a GPU: its Triton code is tested in Triton's interpreter. Gradients of queries and of keys are summed
    by a pass each, without atomic additions, so that every run gives the same bits.
    """

    scorers = ("additive",)
    scopes = ()
    normalisers = ()
    rank = 20

    def admits(self, attention: Attention, asked: Asked) -> bool:
        """On a GPU of CUDA's, in single precision or less, with triton installed."""
        here = asked.asked.device.type == "cuda" and asked.asked.dtype in additive_blocks.SINGLE
        return here and additive_triton.FOUND and additive_blocks.served(attention, asked)

    def __call__(self, attention: Attention, asked: Asked) -> Read:
        """Read, a block of queries at a time where there are many."""
        return additive_blocks.read(attention, asked, WAYS)
