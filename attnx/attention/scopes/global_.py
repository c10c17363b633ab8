"""The scope ``global``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn

from attnx.attention.contracts import MaskMod
from attnx.attention.types import ScopeMask
from attnx.registry import register


@register("scope", "global")
class Global(nn.Module):
    """Every query may read every position that is there.

    Formula: ``mask(t, s) = memory_mask(s)``
    Source: Luong et al. 2015, section 3.1, https://arxiv.org/abs/1508.04025

    Cost grows with the memory's length; it is the choice where an output may depend on any input. ``sources`` names
    what the memory is made of. A query reads the decoder's states before its own; with ``include_self`` its
    own, too.

    >>> import torch
    >>> Global()(torch.zeros(1, 2, 13), torch.arange(2), torch.tensor([[[True, True, False]]])).allowed_mask
    tensor([[[ True,  True, False],
             [ True,  True, False]]])
    """

    def __init__(
        self,
        sources: Sequence[Literal["encoder", "decoder"]] = ("encoder",),
        include_self: bool = False,
    ) -> None:
        super().__init__()
        self.sources: tuple[str, ...] = tuple(sources)
        self.include_self = include_self

    def forward(self, queries: Tensor, steps: Tensor, memory_mask: Tensor) -> ScopeMask:
        """(b, q, query_size), steps, (b, 1 or q, m) -> the mask, its ``allowed_mask`` (b, q, m)."""
        return ScopeMask(memory_mask.expand(-1, queries.shape[1], -1))

    def mask_mod(self, queries: Tensor, steps: Tensor, lengths: Tensor) -> MaskMod:
        """Every pair, for FlexAttention."""
        return lambda _b, _h, _q, m: m >= 0
