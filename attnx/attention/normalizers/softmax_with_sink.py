"""The normalizer ``softmax_with_sink``."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from attnx.ops import masked_normalize
from attnx.registry import PositiveFloat, register


@register("normalizer", "softmax_with_sink")
class SoftmaxWithSink(nn.Module):
    """A softmax with one more position, the sink, whose weight is read by nobody.

    Formula: ``a_m = exp(e_m / T) / (exp(b) + sum_j exp(e_j / T)), j over the allowed positions; one: b = 0``
    Source: Miller 2023 (softmax1), https://www.evanmiller.org/attention-is-off-by-one.html; a learned b: OpenAI 2025,
        section 2.2, https://arxiv.org/abs/2508.10925

    A query that finds nothing may read nothing: weights sum to less than 1, and a plain softmax would put the rest on a
    position without meaning, often the first. ``sink=learned`` has a b for each head, which starts at 0;
    ``one`` leaves it there. The temperature does not divide b.

    >>> import torch
    >>> SoftmaxWithSink(sink="one")(torch.tensor([0.0, 0.0, 5.0]), torch.tensor([True, True, False]))
    tensor([0.3333, 0.3333, 0.0000])
    """

    is_distribution = False

    def __init__(self, sink: Literal["learned", "one"] = "learned", temperature: PositiveFloat = 1.0) -> None:
        super().__init__()
        self.temperature = temperature
        self.sink = nn.Parameter(torch.zeros(1)) if sink == "learned" else None

    def forward(self, scores: Tensor, allowed_mask: Tensor) -> Tensor:
        """Scores (..., m) and their mask -> weights (..., m)."""
        return masked_normalize(self._normalize, scores / self.temperature, allowed_mask)

    def _normalize(self, scores: Tensor) -> Tensor:
        """(..., m) -> (..., m); softmax subtracts the largest score, that of the sink among them."""
        shape = *scores.shape[:-1], 1
        sink = scores.new_zeros(shape) if self.sink is None else self.sink.to(scores.dtype).expand(shape)
        return torch.softmax(torch.cat([scores, sink], -1), dim=-1)[..., :-1]
