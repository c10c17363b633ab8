"""Measures per tag, by hand and over several processes."""

import pytest
import torch
from torch import nn

from attnx.errors import UserError
from attnx.inference.predictor import metric_results
from attnx.metrics.error_rates import PhoneErrorRate, WordErrorRate
from attnx.metrics.per_tag import PerTag

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


def test_invalid_input_is_refused_and_not_counted():
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


def test_an_empty_update_counts_nothing():
    """Batches of no words are no error; of no words no tag is measured, and the rate of all of them is NaN."""
    scores = numbers(phones(([], [], [])).compute())
    assert scores == pytest.approx(dict.fromkeys(["macro", "micro", *TAGS], NAN), nan_ok=True)


@pytest.mark.parametrize("name", ["macro", "micro"])
def test_names_of_means_are_refused_as_tags(name):
    with pytest.raises(UserError, match=f"'{name}' cannot be the name of a language"):
        PerTag(PhoneErrorRate, ["fre", name])
