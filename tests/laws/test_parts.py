"""The laws of every kind, for every registered part and variant."""

from __future__ import annotations

from typing import Any

import pytest

from attnx import registry
from attnx.laws.candidate import Candidate, LawSkipped
from attnx.laws.check import MODULES, kind_laws, law_failure, law_name, statement
from attnx.laws.variants import variants

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
)
CASES = [
    pytest.param(law, Candidate(kind, name), id=f"{kind}-{name}-{law.__name__}")
    for kind in KINDS
    for law in kind_laws(kind)
    if not law.__module__.endswith(".model")  # tests of schedules compose these with everything
    for name in registry.names(kind)
]


@pytest.mark.parametrize(("law", "candidate"), CASES)
def test_a_part_obeys_the_laws_of_its_kind(law: Any, candidate: Candidate) -> None:
    for variant in variants(candidate):
        try:
            assert law_failure(law, variant) == ""
        except LawSkipped as reason:
            pytest.skip(str(reason))


@pytest.mark.parametrize("kind", MODULES)
def test_a_law_has_a_docstring(kind: str) -> None:
    """It has a name of its own among those of its kind, and a statement."""
    laws = kind_laws(kind)
    assert len({law_name(law) for law in laws}) == len(laws)
    assert all(statement(law) for law in laws)
    assert set(kind_laws(kind, quick=True)) <= set(laws)
