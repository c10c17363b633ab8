"""A target of so many rows of numbers, no more and no fewer: a forecast, of the mean or of quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attnx.nn.targets.contract import GreedyStep, TargetSpec


@dataclass(frozen=True)
class Horizon:
    """Rows of scaled numbers (b, t, f), as many in every target; an output is such a row, or one for each quantile.

    Formula: ``loss = sum_t mean_f (y_tf - o_tf)^2``, or of quantiles ``sum_t mean_fq max(q e, (q - 1) e), e = y - o_q``
    Source: quantiles: Koenker and Bassett 1978, https://doi.org/10.2307/1913643

    Args:
        features: how many numbers a row has.
        steps: how many rows there are.
        quantiles: which; the first is what is fed back and compared, so the median. None for the mean.
        recursive: whether the row before is read at each step; if not, nothing that was written is (a direct forecast).
        from_last: whether windows are told from their last row on; :func:`from_last` says how.
    """

    features: int
    steps: int
    quantiles: tuple[float, ...] = ()
    recursive: bool = False
    from_last: bool = False

    @property
    def width(self) -> int:
        """A number for each feature, and quantile if there are any, quantile after quantile."""
        return self.features * max(len(self.quantiles), 1)

    def embedding(self, size: int) -> nn.Module:
        """A linear map of the row before; of a direct forecast, a vector that is the same at every step."""
        return PreviousRowEmbedding(self.features, size) if self.recursive else LearnedInput(size)

    def first(self, rows: int, device: torch.device) -> Tensor:
        """(rows, f) zeros: the mean of the training part."""
        return torch.zeros(rows, self.features, device=device)

    def loss(self, outputs: Tensor, target: Tensor, present: Tensor, smoothing: float = 0.0) -> Tensor:
        """Squared error, or the quantiles' own, the mean over features, summed over steps; nothing to smooth."""
        if not self.quantiles:
            lost = (outputs - target).square().mean(-1)
        else:
            level = outputs.new_tensor(self.quantiles)[:, None]
            short = target[..., None, :] - outputs.view(*outputs.shape[:-1], len(self.quantiles), -1)
            lost = torch.maximum(level * short, (level - 1) * short).mean((-1, -2))
        return torch.where(present, lost, 0.0).sum()

    def predicted(self, outputs: Tensor) -> Tensor:
        """As they are."""
        return outputs

    def pick(self, predicted: Tensor) -> GreedyStep:
        """The row; it is for the search to count, and no chance is in it."""
        nothing = predicted.new_zeros(len(predicted))
        return GreedyStep(predicted, nothing, torch.zeros_like(nothing, dtype=torch.bool))

    def draw(self, outputs: Tensor) -> Tensor:
        """The row."""
        return outputs


def from_last(side: TargetSpec, source: Tensor) -> tuple[Tensor, Tensor | None]:
    """What a model is told of a window: how far its targets are from their last row, which is added to what it writes.

    So a series that has left the level it was trained at is forecast as well as before.

    Source: NLinear, Zeng et al. 2023, section 4.2, https://arxiv.org/abs/2205.13504

    Args:
        side: of the model.
        source: (b, s, f) what is looked back on, and behind it rows for the steps to forecast if anything is known of
            them; or symbols.

    Returns:
        The source, and the last row of the targets (b, 1, width), for each quantile; None if they are told as they are.
    """
    if not (isinstance(side, Horizon) and side.from_last):
        return source, None
    past = source.shape[1] - (side.steps if source.shape[2] > side.features else 0)
    last = source[:, past - 1 : past, : side.features]
    moved = source.clone()
    moved[:, :past, : side.features] -= last
    return moved, last.repeat(1, 1, side.width // side.features)


class PreviousRowEmbedding(nn.Module):
    """A linear map of the first so many numbers of each vector: those of the first quantile, if there are several.

    >>> PreviousRowEmbedding(2, 3)(torch.ones(5, 6)).shape
    torch.Size([5, 3])
    """

    def __init__(self, features: int, size: int) -> None:
        super().__init__()
        self.features, self.out_features = features, size
        self.map = nn.Linear(features, size)

    @property
    def weight(self) -> Tensor:
        """(size, features)."""
        return self.map.weight

    def forward(self, rows: Tensor) -> Tensor:
        """(..., n) -> (..., size)."""
        mapped: Tensor = self.map(rows[..., : self.features])
        return mapped


class LearnedInput(nn.Module):
    """A learned vector in the place of what was written before, whatever that is.

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


def ordered(quantiles: Sequence[float]) -> tuple[float, ...]:
    """The quantiles with the median first, then from low to high.

    >>> ordered([0.9, 0.1, 0.5])
    (0.5, 0.1, 0.9)
    """
    return tuple(sorted(quantiles, key=lambda level: (level != 0.5, level)))
