"""The KV cache: the keys and values of a memory that grows step by step, in tensors with room for later positions."""

from __future__ import annotations

import torch
from torch import Tensor

from attnx.attention.types import Memory

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
        for part, axis in zip(_parts(memory), AXES, strict=True):
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
        is_newest = all(part is view for part, view in zip(_parts(memory), self.newest, strict=True))
        has_room = memory.keys.shape[-2] + new.keys.shape[-2] <= self.capacity
        return is_newest and has_room and (torch.is_inference_mode_enabled() or not self.buffers[0].is_inference())

    def append(self, new: Memory) -> tuple[Tensor, Tensor, Tensor]:
        """Write positions behind the newest memory: its keys, values and mask with them."""
        start, count = self.newest[0].shape[-2], new.keys.shape[-2]
        for buffer, part, axis in zip(self.buffers, _parts(new), AXES, strict=True):
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


def _parts(memory: Memory) -> tuple[Tensor, Tensor, Tensor]:
    return memory.keys, memory.values, memory.mask
