"""Datasets and batches: ids, padding and order by hand."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from attnx.data.batches import collate
from attnx.data.buckets import BucketBatches
from attnx.data.dataset import PairDataset, Ragged
from attnx.data.examples import Pair
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError

LETTERS = Vocabulary.of(["abc"])  # a 4, b 5, c 6
PHONES = Vocabulary.of([["X", "Y"]])  # X 4, Y 5
PAIRS = [
    Pair(("a", "b", "c"), (("X",), ("Y", "X", "Y")), "fi"),
    Pair(("c",), (("Y", "Y"),), "et"),
    Pair(("b", "?"), (("X", "Z"),), "fi"),
]


def dataset(every_reference: bool) -> PairDataset:
    """Encode the three pairs."""
    return PairDataset.from_pairs(PAIRS, LETTERS, PHONES, every_reference)


def dataset_with_lengths(lengths: list[tuple[int, int]]) -> PairDataset:
    """Rows of these source and target lengths."""
    sources, targets = (Ragged.of([[4] * length for length in side]) for side in zip(*lengths, strict=True))
    return PairDataset(sources, targets)


def alike(count: int) -> PairDataset:
    """Rows of one symbol on either side."""
    return dataset_with_lengths([(1, 1)] * count)


def test_a_row_for_every_reference():
    """The first pair has two; unknown symbols are 3, targets end in 2."""
    rows = [dataset(True)[i] for i in range(4)]
    assert [row.source.tolist() for row in rows] == [[4, 5, 6], [4, 5, 6], [6], [5, 3]]
    assert [row.target.tolist() for row in rows] == [[4, 2], [5, 4, 5, 2], [5, 5, 2], [4, 3, 2]]
    assert [row.row_index for row in rows] == [0, 1, 2, 3]
    assert dataset(True).lengths(np.arange(4)).tolist() == [[3, 2], [3, 4], [1, 3], [2, 3]]
    assert dataset(True).lengths(np.array([3, 1])).tolist() == [[2, 3], [3, 4]]


def test_a_row_for_every_pair():
    """Only the first reference of the first pair is left."""
    data = dataset(False)
    assert len(data) == 3
    assert [data[i].target.tolist() for i in range(3)] == [[4, 2], [5, 5, 2], [4, 3, 2]]


def test_a_missing_row_is_refused():
    """Neither the end nor a negative number wraps around into another row."""
    for index in (4, -1):
        with pytest.raises(IndexError, match=f"row {index} of a dataset of 4 rows"):
            dataset(True)[index]


def test_tags_are_numbered_in_order():
    """Without any all rows have number 0; either way a batch carries them."""
    data = PairDataset.from_pairs(PAIRS, LETTERS, PHONES, True, ("de", "et", "fi"))
    assert data.tags.tolist() == [2, 2, 1, 2]
    assert collate([data[2], data[3]]).tag.tolist() == [1, 2]
    assert dataset(True).tags.tolist() == [0, 0, 0, 0]
    assert collate([dataset(True)[3]]).tag.tolist() == [0]


def test_an_unlisted_tag_is_refused():
    """It has no number."""
    with pytest.raises(ValueError, match="the tag 'et' is none of de, fi"):
        PairDataset.from_pairs(PAIRS, LETTERS, PHONES, True, ("de", "fi"))


@pytest.mark.parametrize("every_reference", [True, False])
def test_a_pair_without_reference_is_refused(every_reference):
    """Training would lose it in silence."""
    with pytest.raises(ValueError, match=r"pair 1 \('ab'\) has no reference"):
        PairDataset.from_pairs([PAIRS[0], Pair(("a", "b"), ())], LETTERS, PHONES, every_reference)


def test_collate_pads_to_the_longest():
    """Rows 1, 2 and 3 of the four: source width 3, target width 4."""
    data = dataset(True)
    batch = collate([data[3], data[1], data[2]])
    assert batch.source.tolist() == [[5, 3, 0], [4, 5, 6], [6, 0, 0]]
    assert batch.source_mask.tolist() == [[True, True, False], [True, True, True], [True, False, False]]
    assert batch.target.tolist() == [[4, 3, 2, 0], [5, 4, 5, 2], [5, 5, 2, 0]]
    assert batch.target_mask.tolist() == [[True] * 3 + [False], [True] * 4, [True] * 3 + [False]]
    assert batch.row_index.tolist() == [3, 1, 2]
    assert batch.source_lengths.tolist() == [2, 3, 1]
    *fields, loss_mask, measured_mask, lengths = batch
    assert [field.dtype for field in (*fields, lengths)] == [torch.int64, torch.bool] * 2 + [torch.int64] * 3
    assert loss_mask is measured_mask is None


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.int64])
def test_ids_may_be_of_any_integer_type(dtype):
    """A batch has int64 all the same."""
    side = Ragged(np.array([4, 6, 5], dtype=dtype), np.array([0, 1, 3]))
    batch = collate([PairDataset(side, side)[row] for row in range(2)])
    assert batch.source.tolist() == batch.target.tolist() == [[4, 0], [6, 5]]
    assert batch.source.dtype == torch.int64


def test_a_fingerprint_tells_rows_apart():
    """By their ends, on either side, their tags, and which labels count."""
    side, other = Ragged.of([[4], [5, 6]]), Ragged.of([[4, 5], [6]])
    alternatives = [
        PairDataset(side, side),
        PairDataset(other, side),
        PairDataset(side, other),
        PairDataset(side, side, tags=np.array([0, 1])),
        PairDataset(side, side, loss_masks=side),
    ]
    assert len({rows.fingerprint() for rows in alternatives}) == len(alternatives)


def test_a_batch_sorts_rows_by_length():
    """By the longer side, then the source: rows 2 (1, 3), 3 (2, 3), 0 (3, 2), 1 (3, 4)."""
    batches = BucketBatches(dataset(True), size=3, shuffle=False)
    assert list(batches) == [[2, 3, 0], [1]]
    batches.set_epoch(5)
    assert list(batches) == [[2, 3, 0], [1]]


def test_a_pool_of_all_rows_sorts_all_rows():
    """With one pool the batches are the sorted ones, in any order; the longer sides are 7, 5, 3, 11, 5."""
    rows = dataset_with_lengths([(7, 1), (3, 5), (3, 2), (11, 1), (5, 1)])
    assert sorted(BucketBatches(rows, size=2, pool=3)) == [[2, 1], [3], [4, 0]]
    assert list(BucketBatches(rows, size=10**17, pool=50)) == [[2, 1, 4, 0, 3]]


def test_unshuffled_pools_are_sorted_separately():
    """Two pools of two batches of two; the last of three rows."""
    rows = dataset_with_lengths([(length, 1) for length in (7, 3, 11, 5, 3, 13, 2)])
    assert list(BucketBatches(rows, size=2, pool=2, shuffle=False)) == [[1, 3], [0, 2], [6, 4], [5]]


def test_pools_and_batch_order_are_random():
    """Of 202 rows, sorted already: one pool keeps all neighbors together, small pools do not."""
    rows = dataset_with_lengths([(length, length + 1) for length in range(1, 203)])
    neighbors = [[row, row + 1] for row in range(0, 202, 2)]
    one_pool = list(BucketBatches(rows, size=2, pool=101))
    assert one_pool != neighbors
    assert sorted(one_pool) == neighbors
    assert sorted(BucketBatches(rows, size=2, pool=3)) != neighbors


@pytest.mark.parametrize("limit", [{"size": 1}, {"tokens": 1}])
def test_epochs_and_seeds_differ(limit):
    """101 rows, one by one: that two orders agree by chance has odds of 1 in 101!."""
    batches = BucketBatches(alike(101), **limit, seed=3)
    first = list(batches)
    assert list(batches) == first
    assert list(BucketBatches(alike(101), **limit, seed=4)) != first
    batches.set_epoch(1)
    assert list(batches) not in (first, list(BucketBatches(alike(101), **limit, seed=4)))
    batches.set_epoch(0)
    assert list(batches) == first


class Watched(PairDataset):
    """Equal rows that record the number of lengths per call."""

    def __init__(self, count: int) -> None:
        ones = Ragged(np.full(count, 4), np.arange(count + 1))
        super().__init__(ones, ones)
        self.counts: list[int] = []

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        self.counts.append(len(rows))
        return super().lengths(rows)


@pytest.mark.parametrize("start", [3000, 3001])
def test_lengths_are_read_one_pool_at_a_time(start):
    """Neither an epoch of 10007 rows nor what is left of it looks at more than a pool of 5 batches of 3 at once."""
    rows = Watched(10007)
    batches = BucketBatches(rows, size=3, pool=5)
    assert sum(map(len, batches)) == sum(rows.counts) == 10007
    assert max(rows.counts) == 15
    rows.counts.clear()
    batches.resume(epoch=1, start=start)
    next(iter(batches))
    assert rows.counts == [15]


def test_lengths_are_read_one_pool_at_a_time_for_token_batches():
    """Beside the thousand rows that tell how many make a pool; 30 tokens in 5 batches of 6 are 30 rows."""
    rows = Watched(10007)
    batches = BucketBatches(rows, tokens=6, pool=5)
    assert len(batches) == len(list(batches)) == 333 * 5 + 3  # 333 pools of 30 rows, one of 17
    assert max(rows.counts[1:]) == 30


@pytest.mark.parametrize("start", [-1, 9])
def test_a_start_outside_the_epoch_is_refused(start):
    """Eight batches: 8 leaves none of them, 9 is a mistake."""
    batches = BucketBatches(alike(23), size=3)
    batches.resume(0, 8)
    assert list(batches) == []
    with pytest.raises(ValueError, match=f"cannot start at batch {start} of an epoch of 8 batches"):
        batches.resume(0, start)


def test_set_epoch_leaves_a_running_epoch_unchanged():
    """The loader prefetches batches; a running epoch keeps its order."""
    batches = BucketBatches(alike(101), size=1)
    expected = list(batches)
    running = iter(batches)
    batches.set_epoch(1)
    assert list(running) == expected


def test_batches_hold_a_number_of_tokens():
    """Nine at most, padding counted: widths 2 3 3 | 3 | 5 | 11, which is too wide and alone."""
    rows = dataset_with_lengths([(2, 3), (5, 1), (3, 3), (1, 2), (7, 11), (3, 2)])
    batches = BucketBatches(rows, tokens=9, shuffle=False)
    assert list(batches) == [[3, 0, 2], [5], [1], [4]]
    assert len(batches) == 4


def test_token_batches_differ_between_epochs():
    """Other rows of the same length meet, in equal numbers: 30 rows of length 1, 20 of length 3, nine tokens."""
    rows = dataset_with_lengths([(1, 1)] * 30 + [(3, 2)] * 20)
    batches = BucketBatches(rows, tokens=9)
    first = [sorted(batch) for batch in batches]
    batches.set_epoch(1)
    second = [sorted(batch) for batch in batches]
    assert sorted(first) != sorted(second)
    # Three times nine of length 1, the three left of them, six times three of length 3, the two left of them.
    assert sorted(map(len, first)) == sorted(map(len, second)) == [2] + [3] * 7 + [9] * 3


def test_token_pools_are_shuffled():
    """13 rows of lengths 101 to 113, each too long for a batch with another and, with `pool` 1, a pool of its own."""
    batches = BucketBatches(dataset_with_lengths([(length, 1) for length in range(101, 114)]), tokens=113, pool=1)
    first = list(batches)
    batches.set_epoch(1)
    assert sorted(batches) == sorted(first) == [[row] for row in range(13)]
    assert list(batches) != first


@pytest.mark.parametrize(("size", "pool", "seed"), [(0, 50, 0), (3, 0, 0), (3, 50, -1)])
@pytest.mark.parametrize("limit", ["size", "tokens"])
def test_impossible_options_are_refused(limit, size, pool, seed):
    """In one line."""
    with pytest.raises(UserError, match="must be 1 or more"):
        BucketBatches(alike(2), **{limit: size}, seed=seed, pool=pool)


@pytest.mark.parametrize("limits", [{}, {"size": 3, "tokens": 7}])
def test_exactly_one_limit_is_required(limits):
    """Rows or tokens."""
    with pytest.raises(UserError, match="set one of them"):
        BucketBatches(alike(2), **limits)


def test_lightning_finds_set_epoch():
    """Lightning's own function turns the epoch of a loader that holds the batches."""
    data = pytest.importorskip("lightning.fabric.utilities.data")
    batches = BucketBatches(dataset(True), size=3)
    data._set_sampler_epoch(DataLoader(dataset(True), batch_sampler=batches, collate_fn=collate), 7)
    assert batches.epoch == 7
