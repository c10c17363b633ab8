"""The laws of every kind, for every registered part and variant."""

from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torchmetrics import Metric

from attnx import registry
from attnx.laws.attention import AttentionLaws
from attnx.laws.candidate import Candidate, LawSkipped, variants
from attnx.laws.check import CLASSES, kind_laws, law_failure
from attnx.laws.metric import MetricLaws
from attnx.laws.model import ModelLaws
from attnx.laws.violation import Violation
from attnx.registry.part import CHECKED_KINDS
from tests.conftest import choice_name
from tests.conftest import variants as attention_variants

KINDS = ("encoder", "decoder", "readout", "output", "decoding", "metric", "bias", "mixer")
SMALL: dict[tuple[str, str], dict[str, Any]] = {
    ("encoder", "pyramid"): {"hidden_size": 11, "layers": 3},
    **{("encoder", name): {"hidden_size": 11} for name in ("recurrent", "hierarchical", "co_attention")},
}
CANDIDATES = [
    *(
        Candidate(kind, *choice)
        for kind in ("scorer", "scope", "normalizer", "query")
        for choice in attention_variants(kind)
    ),
    *(
        variant
        for kind in KINDS
        for name in registry.names(kind)
        for variant in variants(Candidate(kind, name, SMALL.get((kind, name), {})))
    ),
]


@pytest.mark.parametrize(
    "candidate", CANDIDATES, ids=lambda item: f"{item.kind}-{choice_name((item.name, dict(item.options)))}"
)
def test_a_part_obeys_the_laws_of_its_kind(candidate):
    failures = []
    for law in kind_laws(candidate.kind):
        if law.laws not in (AttentionLaws, ModelLaws):  # tests of attention and schedules compose these with all others
            with suppress(LawSkipped):
                failures.append(law_failure(law, candidate))
    assert not any(failures), failures


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if any(law.laws is ModelLaws for law in kind_laws(kind))])
def test_a_part_stands_in_a_model_or_its_laws_there_are_skipped(kind):
    for candidate in CANDIDATES:
        if candidate.kind == kind:
            with suppress(LawSkipped):
                assert [*ModelLaws.cases(candidate)], candidate


def test_the_kinds_that_are_checked_have_laws():
    assert {*CLASSES} == {*CHECKED_KINDS}


@pytest.mark.parametrize("kind", CLASSES)
def test_a_law_has_a_docstring(kind):
    """It has a name of its own among those of its kind, and a statement."""
    laws = kind_laws(kind)
    assert len({law.name for law in laws}) == len(laws)
    assert all(law.statement for law in laws)
    assert set(kind_laws(kind, quick=True)) <= set(laws)


class Count(Metric):
    """The number of examples."""

    def __init__(self, reduction: str) -> None:
        super().__init__()
        self.add_state("examples", torch.tensor(0.0), dist_reduce_fx=reduction)

    def update(self, predictions: Any, references: Any) -> None:
        self.examples += len(predictions)

    def compute(self) -> Tensor:
        return self.examples


@pytest.mark.parametrize(("reduction", "is_lawful"), [("sum", True), ("mean", False), ("max", False)])
def test_states_that_processes_merge_wrongly_break_a_law(reduction, is_lawful, monkeypatch):
    laws = MetricLaws(Candidate("metric", "word_error_rate"))
    monkeypatch.setattr(laws, "_build", lambda: Count(reduction))
    laws.batching_has_no_effect()
    with nullcontext() if is_lawful else pytest.raises(Violation, match="merged it computes"):
        laws.states_are_merged()


def test_missing_hypotheses_are_in_order():
    """A beam that finds fewer than it is asked for gives the others a score of -inf."""
    options = {"beam_size": 20, "nbest": 20, "max_length_ratio": 0.1, "max_length_extra": 0}
    (law,) = (law for law in kind_laws("decoding") if law.method == "shapes")
    assert law_failure(law, Candidate("decoding", "beam", options)) == ""


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_task_of_numbers_obeys_its_laws(side, tmp_path, monkeypatch):
    """Also what it restores, and what its metrics are given."""
    monkeypatch.chdir(tmp_path)
    for number in range(40):
        np.save(f"{number}.npy", np.arange(2.0 * (2 + number % 3)).reshape(-1, 2) + number)
    row = "{0}.npy\ta b" if side == "source" else "a{0}\t{0}.npy"
    Path("table.tsv").write_text("\n".join(map(row.format, range(40))), encoding="utf-8")
    task = Candidate("task", "sequences", {"train": "table.tsv", "holdout": 0.2, side: "features"})
    assert [law_failure(law, task) for law in kind_laws("task")] == [""] * len(kind_laws("task"))
