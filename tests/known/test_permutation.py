"""Computed permutations: each number once, random order, little memory."""

import numpy as np

from attnx.data.permutation import Permutation


def test_each_number_appears_once():
    """Whatever their number, a power of two or not."""
    for count in (*range(68), 1009, 4096, 4097, 100_003):
        order = Permutation(count, seed=(3, 5))
        assert sorted(order(np.arange(count)).tolist()) == list(range(count))


def test_positions_are_computed_independently():
    """Asked one by one, backwards or at once."""
    order = Permutation(101, seed=(3,))
    at_once = order(np.arange(101)).tolist()
    assert [int(order(np.array([place]))[0]) for place in range(101)] == at_once
    assert order(np.arange(101)[::-1]).tolist() == at_once[::-1]


def test_the_input_positions_are_not_modified():
    """They belong to the caller."""
    places = np.arange(13)
    Permutation(13, seed=(3,))(places)
    assert places.tolist() == list(range(13))


def test_seeds_differ():
    """Two orders of 101 numbers agree by chance with odds of 1 in 101!."""
    orders = [Permutation(101, seed)(np.arange(101)).tolist() for seed in ((3, 5), (3, 7), (5, 3))]
    assert orders[0] not in orders[1:]
    assert orders[1] != orders[2]
    assert Permutation(101, (3, 5))(np.arange(101)).tolist() == orders[0]


def test_every_number_is_equally_likely_everywhere():
    """11 numbers, 2200 orders: each number is expected 200 times at each place, give or take 13.5, here times six."""
    result = np.zeros((11, 11))
    for seed in range(2200):
        result[np.arange(11), Permutation(11, (seed,))(np.arange(11))] += 1
    assert abs(result - 200).max() < 6 * 13.5


def test_neighbors_are_separated():
    """A number follows the one before it 1 time an order on average, so 503 times in 503, give or take 22.4."""
    followed = 0
    for seed in range(503):
        followed += int((np.diff(Permutation(101, (seed,))(np.arange(101))) == 1).sum())
    assert abs(followed - 503 * 100 / 101) < 6 * 22.4


def test_a_pool_samples_the_complete_range():
    """Of 100003 numbers, the first 1000 places hold about 100 of each tenth, give or take 9.5."""
    tenths = np.bincount(Permutation(100_003, (3,))(np.arange(1000)) // 10_001, minlength=10)
    assert abs(tenths - 100).max() < 6 * 9.5


def test_a_thousand_million_numbers_take_little_memory():
    """Of 10**9 + 7 numbers the order keeps less than 11 square roots."""
    order = Permutation(10**9 + 7, seed=(3,))
    result = order(np.arange(10**9, 10**9 + 7))
    assert len(set(result.tolist())) == 7
    assert result.min() >= 0
    assert result.max() < 10**9 + 7
    assert len(order.wrapped_rows) + sum(len(amounts) for pair in order.rounds for amounts in pair) < 11 * 31_623
