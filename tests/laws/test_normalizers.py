"""Laws of every normalizer."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attnx import registry
from attnx.attention.normalizers.reinforced import Reinforced
from attnx.attention.types import SampledWeights
from attnx.laws.candidate import Candidate
from attnx.laws.check import law_failure
from attnx.laws.sampled_normalizer import SampledNormalizerLaws

pytestmark = pytest.mark.usefixtures("float64")


def test_every_normalizer_of_the_core_has_a_temperature():
    """So that the law of it is tried."""
    for part in (registry.describe("normalizer", name) for name in registry.names("normalizer")):
        assert part.origin != "core" or "temperature" in [option.name for option in part.options]


WRONG: dict[str, tuple[Any, str]] = {
    "the mean": (lambda read: read._replace(weights=read.weights.clamp(min=0.1)), "another share than 0 or 1"),
    "another position": (lambda read: read._replace(weights=read.weights.roll(1, -1)), "a masked position"),
    "a score": (lambda read: read._replace(log_prob=read.log_prob + 0.7), "has a log-probability"),
    "half of it": (lambda read: read._replace(log_prob=0.5 * read.log_prob), "the probabilities sum to"),
    "no query axis": (lambda read: read._replace(log_prob=read.log_prob.sum()), "shape"),
    "infinity": (lambda read: read._replace(penalty=read.penalty / 0), "penalty"),
    "a tuple": (tuple, "SampledWeights"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_sample_breaks_a_law(wrong, monkeypatch):
    change, message = WRONG[wrong]
    sample = Reinforced.sample

    def changed(self: Reinforced, scores: torch.Tensor, allowed_mask: torch.Tensor) -> SampledWeights:
        read: SampledWeights = change(sample(self, scores, allowed_mask))
        return read

    monkeypatch.setattr(Reinforced, "sample", changed)
    laws = SampledNormalizerLaws.collect()
    failures = [law_failure(law, Candidate("normalizer", "reinforced")) for law in laws]
    assert any(message in failure for failure in failures), failures
