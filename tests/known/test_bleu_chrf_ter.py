"""BLEU, chrF and TER: by hand, equal to sacreBLEU, with sums that merge."""

import copy
import math
import sys
from typing import Any

import pytest
import sacrebleu
import torch

from attnx.errors import UserError
from attnx.metrics.per_tag import PerTag
from attnx.registry import build

NAMES = ("bleu", "chrf", "ter")
OUTPUTS = [
    "A man in a blue shirt is standing on a ladder.",
    "the dog , the dog runs",
    "",
    "Zwei Männer stehen am Herd und kochen!",
    "sits a girl on the bench in the park",
    "?",
]
REFERENCES = [
    ["A man in a blue shirt is standing on a ladder cleaning a window."],
    ["The dog runs, the other dog sleeps.", "Two dogs run.", "the dog runs and runs"],
    ["Nothing was written."],
    ["Zwei Männer stehen am Herd und bereiten Essen zu.", "Zwei Männer kochen am Herd."],
    ["a girl sits on the bench in the park"],
    ["What?", "?"],
]
# The same with a third column of nothing, as sacreBLEU takes unlike numbers of references.
STREAMS = [[listed[place] if place < len(listed) else None for listed in REFERENCES] for place in range(3)]
# sacreBLEU's own metrics; our TER is case-sensitive by default, as BLEU and chrF are.
SACREBLEU = {
    ("bleu", False): sacrebleu.BLEU(),
    ("bleu", True): sacrebleu.BLEU(lowercase=True),
    ("chrf", False): sacrebleu.CHRF(),
    ("chrf", True): sacrebleu.CHRF(lowercase=True),
    ("ter", False): sacrebleu.TER(case_sensitive=True),
    ("ter", True): sacrebleu.TER(case_sensitive=False),
}
every_metric = pytest.mark.parametrize("name", NAMES)


def count_segments(
    name: str, outputs: list[str] = OUTPUTS, references: list[list[str]] = REFERENCES, **options: Any
) -> Any:
    metric = build("metric", (name, options))
    metric.update(outputs, references)
    return metric


def test_bleu_by_hand():
    """6 words against 7: n-grams 5/6, 4/5, 3/4, 2/3 match, and it is too short by exp(1 - 7/6)."""
    metric = count_segments("bleu", ["a b c d e x"], [["a b c d e f g"]])
    precisions = (5 / 6) * (4 / 5) * (3 / 4) * (2 / 3)
    assert metric.compute().item() == pytest.approx(100 * math.exp(1 - 7 / 6) * precisions**0.25, rel=1e-6)


def test_bleu_is_a_corpus_score():
    """Counts are summed before they are divided: 2 of 3 and 4 of 4 words, 1 of 2 and 3 of 3 pairs, and so on."""
    metric = count_segments("bleu", ["a b x", "a b c d"], [["a b c"], ["a b c d"]])
    precisions = (6 / 7) * (4 / 5) * (2 / 3) * (1 / 1)
    assert metric.compute().item() == pytest.approx(100 * precisions**0.25, rel=1e-6)


def test_chrf_by_hand():
    """Output ab, reference abc: 2/2 and 1/1 of the output's runs match, 2/3, 1/2 and 0/1 of the reference's.

    Orders that one side lacks (3 and up) are left out of both means.
    """
    precision, recall = 1.0, (2 / 3 + 1 / 2) / 2
    expected = 100 * 5 * precision * recall / (4 * precision + recall)
    assert count_segments("chrf", ["a b"], [["abc"]]).compute().item() == pytest.approx(expected, rel=1e-6)


def test_ter_by_hand():
    """One word wrong of three, two words put in; of two references the closer, over their mean length."""
    assert count_segments("ter", ["a b x"], [["a b c"]]).compute().item() == pytest.approx(100 / 3, rel=1e-6)
    assert count_segments("ter", ["a b c d e"], [["a b c"]]).compute().item() == pytest.approx(200 / 3, rel=1e-6)
    assert count_segments("ter", ["a b x"], [["a b c d e", "a b"]]).compute().item() == pytest.approx(
        100 / 3.5, rel=1e-6
    )


