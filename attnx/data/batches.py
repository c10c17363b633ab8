"""Batches of padded rows.

Everything that runs before ranks and jobs of a sweep fork is NumPy: a torch operator may open an OpenMP region, and a
fork after one can hang.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attnx.data.dataset import PairDataset, Row
from attnx.data.vocabulary import PAD

# Fields of a batch that stay on the CPU, where reading them waits for nothing.
READ_AS_NUMBERS = ("row_index", "source_lengths")
# Device types to which a copy must block; MPS reads before it has ended (https://github.com/pytorch/pytorch/issues/83015).
BLOCKING_DEVICES = ("cpu", "mps")


class Batch(NamedTuple):
    """Rows padded to the longest of them."""

    source: Tensor  #: (b, s) int64 ids, then ``PAD``; or (b, s, f) float32 features, then zeros
    source_mask: Tensor  #: (b, s) bool, False for padding
    target: Tensor  #: (b, t) int64 ids, then ``EOS``, then ``PAD``; or (b, t, g) float32 features, then zeros
    target_mask: Tensor  #: (b, t) bool, False for padding; ``EOS`` counts as real
    row_index: Tensor  #: (b,) int64, the rows' indices in the dataset
    tag: Tensor  #: (b,) int64, the index of each row's tag; 0 without tags
    #: (b, t) bool, the steps whose loss and outputs count, where only some do; False for padding. None if all of
    #: ``target_mask`` do.
    loss_mask: Tensor | None = None
    #: (b, t, g) bool, False for missing numbers of ``target``, which hold the last measured number instead, or 0. None
    #: if none is missing.
    measured_mask: Tensor | None = None
    #: (b,) int64, the steps of each source without padding. None to have a model count them in the mask, for which it
    #: waits for a GPU.
    source_lengths: Tensor | None = None

    def to(self, device: torch.device) -> Batch:
        """The batch on a device, but for what is read as numbers: ``row_index`` and ``source_lengths`` stay.

        A copy to a GPU does not block. One to the CPU does, where its numbers may be read at once.
        """
        non_blocking = device.type not in BLOCKING_DEVICES
        moved = {
            name: part.to(device, non_blocking=non_blocking)
            for name, part in self._asdict().items()
            if part is not None and name not in READ_AS_NUMBERS
        }
        return self._replace(**moved)


def collate(rows: Sequence[Row]) -> Batch:
    """Pad rows to the longest source and the longest target among them."""
    row_index, tag = np.array([(row.row_index, row.tag) for row in rows], dtype=np.int64).T.copy()
    source, source_mask = _pad([row.source for row in rows])
    target, target_mask = _pad([row.target for row in rows])
    loss_masks = [row.loss_mask for row in rows if row.loss_mask is not None]
    measured_mask = None
    if target.dtype.kind == "f" and bool(np.isnan(target).any()):
        measured_mask = torch.from_numpy(~np.isnan(target))
        # Each missing number becomes the last one before it, or 0 if there is none.
        steps = np.arange(target.shape[1])[:, None]
        last = np.maximum.accumulate(np.where(np.isnan(target), 0, steps), axis=1)
        target = np.nan_to_num(np.take_along_axis(target, last, axis=1))
    batch = Batch(*map(torch.from_numpy, (source, source_mask, target, target_mask, row_index, tag)))
    return batch._replace(
        loss_mask=torch.from_numpy(_pad(loss_masks)[0] != PAD) if loss_masks else None,
        measured_mask=measured_mask,
        source_lengths=torch.from_numpy(source_mask.sum(1)),
    )


def as_batch(rows: PairDataset) -> Batch:
    """All rows of a dataset as one batch."""
    return collate([rows[index] for index in range(len(rows))])


def _pad(rows: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return sequences padded with PAD (features: 0), and the mask of what is real."""
    flat, lengths = np.concatenate(rows), np.array(list(map(len, rows)))
    mask = np.arange(lengths.max()) < lengths[:, None]
    dtype = np.float32 if flat.dtype.kind == "f" else np.int64
    padded = np.full((*mask.shape, *flat.shape[1:]), PAD, dtype=dtype)
    padded[mask] = flat
    return padded, mask
