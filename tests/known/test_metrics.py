"""Error rates by hand, and sums that can be merged."""

import pytest
import torch
from torchmetrics.utilities import dim_zero_sum

from attnx.metrics.error_rates import PhoneErrorRate, WordErrorRate
from attnx.metrics.nearest_reference import nearest_reference

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