@pytest.mark.parametrize("lower", [False, True])
@every_metric
def test_equal_to_sacrebleu(name, lower):
    """In one call or segment by segment, with one reference or several, in score and signature."""
    reference = SACREBLEU[name, lower]
    expected, signature = reference.corpus_score(OUTPUTS, STREAMS).score, reference.get_signature().format()
    metric = count_segments(name, lower=lower)
    assert metric.compute().item() == pytest.approx(expected, rel=1e-6)
    assert metric.signature == signature
    assert "nrefs:var" in signature
    slowly = build("metric", (name, {"lower": lower}))
    for output, listed in zip(OUTPUTS, REFERENCES, strict=True):
        slowly.update([output], [listed])
    assert torch.equal(slowly.sums, metric.sums)

    firsts = [listed[:1] for listed in REFERENCES]
    expected = reference.corpus_score(OUTPUTS, [[first for (first,) in firsts]]).score
    single = count_segments(name, references=firsts, lower=lower)
    assert single.compute().item() == pytest.approx(expected, rel=1e-6)
    assert single.signature == reference.get_signature().format()


@every_metric
def test_case_counts_by_default(name):
    worst = {"bleu": 0.0, "chrf": 0.0, "ter": 100.0}[name]
    best = {"bleu": 100.0, "chrf": 100.0, "ter": 0.0}[name]
    upper, lower = ["A B C D E F"], [["a b c d e f"]]
    assert count_segments(name, upper, lower).compute().item() == worst
    assert count_segments(name, upper, lower, lower=True).compute().item() == pytest.approx(best)


@every_metric
def test_different_reference_counts_are_reported_after_merging(name):
    """Two in one process, one in the other; each alone has a fixed number."""
    first, two = count_segments(name, ["a"], [["a"]]), count_segments(name, ["a"], [["a", "b"]])
    for metric, number in ((first, 1), (two, 2)):
        copied = copy.deepcopy(metric)
        copied.compute()
        assert f"nrefs:{number}|" in copied.signature
    two.merge_state(first)
    two.compute()
    assert "nrefs:var|" in two.signature


@every_metric
def test_an_empty_update_counts_nothing(name):
    """A batch without segments is no error, and a score of none is NaN; nor is its number of references known."""
    instance = count_segments(name, [], [])
    assert torch.isnan(instance.compute())
    assert "nrefs" not in instance.signature
    assert instance.signature.startswith("case:mixed|")
    assert instance.signature.endswith(f"|version:{sacrebleu.__version__}")


@every_metric
def test_invalid_input_is_refused_and_not_counted(name):
    instance = build("metric", name)
    with pytest.raises(ValueError, match="no reference"):
        instance.update(["a", "b"], [["a"], []])
    with pytest.raises(ValueError, match="shorter"):
        instance.update(["a", "b"], [["a"]])
    assert not instance.sums.any()


@every_metric
def test_each_language_has_its_own_score(name):
    """Apart, their mean, and all together, each as if it were measured alone."""
    tags = ["de", "en", "en", "de", "en", "en"]
    metric = build("metric", "per_tag", make_metric=lambda: build("metric", name), tags=["de", "en"])
    assert isinstance(metric, PerTag)
    metric.update(OUTPUTS, REFERENCES, tags)
    scores = {entry: value.item() for entry, value in metric.compute().items()}
    for tag in ("de", "en"):
        selected = [row for row, item in enumerate(tags) if item == tag]
        alone = count_segments(name, [OUTPUTS[row] for row in selected], [REFERENCES[row] for row in selected])
        assert scores[tag] == alone.compute().item()
    assert scores["macro"] == pytest.approx((scores["de"] + scores["en"]) / 2)
    assert scores["micro"] == count_segments(name).compute().item()


@every_metric
def test_a_missing_sacrebleu_is_reported(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(
        UserError,
        match=r"needs sacrebleu, which is not installed: .*pip install -c constraints.txt -e '\.\[translation\]'",
    ):
        build("metric", name)
