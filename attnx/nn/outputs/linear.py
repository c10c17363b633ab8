"""The output ``linear``."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.nn.contracts import OutputInputs
from attnx.registry import Size, register


@register("output", "linear")
class LinearOutput(nn.Linear):
    """A linear map of the readout: a score for each of the target's symbols, or the numbers of a row.

    Formula: ``o_t = O r_t + b``, and of symbols ``p(y_t) = softmax(o_t)``
    Source: Luong et al. 2015, equation 6, https://arxiv.org/abs/1508.04025

    With ``model.tie_embeddings`` O is the target's embedding, and there is no b.

    >>> import torch
    >>> LinearOutput(size=13, width=17, tied=None)(torch.ones(2, 3, 13)).shape
    torch.Size([2, 3, 17])
    """

    needs_weights = False

    def __init__(self, size: Size, width: Size, tied: nn.Parameter | None) -> None:
        super().__init__(size, width, bias=tied is None)
        if tied is not None:
            self.weight = tied

    def forward(self, vectors: Tensor, inputs: OutputInputs | None = None) -> Tensor:
        """Readouts (..., size) -> (..., width)."""
        return super().forward(vectors)

    def copy_ids(self, source: Tensor, source_mask: Tensor) -> None:
        """Nothing is copied."""
