"""The target of a forecast: a fixed number of rows of numbers, as means or quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attnx.nn.contracts import GreedyStep
from attnx.nn.targets.shared import SharedTarget


@dataclass(frozen=True)
class ForecastTarget(SharedTarget):
    """A fixed number of rows of scaled numbers (b, t, f); an output is one row, or one row per quantile.

    Formula: ``loss = sum_t mean_f (y_tf - o_tf)^2``, or of quantiles ``sum_t mean_fq max(q e, (q - 1) e), e = y - o_q``
    Source: quantiles: Koenker and Bassett 1978, https://doi.org/10.2307/1913643
    """

    features: int  # numbers per row
    steps: int  # number of rows
    # which quantiles are forecast, the median first: it is fed back and compared. Empty for the mean.
    quantiles: tuple[float, ...] = ()
    recursive: bool = False  # whether the decoder reads the previous row; a direct forecast reads no output
    subtracts_last: bool = False  # whether windows are shifted by their last row; see :meth:`prepare`

    @property
    def width(self) -> int:
        """One number per feature and quantile, ordered by quantile, then feature."""
        return self.features * max(len(self.quantiles), 1)

    def prepare(self, source: Tensor, target: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Subtract each window's last row of targets if ``subtracts_last``, so that level shifts do no harm.

        Source: NLinear, Zeng et al. 2023, section 4.2, https://arxiv.org/abs/2205.13504

        Args:
            source: (b, s, f) the window, followed by rows for the forecast steps if any of their features are known.
            target: (b, t, f).
        """
        if not self.subtracts_last:
            return source, target
        last, window = self._last_row(source), self._window_length(source)
        shifted = source.clone()
        shifted[:, :window, : self.features] -= last
        return shifted, None if target is None else target - last

    def restore(self, outputs: Tensor, source: Tensor) -> Tensor:
        """Add that row to outputs (b, n, t, width), to each quantile."""
        if not self.subtracts_last:
            return outputs
        return outputs + self._last_row(source).repeat(1, 1, self.width // self.features)[:, None]

    def _last_row(self, source: Tensor) -> Tensor:
        """(b, 1, f) the targets of the window's last row."""
        window = self._window_length(source)
        return source[:, window - 1 : window, : self.features]

    def _window_length(self, source: Tensor) -> int:
        return source.shape[1] - (self.steps if source.shape[2] > self.features else 0)

    def embedding(self, size: int) -> nn.Module:
        """A linear map of the previous row; for a direct forecast, one learned vector."""
        return PreviousRowEmbedding(self.features, size) if self.recursive else LearnedInput(size)

    def start_input(self, rows: int, device: torch.device) -> Tensor:
        """(rows, f) zeros: the mean of the training split."""
        return torch.zeros(rows, self.features, device=device)

    def step_losses(self, outputs: Tensor, target: Tensor, target_mask: Tensor, label_smoothing: float = 0.0) -> Tensor:
        """Squared error or quantile loss, the mean over features; label smoothing has no effect."""
        target = target.masked_fill(~target_mask[..., None], 0.0)  # NaN at padding would reach gradients
        if not self.quantiles:
            losses = (outputs - target).square().mean(-1)
        else:
            levels = torch.tensor(self.quantiles, dtype=outputs.dtype).to(outputs.device, non_blocking=True)[:, None]
            errors = target[..., None, :] - outputs.view(*outputs.shape[:-1], len(self.quantiles), -1)
            losses = torch.maximum(levels * errors, (levels - 1) * errors).mean((-1, -2))
        return torch.where(target_mask, losses, 0.0)

    def predict(self, outputs: Tensor) -> Tensor:
        """The outputs."""
        return outputs

    def greedy(self, predictions: Tensor) -> GreedyStep:
        """The row, with score 0; the number of steps, not the row, says when the forecast ends."""
        zeros = predictions.new_zeros(len(predictions))
        return GreedyStep(predictions, zeros, torch.zeros_like(zeros, dtype=torch.bool))

    def sample(self, outputs: Tensor) -> Tensor:
        """The row: a forecast is deterministic."""
        return outputs


class PreviousRowEmbedding(nn.Module):
    """A linear map of the first ``features`` numbers of the previous row: those of the first quantile.

    >>> PreviousRowEmbedding(2, 3)(torch.ones(5, 6)).shape
    torch.Size([5, 3])
    """

    def __init__(self, features: int, size: int) -> None:
        super().__init__()
        self.features, self.out_features = features, size
        self.map = nn.Linear(features, size)

    def forward(self, rows: Tensor) -> Tensor:
        """(..., n) -> (..., size)."""
        vectors: Tensor = self.map(rows[..., : self.features])
        return vectors


class LearnedInput(nn.Module):
    """One learned vector as the input of every step, whatever the previous row is.

    >>> LearnedInput(3)(torch.ones(5, 7, 2)).shape
    torch.Size([5, 7, 3])
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.out_features = size
        self.weight = nn.Parameter(torch.zeros(size))

    def forward(self, rows: Tensor) -> Tensor:
        """(..., n) -> (..., size)."""
        return self.weight.expand(*rows.shape[:-1], -1)


def median_first(quantiles: Sequence[float]) -> tuple[float, ...]:
    """The quantiles with the median first, then in ascending order.

    >>> median_first([0.9, 0.1, 0.5])
    (0.5, 0.1, 0.9)
    """
    return tuple(sorted(quantiles, key=lambda level: (level != 0.5, level)))
