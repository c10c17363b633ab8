"""Results of a search: the hypotheses of each source, best first."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from attnx.decoding.contracts import DecodeResult

NEG_INF = float("-inf")


def map_fields(change: Callable[..., Tensor], *results: DecodeResult) -> DecodeResult:
    """Apply a function to every field in turn, of one result or of several; there are no weights if one has none."""
    fields = zip(*results, strict=True)
    return DecodeResult._make(None if any(part is None for part in parts) else change(*parts) for parts in fields)


def group_by_source(result: DecodeResult, count: int) -> DecodeResult:
    """(b * n, ...), a source's rows together -> (b, n, ...)."""
    return map_fields(lambda field: field.view(len(field) // count, count, *field.shape[1:]), result)


def empty_results(rows: int, count: int, like: DecodeResult) -> DecodeResult:
    """No hypotheses (rows, count, ...), in fields with the shapes of ``like``."""
    zeros = map_fields(lambda field: field.new_zeros(rows, count, *field.shape[2:]), like)
    lowest = like.score.new_full((rows, count), NEG_INF)
    return zeros._replace(log_probability=lowest, score=lowest.clone())


def best(result: DecodeResult, count: int) -> DecodeResult:
    """The ``count`` hypotheses with the highest scores, in order; of equal ones the first."""
    order = result.score.sort(dim=1, descending=True, stable=True).indices[:, :count]
    rows = torch.arange(len(order), device=order.device)[:, None]
    return map_fields(lambda field: field[rows, order], result)


def merge_best(result: DecodeResult, new: DecodeResult, rows: Tensor) -> DecodeResult:
    """The best of a result (b, n, ...) and new hypotheses (r, k, ...) of its rows (r,).

    The new ones are at least as long, in steps and in memory positions.
    """
    result = result._replace(sequences=_pad_to(result.sequences, new.sequences, 1))
    if result.weights is not None and new.weights is not None:
        result = result._replace(weights=_pad_to(result.weights, new.weights, 2))
    both = map_fields(lambda field, new_field: torch.cat([field[rows], new_field], 1), result, new)
    merged = best(both, result.score.shape[1])
    return map_fields(lambda field, new_field: field.index_copy(0, rows, new_field), result, merged)


def trim(result: DecodeResult, has_decoder_memory: bool) -> DecodeResult:
    """Drop steps that no hypothesis has, and the decoder states of these steps if the memory holds such."""
    steps, longest = result.sequences.shape[2], int(result.lengths.max())
    result = result._replace(sequences=result.sequences[:, :, :longest])
    if result.weights is None:
        return result
    columns = result.weights.shape[-1] - (steps - longest if has_decoder_memory else 0)
    return result._replace(weights=result.weights[..., :longest, :columns])


def _pad_to(field: Tensor, target: Tensor, axes: int) -> Tensor:
    """Pad the last axes with zeros to the sizes of a target."""
    missing = [size - own_size for size, own_size in zip(target.shape[-axes:], field.shape[-axes:], strict=True)]
    return F.pad(field, [pad for count in reversed(missing) for pad in (0, count)])
