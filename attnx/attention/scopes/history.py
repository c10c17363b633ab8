"""The scope ``history``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from attnx.attention.scopes.global_ import Global
from attnx.registry import register


@register("scope", "history")
def history(
    sources: Sequence[Literal["encoder", "decoder"]] = ("decoder",),
    include_self: bool = False,
) -> Global:
    """The decoder's own earlier states, all of them and nothing else.

    Formula: ``mask(t, j) = (j < t), j <= t with include_self, for the query h_t``
    Source: Cheng et al. 2016, section 3.1 (a memory of the network's own past), https://arxiv.org/abs/1601.06733

    It is ``global`` over ``sources=[decoder]``: the memory grows by one state a step, and is empty at the first, where
    the context is zeros. With the query ``previous_state``, h_{t-1}, the states before that one are read.

    >>> history().sources
    ('decoder',)
    """
    return Global(sources, include_self)
