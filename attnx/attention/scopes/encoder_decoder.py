"""The scope ``encoder_decoder``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from attnx.attention.scopes.global_ import Global
from attnx.registry import register


@register("scope", "encoder_decoder")
def encoder_decoder(
    sources: Sequence[Literal["encoder", "decoder"]] = ("encoder", "decoder"),
    include_self: bool = False,
) -> Global:
    """The encoder's states and the decoder's own earlier ones, in one memory.

    Formula: ``mask(t, s) = memory_mask(s); mask(t, S + j) = (j < t), j <= t with include_self, for the query h_t``
    Source: Miculicich et al. 2018, section 3 (attention to past target states), https://arxiv.org/abs/1709.04849

    It is ``global`` over ``sources=[encoder,decoder]``: one row of weights is shared between what was read and what was
    written. States of unlike width are projected to the encoder's.

    >>> encoder_decoder().sources
    ('encoder', 'decoder')
    """
    return Global(sources, include_self)
