"""Samples of examples: nested, stratified by tag, and drawn by content instead of position."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnx.data.examples import Pair
from attnx.data.readers.cmudict import read_cmudict
from attnx.data.sample import sample_examples
from attnx.data.splits import split_by_hash
from attnx.problems.forecasting.forecasting import Forecasting
from tests.readings import READINGS, read_variously

WORDS = st.text("abeé", max_size=3)
PAIRS = st.builds(
    lambda source, references, tag: Pair(tuple(source), tuple(map(tuple, references)), tag),
    WORDS,
    st.lists(WORDS, min_size=1, max_size=2),
    st.sampled_from(["", "fre", "ita", "rum"]),
)
SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=7)


def words(count: int, tag: str = "") -> list[Pair]:
    """In alphabetical order."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return [
        Pair((letters[n // 676 % 26], letters[n // 26 % 26], letters[n % 26]), (("A",),), tag) for n in range(count)
    ]


def words_of(pairs: Sequence[Pair]) -> list[str]:
    return ["".join(pair.source) for pair in pairs]


@given(st.lists(PAIRS, max_size=30), st.integers(0, 30), st.randoms(use_true_random=False))
def test_the_order_of_the_data_does_not_matter(pairs, count, chance):
    """Nor that of references; what is drawn keeps the data's order."""
    shuffled = [pair._replace(references=pair.references[::-1]) for pair in chance.sample(pairs, len(pairs))]
    drawn, again = sample_examples(pairs, count), sample_examples(shuffled, count)
    alike = [
        Counter(pair._replace(references=tuple(sorted(pair.references))) for pair in item) for item in (drawn, again)
    ]
    assert alike[0] == alike[1]
    assert len(drawn) == min(count, len(pairs))
    iterator = iter(pairs)
    assert all(any(pair == second for second in iterator) for pair in drawn)


@given(st.lists(PAIRS, max_size=30), st.integers(0, 30), st.integers(0, 30))
def test_a_sample_is_part_of_a_larger_one(pairs, smaller, larger):
    small, large = (Counter(sample_examples(pairs, count)) for count in sorted((smaller, larger)))
    assert small <= large


def counts_by_tag(sizes: list[int], count: int) -> list[int]:
    pairs = [pair for tag, size in enumerate(sizes) for pair in words(size, f"tag {tag}")]
    counts = Counter(pair.tag for pair in sample_examples(pairs, count))
    return [counts[f"tag {tag}"] for tag in range(len(sizes))]


@given(SIZES, st.integers(0, 400))
def test_a_larger_tag_has_no_smaller_share_of_the_sample(sizes, count):
    """And each has one as soon as there are as many as tags."""
    count = min(count, sum(sizes))
    result = counts_by_tag(sizes, count)
    assert sum(result) == count
    shares = list(zip(sizes, result, strict=True))
    assert all(drawn <= more for size, drawn in shares for larger, more in shares if size < larger)
    if count >= len(sizes):
        assert min(result) >= 1


def test_shares_by_hand():
    assert [counts_by_tag([6, 6, 2], count) for count in (2, 3, 4, 7, 10, 14)] == [
        [1, 1, 0],
        [1, 1, 1],
        [2, 1, 1],
        [3, 3, 1],
        [5, 4, 1],
        [6, 6, 2],
    ]


def test_numbers_are_spread_evenly():
    """Of words in alphabetical order every tenth of the list is drawn alike: chi-squared of 1,000 in 10 bins."""
    from scipy.stats import chisquare

    pairs = words(10_000)
    places = {word: place for place, word in enumerate(words_of(pairs))}
    drawn = [places[word] for word in words_of(sample_examples(pairs, 1000))]
    assert chisquare(np.bincount(np.array(drawn) // 1000, minlength=10)).pvalue > 0.01


def test_tokenization_does_not_change_the_sample():
    """The same words are drawn with a symbol for the language, with other references, in other Unicode forms."""
    plain = [Pair(tuple(f"é{word}"), (("A",),), "fre") for word in words_of(words(100))]
    variants = {
        "a symbol before": [pair._replace(source=("<tag:fre>", *pair.source)) for pair in plain],
        "decomposed": [pair._replace(source=("e", "\u0301", *pair.source[1:])) for pair in plain],
        "in pieces": [pair._replace(source=("".join(pair.source[:2]), *pair.source[2:])) for pair in plain],
        "with stress": [pair._replace(references=(("A1",),)) for pair in plain],
        "without a tag": [pair._replace(tag="") for pair in plain],
    }
    drawn = [plain.index(pair) for pair in sample_examples(plain, 10)]
    for how, pairs in variants.items():
        assert [pairs.index(pair) for pair in sample_examples(pairs, 10)] == drawn, how
    texts = [pair._replace(texts=(f"Text {number}",)) for number, pair in enumerate(plain)]
    cut = [pair._replace(source=("x",), references=(("y",),), texts=(pair.texts[0].lower(),)) for pair in texts]
    assert [pair.texts[0].lower() for pair in sample_examples(texts, 10)] == [
        pair.texts[0] for pair in sample_examples(cut, 10)
    ]


@pytest.mark.parametrize("name", READINGS)
def test_options_of_a_task_do_not_change_the_sample(name, tmp_path):
    """Nor how a task cuts its sources: the same lines are drawn, also of those with equal answers."""
    drawn = [
        [index for index, pair in enumerate(pairs) if pair in sample_examples(pairs, 9)]
        for pairs in read_variously(name, tmp_path)
    ]
    assert len(drawn[0]) == 9
    assert all(lines == drawn[0] for lines in drawn)


def test_matrices_are_distinguished_by_content():
    """Without a name by their numbers, wherever they stand; with one by that."""
    chance = np.random.default_rng(3)
    pairs = [Pair(("1", "2"), (("1",),), features=chance.random((2, 1), np.float32)) for _ in range(40)]
    drawn = {pair.features.tobytes() for pair in sample_examples(pairs, 7) if pair.features is not None}
    assert len(drawn) == 7
    again = sample_examples(pairs[::-1], 7)
    assert {pair.features.tobytes() for pair in again if pair.features is not None} == drawn
    with_names = [pair._replace(name=f"file {number}") for number, pair in enumerate(pairs)]
    scaled = [pair._replace(features=pair.features * 2) for pair in with_names if pair.features is not None]
    names = [pair.name for pair in sample_examples(with_names, 7)]
    assert names == [pair.name for pair in sample_examples(scaled, 7)]


def test_the_sample_covers_the_complete_dictionary():
    """The first 500 validation words begin with a or b; a sample has most letters, in the same order."""
    valid = words_of(split_by_hash(read_cmudict(), lambda pair: pair.source_text, valid=0.05, test=0.1).valid)
    drawn = words_of(sample_examples([Pair(tuple(word), (("A",),)) for word in valid], 500))
    assert {word[0] for word in valid[:500]} <= set("'ab")
    assert len({word[0] for word in drawn}) > 20
    assert drawn == sorted(drawn, key=valid.index)


def test_windows_are_sampled_from_the_complete_part(tmp_path):
    """In order of time; windows that forecast the same steps are drawn alike, however far they look back."""
    file = tmp_path / "series.csv"
    file.write_text("time,load\n" + "".join(f"{step},{step % 7}\n" for step in range(400)), encoding="utf-8")
    drawn = []
    for lookback in (8, 16):
        pairs = (
            Forecasting(str(file), time_column="time", lookback=lookback, horizon=2, split=[100, 150, 150]).load().pairs
        )
        assert len(pairs.test) == 149
        drawn.append([int(pair.references[0][0]) for pair in sample_examples(pairs.test, 30)])
    assert drawn[0] == drawn[1] == sorted(drawn[0])
    assert min(np.histogram(drawn[0], bins=3, range=(250, 400))[0]) >= 5
