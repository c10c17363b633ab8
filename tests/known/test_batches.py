"""Datasets and batches: ids, padding and order by hand."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from attnx.data.batches import Batch, BucketBatches, PairDataset, collate
from attnx.data.pairs import Pair
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError

LETTERS = Vocabulary.of(["abc"])  # a 4, b 5, c 6
PHONES = Vocabulary.of([["X", "Y"]])  # X 4, Y 5
PAIRS = [
    Pair(("a", "b", "c"), (("X",), ("Y", "X", "Y"))),
    Pair(("c",), (("Y", "Y"),)),
    Pair(("b", "?"), (("X", "Z"),)),
]


def dataset(every_reference: bool) -> PairDataset:
    """Encode the three pairs."""
    return PairDataset.from_pairs(PAIRS, LETTERS, PHONES, every_reference)


def test_a_row_for_every_reference() -> None:
    """The first pair has two; unknown symbols are 3, targets end in 2."""
    rows = [dataset(True)[i] for i in range(4)]
    assert [row.source.tolist() for row in rows] == [[4, 5, 6], [4, 5, 6], [6], [5, 3]]
    assert [row.target.tolist() for row in rows] == [[4, 2], [5, 4, 5, 2], [5, 5, 2], [4, 3, 2]]
    assert [row.number for row in rows] == [0, 1, 2, 3]
    assert dataset(True).pair_of.tolist() == [0, 0, 1, 2]
    assert dataset(True).lengths().tolist() == [[3, 2], [3, 4], [1, 3], [2, 3]]


def test_a_row_for_every_pair() -> None:
    """Only the first reference of the first pair is left."""
    data = dataset(False)
    assert len(data) == 3
    assert [data[i].target.tolist() for i in range(3)] == [[4, 2], [5, 5, 2], [4, 3, 2]]
    assert data.pair_of.tolist() == [0, 1, 2]


def test_a_row_that_is_not_there() -> None:
    """Neither the end nor a negative number wraps around into another row."""
    for index in (4, -1):
        with pytest.raises(IndexError, match=f"row {index} of a dataset of 4 rows"):
            dataset(True)[index]


@pytest.mark.parametrize("every_reference", [True, False])
def test_a_pair_without_reference_is_refused(every_reference: bool) -> None:
    """Training would lose it in silence."""
    with pytest.raises(ValueError, match=r"pair 1 \('ab'\) has no reference"):
        PairDataset.from_pairs([PAIRS[0], Pair(("a", "b"), ())], LETTERS, PHONES, every_reference)


def test_collate_pads_to_the_longest() -> None:
    """Rows 1, 2 and 3 of the four: source width 3, target width 4."""
    data = dataset(True)
    batch = collate([data[3], data[1], data[2]])
    assert batch.source.tolist() == [[5, 3, 0], [4, 5, 6], [6, 0, 0]]
    assert batch.present.tolist() == [[True, True, False], [True, True, True], [True, False, False]]
    assert batch.target.tolist() == [[4, 3, 2, 0], [5, 4, 5, 2], [5, 5, 2, 0]]
    assert batch.index.tolist() == [3, 1, 2]
    assert [field.dtype for field in batch] == [torch.int64, torch.bool, torch.int64, torch.int64]


def test_collate_is_no_wider_than_its_rows() -> None:
    """A short row alone has no padding, whatever the dataset holds."""
    batch = collate([dataset(True)[2]])
    assert batch.source.shape == (1, 1)
    assert batch.target.shape == (1, 3)


def test_it_pickles_small() -> None:
    """A copy gives the same rows; 1009 pairs cost bytes, not Python objects (20 ids of 4 bytes, 3 of 8)."""
    copy = pickle.loads(pickle.dumps(dataset(True)))
    assert copy[1].target.tolist() == [5, 4, 5, 2]
    many = PairDataset.from_pairs([Pair(("a",) * 11, (("X",) * 8,))] * 1009, LETTERS, PHONES, True)
    assert len(pickle.dumps(many)) < 1009 * (20 * 4 + 3 * 8) + 1000
    assert pickle.loads(pickle.dumps(collate)) is collate


def test_sorted_batches() -> None:
    """By source length, then target length: rows 2 (1, 3), 3 (2, 3), 0 (3, 2), 1 (3, 4)."""
    batches = BucketBatches(dataset(True).lengths(), size=3, shuffle=False)
    assert list(batches) == [[2, 3, 0], [1]]
    batches.set_epoch(5)
    assert list(batches) == [[2, 3, 0], [1]]


def test_a_pool_of_everything_sorts_everything() -> None:
    """With one pool the batches are the sorted ones, in any order."""
    lengths = np.array([[7, 1], [3, 5], [3, 2], [11, 1], [5, 1]])
    batches = BucketBatches(lengths, size=2, pool=3)
    assert sorted(batches) == [[2, 1], [3], [4, 0]]


def test_chance_decides_both_the_pools_and_the_order_of_batches() -> None:
    """Of 202 rows, sorted already: one pool keeps all neighbours together, small pools do not."""
    lengths = np.arange(404).reshape(202, 2)
    neighbours = [[row, row + 1] for row in range(0, 202, 2)]
    one_pool = list(BucketBatches(lengths, size=2, pool=101))
    assert one_pool != neighbours
    assert sorted(one_pool) == neighbours
    assert sorted(BucketBatches(lengths, size=2, pool=3)) != neighbours


def test_epochs_and_seeds_differ() -> None:
    """101 rows, one by one: that two orders agree by chance has odds of 1 in 101!."""
    lengths = np.ones((101, 2), dtype=np.int64)
    batches = BucketBatches(lengths, size=1, seed=3)
    first = list(batches)
    assert list(batches) == first
    assert list(BucketBatches(lengths, size=1, seed=4)) != first
    batches.set_epoch(1)
    assert list(batches) not in (first, list(BucketBatches(lengths, size=1, seed=4)))
    batches.set_epoch(0)
    assert list(batches) == first


def test_resuming_inside_an_epoch() -> None:
    """The rest of the epoch is what it would have been; the next epoch is whole again."""
    lengths = np.arange(46).reshape(23, 2)
    whole = BucketBatches(lengths, size=3, seed=5)
    whole.set_epoch(2)
    expected = list(whole)
    batches = BucketBatches(lengths, size=3, seed=5)
    batches.resume(epoch=2, start=5)
    batches.set_epoch(2)
    assert list(batches) == expected[5:]
    assert len(batches) == 8
    batches.set_epoch(3)
    assert len(list(batches)) == 8


@pytest.mark.parametrize("start", [-1, 9])
def test_a_start_outside_the_epoch_is_refused(start: int) -> None:
    """Eight batches: 8 leaves none of them, 9 is a mistake."""
    batches = BucketBatches(np.ones((23, 2), dtype=np.int64), size=3)
    batches.resume(0, 8)
    assert list(batches) == []
    with pytest.raises(ValueError, match=f"cannot start at batch {start} of an epoch of 8 batches"):
        batches.resume(0, start)


def test_a_running_epoch_is_not_disturbed() -> None:
    """The loader asks for batches ahead of time; the epoch is planned when it begins."""
    lengths = np.ones((101, 2), dtype=np.int64)
    batches = BucketBatches(lengths, size=1)
    expected = list(batches)
    running = iter(batches)
    batches.set_epoch(1)
    assert list(running) == expected


@pytest.mark.parametrize(("size", "pool", "seed"), [(0, 50, 0), (3, 0, 0), (3, 50, -1)])
def test_impossible_knobs_are_refused(size: int, pool: int, seed: int) -> None:
    """In one line."""
    with pytest.raises(UserError, match="must be 1 or more"):
        BucketBatches(np.ones((2, 2), dtype=np.int64), size, seed, pool=pool)


def test_lightning_finds_set_epoch() -> None:
    """Lightning's own function turns the epoch of a loader that holds the batches."""
    data = pytest.importorskip("lightning.fabric.utilities.data")
    batches = BucketBatches(dataset(True).lengths(), size=3)
    data._set_sampler_epoch(DataLoader(dataset(True), batch_sampler=batches, collate_fn=collate), 7)
    assert batches.epoch == 7


@pytest.mark.parametrize("workers", [0, 2])
def test_in_a_loader(workers: int) -> None:
    """Forked or not, the loader hands out the sorted batches."""
    data = dataset(True)
    batches = BucketBatches(data.lengths(), size=3, shuffle=False)
    loader = DataLoader(data, batch_sampler=batches, collate_fn=collate, num_workers=workers)
    found = list(loader)
    assert all(isinstance(batch, Batch) for batch in found)
    assert [batch.index.tolist() for batch in found] == [[2, 3, 0], [1]]
    assert found[0].target.tolist() == [[5, 5, 2], [4, 3, 2], [4, 2, 0]]
