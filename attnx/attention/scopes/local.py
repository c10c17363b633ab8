"""The scope ``local``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from attnx.attention.contracts import MaskMod
from attnx.attention.types import ScopeMask
from attnx.ops import at_least_float32
from attnx.registry import NonNegativeInt, PositiveInt, Size, register


@register("scope", "local")
class Local(nn.Module):
    """A window of 2 * window + 1 positions around a center that moves with the decoder's step.

    Formula: ``allowed: |s - round(p_t)| <= window; monotonic: p_t = min(t, S - 1); predictive: p_t = S sigmoid(v .
        tanh(W q_t)) and the weights are multiplied by exp(-(s - p_t)^2 / (2 sigma^2)), sigma = window / 2``
    Source: Luong et al. 2015, section 3.2, equations 7 to 10, https://arxiv.org/abs/1508.04025; ``dilation``,
        ``global_tokens``: Beltagy et al. 2020, section 3.1, https://arxiv.org/abs/2004.05150; ``sinks``: Xiao et al.
        2023, section 3.2, https://arxiv.org/abs/2309.17453

    ``monotonic`` is the paper's local-m and has no parameters; ``predictive`` is its local-p. The Gaussian multiplies
    the weights after normalizing and they are not renormalized, as in equation 10. S is each row's own length and
    positions count from 0. The window is centered on the position nearest to p_t, so that it always holds
    2 * window + 1 positions where the paper's real-valued borders hold one fewer; ``window=0`` has sigma = 1/2, not 0.
    With several ``sources`` each has a window of its own; among the decoder's states S is how many there are, so that
    ``monotonic`` reads the latest.

    ``dilation`` above 1 leaves gaps: every second position of a window of twice the width, and so on. The first
    ``sinks`` positions of a source are read by every query, wherever its window is; so are the first
    ``global_tokens``, and the queries of as many first steps read all positions. The Gaussian spares these.

    >>> import torch
    >>> scope = Local(query_size=13, window=1)
    >>> scope(torch.zeros(1, 2, 13), torch.arange(2), torch.ones(1, 1, 5, dtype=torch.bool)).allowed_mask.int()
    tensor([[[1, 1, 0, 0, 0],
             [1, 1, 1, 0, 0]]], dtype=torch.int32)
    """

    def __init__(
        self,
        query_size: Size,
        center: Literal["monotonic", "predictive"] = "monotonic",
        window: NonNegativeInt = 3,
        dilation: PositiveInt = 1,
        sinks: NonNegativeInt = 0,
        global_tokens: NonNegativeInt = 0,
        sources: Sequence[Literal["encoder", "decoder"]] = ("encoder",),
        include_self: bool = False,
    ) -> None:
        super().__init__()
        self.sources: tuple[str, ...] = tuple(sources)
        self.include_self = include_self
        self.window, self.dilation = window, dilation
        self.sinks, self.global_tokens = sinks, global_tokens
        self.center_predictor: nn.Sequential | None = None
        if center == "predictive":
            hidden, output = nn.Linear(query_size, query_size, bias=False), nn.Linear(query_size, 1, bias=False)
            self.center_predictor = nn.Sequential(hidden, nn.Tanh(), output)

    def forward(self, queries: Tensor, steps: Tensor, memory_mask: Tensor) -> ScopeMask:
        """(b, q, query_size), steps, (b, 1 or q, m) -> the mask, its ``allowed_mask`` and ``gain`` (b, q, m)."""
        position = torch.arange(memory_mask.shape[-1], device=memory_mask.device)
        centers, predicted = self.window_centers(queries, steps, memory_mask.sum(-1))
        mask = self.window_mask(centers, predicted, position, memory_mask)
        if not self.global_tokens:
            return mask
        # (b or 1, q, 1), the queries that read everything, and (m,), the positions that everything reads
        reads_all, is_read = (steps if steps.dim() == 2 else steps[None])[..., None], position < self.global_tokens
        is_global = is_read | (reads_all < self.global_tokens)
        gain = None if mask.gain is None else mask.gain.masked_fill(is_global, 1.0)
        return ScopeMask(mask.allowed_mask | (is_global & memory_mask), gain)

    def window_centers(self, queries: Tensor, steps: Tensor, length: Tensor) -> tuple[Tensor, Tensor | None]:
        """Where each query's window lies: the position (b, q) it is centered on, and p_t (b, q) where it is predicted.

        Args:
            queries: (b, q, query_size).
            steps: (b, q) or (q,), their steps.
            length: (b, 1 or q), how many positions are there.
        """
        last = (length - 1).clamp(min=0)
        if self.center_predictor is None:
            return torch.minimum(steps.expand(queries.shape[:2]), last), None
        share = self.center_predictor(queries)[..., 0]
        share = share.to(at_least_float32(share.dtype))  # 16 bits do not hold positions above 256
        predicted = length * torch.sigmoid(share)
        return torch.minimum(predicted.detach().round().long(), last), predicted

    def window_mask(
        self, nearest: Tensor, predicted: Tensor | None, position: Tensor, memory_mask: Tensor
    ) -> ScopeMask:
        """The mask of positions (m,), or (b, q, n) if they differ by query; ``memory_mask`` is True at real ones."""
        is_read, is_sink, gain = self._is_read(position, nearest[..., None]), position < self.sinks, None
        if predicted is not None:
            sigma = max(self.window, 1) * self.dilation / 2
            gain = torch.exp(-((position - predicted[..., None]) ** 2) / (2 * sigma**2))
            gain = gain.masked_fill(is_sink, 1.0) if self.sinks else gain
        return ScopeMask(is_read & memory_mask, gain)

    def mask_mod(self, queries: Tensor, steps: Tensor, lengths: Tensor) -> MaskMod | None:
        """The same pair by pair, for FlexAttention; None with a gain."""
        nearest, predicted = self.window_centers(queries, steps, lengths)

        def is_read(b: Tensor, h: Tensor, q: Tensor, m: Tensor) -> Tensor:
            read = self._is_read(m, nearest[b, q])
            count = self.global_tokens
            return read | (m < count) | (steps[b, q] < count) if count else read

        return is_read if predicted is None else None

    def _is_read(self, position: Tensor, nearest: Tensor) -> Tensor:
        """Whether positions lie in the windows around others, or are sinks."""
        distance = (position - nearest).abs()
        is_read = distance <= self.window * self.dilation
        if self.dilation > 1:
            is_read = is_read & (distance % self.dilation == 0)
        return is_read | (position < self.sinks) if self.sinks else is_read
