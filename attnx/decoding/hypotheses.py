"""What a search found, put together and in order: the hypotheses of a row of the batch, best first."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from attnx.decoding.contracts import DecodeResult

NEVER = float("-inf")


def each(found: DecodeResult, change: Callable[[Tensor], Tensor]) -> DecodeResult:
    """Change every part of it, one after the other."""
    *parts, weights = found
    written, lengths, log_probability, score = map(change, parts)
    return DecodeResult(written, lengths, log_probability, score, None if weights is None else change(weights))


def hypotheses(found: DecodeResult, count: int) -> DecodeResult:
    """(b * n, ...), those of a row together -> (b, n, ...)."""
    return each(found, lambda part: part.view(len(part) // count, count, *part.shape[1:]))


def nothing(rows: int, count: int, like: DecodeResult) -> DecodeResult:
    """(rows, count, ...): nothing is found yet of what will be ``like`` this."""
    none = each(like, lambda part: part.new_zeros(rows, count, *part.shape[2:]))
    never = like.score.new_full((rows, count), NEVER)
    return none._replace(log_probability=never, score=never.clone())


def best(found: DecodeResult, count: int) -> DecodeResult:
    """The so many that have the highest scores, in order; of equals the first."""
    order = found.score.sort(dim=1, descending=True, stable=True).indices[:, :count]
    rows = torch.arange(len(order), device=order.device)[:, None]
    return each(found, lambda part: part[rows, order])


def better(found: DecodeResult, more: DecodeResult, rows: Tensor) -> DecodeResult:
    """What was found (b, n, ...) with more (r, k, ...) of these rows (r,), where that is better.

    What comes later is no shorter, nor is what it read narrower.
    """
    found = found._replace(written=_as_long(found.written, more.written, 1))
    if found.weights is not None and more.weights is not None:
        found = found._replace(weights=_as_long(found.weights, more.weights, 2))
    both = _paired(found, more, lambda one, other: torch.cat([one[rows], other], 1))
    kept = best(both, found.score.shape[1])
    return _paired(found, kept, lambda one, other: one.index_copy(0, rows, other))


def trimmed(found: DecodeResult, growing: bool) -> DecodeResult:
    """Without steps that no hypothesis has, and without the states they would have made if the memory is growing."""
    steps, longest = found.written.shape[2], int(found.lengths.max())
    found = found._replace(written=found.written[:, :, :longest])
    if found.weights is None:
        return found
    columns = found.weights.shape[-1] - (steps - longest if growing else 0)
    return found._replace(weights=found.weights[..., :longest, :columns])


def _as_long(part: Tensor, other: Tensor, axes: int) -> Tensor:
    """Padded with zeros at the end of so many last axes, to the sizes that another has."""
    lacking = [size - mine for size, mine in zip(other.shape[-axes:], part.shape[-axes:], strict=True)]
    return F.pad(part, [number for lack in reversed(lacking) for number in (0, lack)])


def _paired(found: DecodeResult, more: DecodeResult, join: Callable[[Tensor, Tensor], Tensor]) -> DecodeResult:
    """Join each part with the other's."""
    others = iter(part for part in more if part is not None)
    return each(found, lambda part: join(part, next(others)))
