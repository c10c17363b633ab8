"""Memories that are joined from several sources, that grow (the KV cache), and that remember how they were read."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from attnx.attention.types import AttentionHistory, AttentionOutput, Memory
from attnx.ops import at_least_float32, is_tracing

MIN_CAPACITY = 64
"""Positions that a KV cache has room for at first; a full one is copied to one of twice the room."""
AXES = -2, -2, -1
"""The axis of the positions in keys, values and mask."""


class KeyValueCache:
    """Room for a memory of ``capacity`` positions, into which each step writes its own: nothing is copied for it.

    The memories that it returns are views of the same tensors. Only the newest of them grows in place; an earlier one,
    from which decoding goes on a second time, is copied.

    Args:
        memory: the positions that there are.
        capacity: how many there is room for.
        rows: (r,) int64, the rows of the memory to copy; all if left out.
    """

    def __init__(self, memory: Memory, capacity: int, rows: Tensor | None = None) -> None:
        self.capacity, self.buffers = capacity, []
        for part, axis in zip(memory[:3], AXES, strict=True):
            shape = list(part.shape)
            shape[0], shape[axis] = shape[0] if rows is None else len(rows), capacity
            buffer = part.new_empty(shape)
            written = buffer.narrow(axis, 0, part.shape[axis])
            if rows is None:
                written.copy_(part)
            else:
                torch.index_select(part, 0, rows.to(part.device), out=written)
            self.buffers.append(buffer)
        self.newest = self._views(memory.keys.shape[-2])

    def can_append(self, memory: Memory, new: Memory) -> bool:
        """Whether the memory is the newest, there is room, and torch allows to write."""
        is_newest = all(part is view for part, view in zip(memory[:3], self.newest, strict=True))
        has_room = memory.keys.shape[-2] + new.keys.shape[-2] <= self.capacity
        return is_newest and has_room and (torch.is_inference_mode_enabled() or not self.buffers[0].is_inference())

    def append(self, new: Memory) -> tuple[Tensor, Tensor, Tensor]:
        """Write positions behind the newest memory: its keys, values and mask with them."""
        start, count = self.newest[0].shape[-2], new.keys.shape[-2]
        for buffer, part, axis in zip(self.buffers, new[:3], AXES, strict=True):
            buffer.narrow(axis, start, count).copy_(part)
        self.newest = self._views(start + count)
        return self.newest

    def select_rows(self, memory: Memory, rows: Tensor) -> Memory:
        """These rows of a memory, (r,) int64, in a cache of their own."""
        cache = KeyValueCache(memory, self.capacity, rows)
        keys, values, mask = cache.newest
        return memory._replace(keys=keys, values=values, mask=mask, cache=cache)

    def _views(self, positions: int) -> tuple[Tensor, Tensor, Tensor]:
        keys, values, mask = (
            buffer.narrow(axis, 0, positions) for buffer, axis in zip(self.buffers, AXES, strict=True)
        )
        return keys, values, mask


def concat_sources(first: Memory, second: Memory) -> Memory:
    """Lay one memory after another: positions of both may be read, each source by the scope on its own."""
    return _append(first, second, (*first.source_sizes, *second.source_sizes))


def append_positions(memory: Memory, new: Memory) -> Memory:
    """Append positions to the last source of a memory; without gradients a single one in place, by a KV cache."""
    *earlier, last = memory.source_sizes
    source_sizes = (*earlier, last + sum(new.source_sizes))
    if is_tracing():  # where sizes are recorded and not known
        return _append(memory, new, source_sizes)
    if not memory.keys.shape[-2]:
        return new._replace(source_sizes=source_sizes, has_padding=memory.has_padding or new.has_padding)
    if torch.is_grad_enabled() or new.keys.shape[-2] != 1 or memory.keys.dtype != new.keys.dtype:
        return _append(memory, new, source_sizes)
    cache = memory.cache
    if cache is None or not cache.can_append(memory, new):
        cache = KeyValueCache(memory, capacity=max(MIN_CAPACITY, 2 * memory.keys.shape[-2]))
    keys, values, mask = cache.append(new)
    return Memory(keys, values, mask, source_sizes, memory.has_padding or new.has_padding, cache=cache)


def _append(first: Memory, second: Memory, source_sizes: tuple[int, ...]) -> Memory:
    return Memory(
        torch.cat([first.keys, second.keys], dim=-2),
        torch.cat([first.values, second.values], dim=-2),
        torch.cat([first.mask, second.mask], dim=-1),
        source_sizes,
        first.has_padding or second.has_padding,
    )


def hide_future(memory: Memory, first: Tensor) -> Memory:
    """Hide from each query the positions of the last source from ``first`` on: (q,) or (b, q) int64.

    It is what makes a pass over all steps at once read no state that a loop would not have made yet.
    """
    rows, positions = memory.mask.shape
    last_length = memory.source_sizes[-1]
    is_visible = torch.arange(last_length, device=first.device) < first[..., None]
    steps = is_visible.shape[-2]
    is_visible = is_visible.expand(rows, steps, last_length)
    earlier = memory.mask[:, None, : positions - last_length].expand(-1, steps, -1)
    return memory._replace(
        mask=torch.cat([earlier, memory.mask[:, None, positions - last_length :] & is_visible], dim=-1),
        has_padding=True,
    )


def empty_history(memory: Memory) -> AttentionHistory:
    """The past of a memory that was never read."""
    # 16 bits would not hold a sum of many weights.
    nothing = memory.values.new_zeros(memory.keys.shape[:-1], dtype=at_least_float32(memory.values.dtype))
    return AttentionHistory(nothing, nothing)


def update_history(history: AttentionHistory, output: AttentionOutput) -> AttentionHistory:
    """The past after one query with its weights has read a memory, which may have grown since the read before."""
    assert output.weights is not None, "a history needs the weights"
    now = output.weights[..., 0, :]
    cumulative = pad_positions(history.cumulative, now.shape[-1]) + now
    return AttentionHistory(now, cumulative, output.scorer_carry, output.normalizer_carry)


def pad_history_to_memory(history: AttentionHistory, memory: Memory) -> AttentionHistory:
    """The past of a memory that has grown: the new positions were never read."""
    positions = memory.keys.shape[-2]
    previous, cumulative = (pad_positions(part, positions) for part in (history.previous, history.cumulative))
    return history._replace(previous=previous, cumulative=cumulative)


def pad_positions(weights: Tensor, positions: int) -> Tensor:
    """(..., m) weights -> (..., positions), with zeros for what was not there yet."""
    return F.pad(weights, (0, positions - weights.shape[-1]))


def stack_step_weights(weights: list[Tensor]) -> Tensor:
    """Weights of steps, each (..., 1, m) over a memory that may have grown -> (..., t, m) over the last one's."""
    positions = weights[-1].shape[-1]
    return torch.cat([pad_positions(step, positions) for step in weights], dim=-2)
