"""Error rates by hand, of all words and of each tag, over several processes too."""

import pytest
import torch
from torch import nn
from torchmetrics.utilities import dim_zero_sum

from attnx.errors import UserError
from attnx.inference.predictor import metric_results
from attnx.metrics.error_rates import PhoneErrorRate, WordErrorRate
from attnx.metrics.nearest_reference import nearest_reference
from attnx.metrics.per_tag import PerTag

# By hand: right; one substitution of 3; one insertion against the second reference, of 2; all 5 deleted.
PREDICTIONS = [["K", "AE", "T"], ["D", "AO", "T"], ["B", "IY", "IY"], []]
REFERENCES = [
    [["K", "AA"], ["K", "AE", "T"]],
    [["D", "AO", "G"]],
    [["B", "EH", "EH", "D"], ["B", "IY"]],
    [["HH", "AW", "S", "IH", "Z"]],
]
EDITS, LENGTH, WRONG, WORDS = 0 + 1 + 1 + 5, 3 + 3 + 2 + 5, 3, 4


@pytest.mark.parametrize(
    ("prediction", "references", "edits", "choices"),
    [
        ("kitten", ["sitting"], 3, 0),  # two substitutions and an insertion
        ("abc", ["abcd", "abc", "abc"], 0, 1),
        ("abc", ["axc", "ab", "abc."], 1, 0),  # all one edit away: the first
        ("", ["abc", "ab"], 2, 1),
        ("ab", [""], 2, 0),
    ],
)
def test_the_closest_reference_is_chosen(prediction, references, edits, choices):
    """Fewest edits, the first of equals."""
    answers = [list(reference) for reference in references]
    result = nearest_reference(list(prediction), answers)
    assert result == (edits, answers[choices])
    assert result[1] is answers[choices]


def test_a_long_symbol_counts_once():
    """The edit AE -> AA is one substitution; AE is not A and E; tuples do as well as lists."""
    assert nearest_reference(["K", "AE"], [("K", "AA")])[0] == 1
    assert nearest_reference(["AE"], [("A", "E")])[0] == 2


def test_percentages_by_hand():
    """Seven edits over 13 symbols; three wrong words of four."""
    phones, words = PhoneErrorRate(), WordErrorRate()
    assert phones(PREDICTIONS, REFERENCES).item() == pytest.approx(100 * EDITS / LENGTH)
    assert words(PREDICTIONS, REFERENCES).item() == 75.0
    assert phones.compute().item() == pytest.approx(100 * EDITS / LENGTH)
    assert phones.sums.tolist() == [EDITS, LENGTH]
    assert words.sums.tolist() == [WRONG, WORDS]


def test_the_length_is_that_of_the_closest_reference():
    """One edit from ``ab``, two from ``abcde``: 1 of 2 symbols, although the longer one would look better."""
    metric = PhoneErrorRate()
    metric.update([list("abc")], [[list("abcde"), list("ab")]])
    assert metric.compute().item() == 50.0


def test_more_edits_than_symbols():
    """A rate may exceed 100: three insertions, one symbol."""
    metric = PhoneErrorRate()
    metric.update([list("abcd")], [[["a"]]])
    assert metric.compute().item() == 300.0


def test_the_reduction_of_every_state_is_known():
    """The private attribute of torchmetrics that the bootstrap of a test reads."""
    assert PhoneErrorRate()._reductions == {"sums": dim_zero_sum}


@pytest.mark.parametrize("metric", [PhoneErrorRate, WordErrorRate])
def test_invalid_input_is_refused_and_not_counted(metric):
    """A word without references and lists of unlike length are errors, and no half of the batch is kept."""
    instance = metric()
    with pytest.raises(ValueError, match="no reference for the prediction 'K AE'"):
        instance.update([["A"], ["K", "AE"]], [[["B"]], []])
    with pytest.raises(ValueError, match="shorter"):
        instance.update([["A"], ["B"]], [[["A"]]])
    instance.update([["A"]], [[["A"]]])
    assert instance.compute().item() == 0.0


@pytest.mark.parametrize("metric", [PhoneErrorRate, WordErrorRate])
def test_an_empty_update_counts_nothing(metric):
    """A batch of no words is no error, and the rate of no words is NaN."""
    instance = metric()
    instance.update([], [])
    assert torch.isnan(instance.compute())


