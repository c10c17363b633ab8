"""The laws of every kind, for every registered part and variant."""

from __future__ import annotations

import pytest

from attnx import registry
from attnx.laws.candidate import Candidate, LawSkipped, variants
from attnx.laws.check import CLASSES, kind_laws, law_failure
from attnx.laws.laws import Law
from attnx.laws.model import ModelLaws

KINDS = (
    "encoder",
    "decoder",
    "readout",
    "output",
    "decoding",
    "metric",
    "tokenizer",
    "optimizer",
    "lr_schedule",
    "kernel",
    "bias",
)
CASES = [
    pytest.param(law, Candidate(kind, name), id=f"{kind}-{name}-{law.method}")
    for kind in KINDS
    for law in kind_laws(kind)
    if law.laws is not ModelLaws  # tests of schedules compose these with everything
    for name in registry.names(kind)
]


@pytest.mark.parametrize(("law", "candidate"), CASES)
def test_a_part_obeys_the_laws_of_its_kind(law: Law, candidate: Candidate) -> None:
    for variant in variants(candidate):
        try:
            assert law_failure(law, variant) == ""
        except LawSkipped as reason:
            pytest.skip(str(reason))


@pytest.mark.parametrize("kind", CLASSES)
def test_a_law_has_a_docstring(kind: str) -> None:
    """It has a name of its own among those of its kind, and a statement."""
    laws = kind_laws(kind)
    assert len({law.name for law in laws}) == len(laws)
    assert all(law.statement for law in laws)
    assert set(kind_laws(kind, quick=True)) <= set(laws)
