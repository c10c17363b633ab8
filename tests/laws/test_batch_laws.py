"""Laws of batching: every row once an epoch, batches depend on seed and epoch only, nothing is lost."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attnx.data.batches import collate
from attnx.data.buckets import BucketBatches
from attnx.data.dataset import PairDataset, Ragged
from attnx.data.examples import Pair
from attnx.data.vocabulary import BOS, Vocabulary

patient = settings(deadline=None)  # a slow machine is no bug


def dataset_with_lengths(rows: list[tuple[int, int]]) -> PairDataset:
    """Rows of these source and target lengths."""
    table = np.array(rows, dtype=np.int64).reshape(-1, 2)
    return PairDataset(*(Ragged(np.full(side.sum(), 4), np.append(0, np.cumsum(side))) for side in table.T))


rows = st.lists(st.tuples(st.integers(1, 13), st.integers(1, 17)), max_size=67).map(dataset_with_lengths)
sizes = st.integers(1, 11)
numbers = st.integers(0, 2**31)
limits = st.one_of(
    st.fixed_dictionaries({"size": sizes, "pool": sizes}),
    st.fixed_dictionaries({"tokens": st.integers(1, 67), "pool": sizes}),
)
symbols = st.lists(st.sampled_from("abcde"), min_size=1, max_size=7).map(tuple)
pairs = st.lists(
    st.tuples(symbols, st.lists(symbols, min_size=1, max_size=3).map(tuple)).map(lambda sides: Pair(*sides)),
    min_size=1,
    max_size=13,
)


@patient
@given(rows, limits, numbers, numbers, st.booleans())
def test_every_row_appears_once(rows, limit, seed, epoch, shuffle):
    """An epoch is a permutation of the rows, in as many batches as ``len`` tells."""
    batches = BucketBatches(rows, **limit, seed=seed, shuffle=shuffle)
    batches.set_epoch(epoch)
    result = list(batches)
    assert sorted(row for batch in result for row in batch) == list(range(len(rows)))
    assert len(result) == len(batches)
    assert all(type(row) is int for batch in result for row in batch)


@patient
@given(rows, limits, numbers)
def test_batches_are_full(rows, limit, seed):
    """All but one have ``size`` rows; or none holds more than ``tokens``, unless it is a single row."""
    result = list(BucketBatches(rows, **limit, seed=seed))
    assert all(result)
    if "size" in limit:
        assert sum(len(batch) < limit["size"] for batch in result) <= 1
    else:
        lengths = rows.lengths(np.arange(len(rows)))
        assert all(len(batch) == 1 or len(batch) * lengths[batch].max() <= limit["tokens"] for batch in result)


@patient
@given(rows, limits, numbers, numbers, st.data())
def test_a_batch_depends_on_seed_and_epoch_only(rows, limit, seed, epoch, data):
    """Whatever ran before and wherever the epoch is entered, batch k is the same, and so is their number."""
    fresh, used = (BucketBatches(rows, **limit, seed=seed) for _ in range(2))
    fresh.set_epoch(epoch)
    expected = list(fresh)
    list(used)
    start = data.draw(st.integers(0, len(used)))
    used.resume(epoch, start)
    assert list(used) == expected[start:]
    assert len(used) == len(fresh) == len(expected)
    used.set_epoch(epoch + 1)
    assert len(list(used)) == len(used)  # the next epoch begins at its start


@patient
@given(rows, limits, numbers)
def test_batches_are_sorted_and_sorting_all_rows_pads_least(rows, limit, seed):
    """Within a batch rows come sorted by the longer side, and sorting all rows pads that side least of all."""
    widths = rows.lengths(np.arange(len(rows))).max(1)

    def padded_size(batches: BucketBatches) -> int:
        return sum(len(batch) * int(widths[batch].max()) for batch in batches)

    shuffled = BucketBatches(rows, **limit, seed=seed)
    for batch in shuffled:
        assert widths[batch].tolist() == sorted(widths[batch].tolist())
    if "size" in limit and len(rows) % limit["size"] == 0:
        everything = {"size": limit["size"], "pool": len(rows) + 1}
        assert padded_size(BucketBatches(rows, **everything, shuffle=False)) <= padded_size(shuffled)


@patient
@given(pairs)
def test_a_batch_contains_its_pairs_unchanged(pairs):
    """Decoding a batch gives back every pair and every reference, in order."""
    letters = Vocabulary.of(pair.source for pair in pairs)
    phones = Vocabulary.of(reference for pair in pairs for reference in pair.references)
    data = PairDataset.from_pairs(pairs, letters, phones, every_reference=True)
    batch = collate([data[row] for row in range(len(data))])
    expected = [(pair.source, reference) for pair in pairs for reference in pair.references]
    actual = [
        (tuple(letters.decode(source)), tuple(phones.decode(target)))
        for source, target in zip(batch.source.tolist(), batch.target.tolist(), strict=True)
    ]
    assert actual == expected
    assert batch.row_index.tolist() == list(range(len(expected)))
    assert batch.source_mask.sum(1).tolist() == [len(source) for source, _ in expected]
    assert batch.source.shape[1] == max(len(source) for source, _ in expected)
    assert batch.target.shape[1] == 1 + max(len(reference) for _, reference in expected)
    assert not (batch.target == BOS).any()