# "to" is Tongan, and a method of every module; no word of it is seen.
TAGS = ["fre", "ita", "to"]
# By hand: right, of 3; one substitution, of 3; one insertion against the second reference, of 2; all 5 deleted.
BATCH = (
    [["K", "AE", "T"], ["B", "IY", "IY"], ["D", "AO", "T"], []],
    [[["K", "AE", "T"]], [["B", "EH", "EH", "D"], ["B", "IY"]], [["D", "AO", "G"]], [["HH", "AW", "S", "IH", "Z"]]],
    ["fre", "ita", "fre", "ita"],
)
FIRST, SECOND = (tuple(column[:1] for column in BATCH), tuple(column[1:] for column in BATCH))
FRENCH, ITALIAN = 100 * 1 / 6, 100 * 6 / 7


def phones(*batches: tuple[object, ...]) -> PerTag:
    metric = PerTag(PhoneErrorRate, TAGS)
    for batch in batches:
        metric.update(*batch)
    return metric


def numbers(actual: dict[str, torch.Tensor]) -> dict[str, float]:
    return {name: value.item() for name, value in actual.items()}


NAN = float("nan")
BY_HAND = pytest.approx({"macro": NAN, "micro": 100 * 7 / 13, "fre": FRENCH, "ita": ITALIAN, "to": NAN}, nan_ok=True)
TONGAN = ([["A"]], [[["A"]]], ["to"])


def test_phones_by_hand():
    """Tags, their mean, and all words; without a word of each tag there is no mean, and no result of either."""
    assert numbers(phones(BATCH).compute()) == BY_HAND
    assert metric_results("test", nn.ModuleDict({"per": phones(BATCH)})).keys() == {
        "test_per_micro",
        "test_per_fre",
        "test_per_ita",
    }
    scores = phones(BATCH, TONGAN).compute()
    assert list(scores) == ["macro", "micro", *TAGS]
    macro = (FRENCH + ITALIAN + 0) / 3
    by_hand = {"macro": macro, "micro": 100 * 7 / 14, "fre": FRENCH, "ita": ITALIAN, "to": 0}
    assert numbers(scores) == pytest.approx(by_hand)


def test_words_by_hand():
    """One wrong of two, two wrong of two, and a right one: the mean of three tags is not the rate of five words."""
    metric = PerTag(WordErrorRate, TAGS)
    metric.update(*BATCH)
    metric.update(*TONGAN)
    assert numbers(metric.compute()) == {"macro": 50.0, "micro": 60.0, "fre": 50.0, "ita": 100.0, "to": 0.0}


def test_two_processes_give_the_same_scores():
    """Each has words that the other lacks; torchmetrics gathers counts, so both compute what one would alone."""
    first, second = phones(FIRST), phones(SECOND)
    for part, peer in zip([*first.metrics, first.examples], [*second.metrics, second.examples], strict=True):
        peer_states = iter([getattr(peer, name) for name in part._reductions])
        part.dist_sync_fn = lambda state, group, reference=peer_states: [state, next(reference)]
        part.distributed_available_fn = lambda: True
    assert numbers(first.compute()) == BY_HAND
    assert first.metrics[0].sums[1].item() == 3  # what was gathered does not stay
    assert first.examples.sums.tolist() == [1, 0, 0]


def test_invalid_input_of_a_tag_is_refused_and_not_counted():
    metric = phones()
    with pytest.raises(ValueError, match="the tag 'rum' is not one of fre, ita, to"):
        metric.update([["A"], ["B"]], [[["B"]], [["A"]]], ["fre", "rum"])
    with pytest.raises(ValueError, match="shorter"):
        metric.update([["B"], ["B"]], [[["A"]], [["A"]]], ["fre"])
    with pytest.raises(ValueError, match="no reference"):
        metric.update([["A"], ["B"]], [[["B"]], []], ["fre", "ita"])
    metric.update([["A"]], [[["A"]]], ["fre"])
    scores = numbers(metric.compute())
    assert scores == pytest.approx({"macro": NAN, "micro": 0.0, "fre": 0.0, "ita": NAN, "to": NAN}, nan_ok=True)


def test_an_empty_update_counts_nothing_of_any_tag():
    """Batches of no words are no error; of no words no tag is measured, and the rate of all of them is NaN."""
    scores = numbers(phones(([], [], [])).compute())
    assert scores == pytest.approx(dict.fromkeys(["macro", "micro", *TAGS], NAN), nan_ok=True)


@pytest.mark.parametrize("name", ["macro", "micro"])
def test_names_of_means_are_refused_as_tags(name):
    with pytest.raises(UserError, match=f"'{name}' cannot be the name of a language"):
        PerTag(PhoneErrorRate, ["fre", name])
