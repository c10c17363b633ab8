"""The normalizer ``hard``."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.ops import hardmax
from attnx.registry import PositiveFloat, register


@register("normalizer", "hard")
class Hard(nn.Module):
    """Read one position, the one that scores highest; learn as if it had been a softmax.

    Formula: ``a_m = 1 if m is the first of the highest allowed scores, else 0; gradient: that of softmax(e / T)``
    Source: Bengio et al. 2013 (the straight-through estimator), https://arxiv.org/abs/1308.3432

    Its gradient is an estimate and not the derivative of its weights, which is 0 everywhere: it declares itself not
    ``is_differentiable``. The ``temperature`` T shows in the gradient alone.

    >>> import torch
    >>> Hard()(torch.tensor([3.0, 5.0, 5.0, 9.0, 9.0]), torch.tensor([True, True, True, False, False]))
    tensor([0., 1., 0., 0., 0.])
    """

    is_distribution = True
    is_differentiable = False

    def __init__(self, temperature: PositiveFloat = 1.0) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, scores: Tensor, allowed_mask: Tensor) -> Tensor:
        """Scores (..., m) and their mask -> weights (..., m)."""
        return hardmax(scores / self.temperature, allowed_mask)
