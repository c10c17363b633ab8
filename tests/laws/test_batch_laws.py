"""Laws of batching: every row once an epoch, batches that depend on seed and epoch alone, nothing lost."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attnx.data.batches import BucketBatches, Numbers, PairDataset, collate
from attnx.data.pairs import Pair
from attnx.data.vocabulary import BOS, Vocabulary

patient = settings(deadline=None)  # a slow machine is no bug
lengths = st.lists(st.tuples(st.integers(1, 13), st.integers(1, 17)), max_size=67).map(
    lambda rows: np.array(rows, dtype=np.int64).reshape(-1, 2)
)
sizes = st.integers(1, 11)
numbers = st.integers(0, 2**31)
symbols = st.lists(st.sampled_from("abcde"), min_size=1, max_size=7).map(tuple)
pairs = st.lists(
    st.builds(Pair, symbols, st.lists(symbols, min_size=1, max_size=3).map(tuple)), min_size=1, max_size=13
)


@patient
@given(lengths, sizes, sizes, numbers, numbers, st.booleans())
def test_every_row_once(lengths: Numbers, size: int, pool: int, seed: int, epoch: int, shuffle: bool) -> None:
    """An epoch is a permutation of the rows in full batches, all but one, and as many as ``len`` tells."""
    batches = BucketBatches(lengths, size, seed, shuffle, pool)
    batches.set_epoch(epoch)
    found = list(batches)
    assert sorted(row for batch in found for row in batch) == list(range(len(lengths)))
    assert len(found) == len(batches)
    assert sum(len(batch) < size for batch in found) <= 1
    assert all(type(row) is int for batch in found for row in batch)


@patient
@given(lengths, sizes, numbers, numbers, st.data())
def test_a_batch_depends_on_seed_and_epoch_alone(
    lengths: Numbers, size: int, seed: int, epoch: int, data: st.DataObject
) -> None:
    """Whatever ran before and wherever the epoch is entered, batch k is the same."""
    fresh, used = (BucketBatches(lengths, size, seed, pool=2) for _ in range(2))
    fresh.set_epoch(epoch)
    list(used)
    start = data.draw(st.integers(0, len(used)))
    used.resume(epoch, start)
    assert list(used) == list(fresh)[start:]
    assert len(used) == len(fresh)


@patient
@given(lengths, sizes, sizes, numbers)
def test_batches_are_sorted_and_sorting_all_rows_pads_least(lengths: Numbers, size: int, pool: int, seed: int) -> None:
    """Within a batch rows come sorted, and sorted batches pad the sources least of all."""

    def width(batches: BucketBatches) -> int:
        return sum(len(batch) * int(lengths[batch, 0].max()) for batch in batches)

    shuffled = BucketBatches(lengths, size, seed, pool=pool)
    for batch in shuffled:
        assert lengths[batch].tolist() == sorted(lengths[batch].tolist())
    if len(lengths) % size == 0:
        assert width(BucketBatches(lengths, size, shuffle=False)) <= width(shuffled)


@patient
@given(pairs)
def test_nothing_is_lost_on_the_way_into_a_batch(pairs: list[Pair]) -> None:
    """Decoding a batch gives back every pair and every reference, in order."""
    letters = Vocabulary.of(pair.source for pair in pairs)
    phones = Vocabulary.of(reference for pair in pairs for reference in pair.references)
    data = PairDataset.from_pairs(pairs, letters, phones, every_reference=True)
    batch = collate([data[row] for row in range(len(data))])
    expected = [(i, pair.source, reference) for i, pair in enumerate(pairs) for reference in pair.references]
    found = [
        (data.pair_of[row], tuple(letters.decode(source)), tuple(phones.decode(target)))
        for row, source, target in zip(batch.index.tolist(), batch.source.tolist(), batch.target.tolist(), strict=True)
    ]
    assert found == expected
    assert batch.present.sum(1).tolist() == [len(source) for _, source, _ in expected]
    assert batch.source.shape[1] == max(len(source) for _, source, _ in expected)
    assert not (batch.target == BOS).any()
