"""The laws of every normalizer that samples positions in training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from attnx.attention.types import SampledWeights
from attnx.laws.candidate import Candidate, LawSkipped
from attnx.laws.laws import PartLaws, quick
from attnx.laws.normalizer import ALLOWED_MASK
from attnx.laws.violation import require, require_close, require_finite, require_tensor

# Reads of each row, among which every position with a probability above 0.01 occurs, and the standard deviations by
# which its share may differ from the probability.
READS, DEVIATIONS = 2000, 5.0
# What is read exactly, where a candidate has such options: samples alone, and log-probabilities as they are.
PLAIN = {"reward": 1.0, "expected": 0.0}


class SampledNormalizerLaws(PartLaws):
    """The laws of sampled positions, for one position of each row unless a law says otherwise."""

    kind, suffix = "normalizer", " when sampled"
    methods: ClassVar[tuple[str, ...]] = ("sample",)

    @classmethod
    def cases(cls, candidate: Candidate) -> Iterator[Self]:
        """The candidate in training mode."""
        if not candidate.declaration("is_sampled", False):
            raise LawSkipped("the normalizer does not declare is_sampled = True")
        laws = cls(candidate)
        laws.part.train()
        laws._require_methods()
        yield laws

    def _with_options(self, options: dict[str, float]) -> Any:
        """The part with these options, as far as it has them."""
        changed = {name: value for name, value in options.items() if self.candidate.has_option(name)}
        return self.candidate.with_options(**changed).build().train()

    def _sample(self, part: Any, scores: Tensor, allowed_mask: Tensor) -> SampledWeights:
        """What the part samples, its shapes checked."""
        sampled: SampledWeights = part.sample(scores, allowed_mask)
        require(isinstance(sampled, SampledWeights), "sample", "it did not return SampledWeights")
        require_tensor(sampled.weights, "sample", scores.shape)
        require_tensor(sampled.log_prob, "sample", scores.shape[:-1])
        require_tensor(sampled.penalty, "sample", scores.shape[:-1])
        return sampled

    def _samples(self) -> SampledWeights:
        """Many samples of four rows of 7 scores, their first axis the rows'."""
        scores = torch.randn(4, 1, 7).expand(4, READS, 7)
        return self._sample(self._with_options(PLAIN), scores, ALLOWED_MASK[:, None].expand_as(scores))

    @quick
    def samples_are_allowed_positions(self) -> None:
        """Weights are 1 at one allowed position and 0 elsewhere; 0 if nothing is allowed."""
        weights = self._samples().weights
        require(((weights == 0) | (weights == 1)).all(), "sample", "it read another share than 0 or 1 of a position")
        expected = ALLOWED_MASK.any(-1).to(weights.dtype)[:, None].expand(4, READS)
        require(torch.equal(weights.sum(-1), expected), "sample", "a row does not read one position, or none if masked")
        require((weights.sum(1)[~ALLOWED_MASK] == 0).all(), "sample", "it read a masked position")

    @quick
    def log_probabilities_are_those_of_the_samples(self) -> None:
        """Positions are sampled with the probabilities that are returned; these sum to 1; nothing allowed gives 0."""
        weights, log_prob, _ = self._samples()
        require((log_prob[3] == 0).all(), "sample", "a row in which nothing is allowed has a log-probability")
        for row in range(3):
            shares = weights[row].mean(0)
            probabilities = (weights[row] * log_prob[row].exp()[:, None]).amax(0)
            same = torch.isclose((weights[row] * probabilities).sum(-1), log_prob[row].exp()).all()
            require(same, "sample", "a position has different log-probabilities in the same row")
            total = probabilities.sum()
            require(bool((total > 0.95) & (total < 1.0001)), "sample", f"the probabilities sum to {total.item():.3g}")
            noise = (probabilities * (1 - probabilities) / READS).clamp(min=0).sqrt()
            error = ((shares - probabilities).abs() - DEVIATIONS * noise).max().item()
            require(error < 2 / READS, "sample", "positions are read with other shares than their probabilities")

    def expectations_are_means_of_samples(self) -> None:
        """Reads of the mean of all samples, of which ``expected`` may be a share, have a log-probability of 0."""
        if not self.candidate.has_option("expected"):
            return
        scores = torch.randn(7).expand(READS, 7)
        weights, log_prob, _ = self._sample(self._with_options({"reward": 1.0, "expected": 0.5}), scores, scores < 9)
        is_mean = (weights < 1).all(-1)
        share = is_mean.float().mean().item()
        require(abs(share - 0.5) < DEVIATIONS * 0.5 / READS**0.5, "sample", f"a share of {share:.2f} reads the mean")
        require((log_prob[is_mean] == 0).all(), "sample", "a mean of all samples has a log-probability")
        means, samples = weights[is_mean], ~is_mean
        require_close(means, means[:1].expand_as(means), "sample", "means of the same scores differ")
        probabilities = (weights[samples] * means[0]).sum(-1)
        require_close(log_prob[samples].exp(), probabilities, "sample", "the mean has other probabilities than samples")

    def masked_scores_have_no_effect_on_samples(self) -> None:
        """Scores of masked positions change neither samples nor terms, and have no gradient."""
        scores = torch.randn(4, 7)
        expected = self._seeded(scores)
        for poison in (torch.inf, -torch.inf, torch.nan, 1e4):
            changed = scores.masked_fill(~ALLOWED_MASK, poison).requires_grad_()
            actual = self._seeded(changed)
            for name, tensor in expected._asdict().items():
                require_close(getattr(actual, name), tensor, "sample", f"a masked score of {poison} changes {name}")
            torch.cat([part.flatten() for part in actual]).sum().backward()  # type: ignore[no-untyped-call]
            gradient = changed.grad
            require_finite(gradient, "sample", f"gradients next to a masked {poison}")
            has_none = gradient is None or (gradient[~ALLOWED_MASK] == 0).all()
            require(has_none, "sample", "a masked score has a gradient other than 0")

    def _seeded(self, scores: Tensor) -> SampledWeights:
        torch.manual_seed(5)
        return self._sample(self.part, scores, ALLOWED_MASK)

    def samples_depend_on_the_seed_alone(self) -> None:
        """The same seed of torch gives the same samples, and the next call others."""
        scores = torch.zeros(READS, 7)
        torch.manual_seed(5)
        first = self._sample(self.part, scores, scores < 9).weights
        torch.manual_seed(5)
        second = self._sample(self.part, scores, scores < 9).weights
        require(torch.equal(first, second), "sample", "the same seed gives other samples")
        later = self._sample(self.part, scores, scores < 9).weights
        require(not torch.equal(later, second), "sample", "each call gives the same samples")

    @quick
    def sampled_terms_are_finite(self) -> None:
        """Weights, terms and gradients are finite in every precision, of large scores too."""
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            for spread in (1.0, 1e4):
                scores = (spread * torch.randn(4, 7)).to(dtype).requires_grad_()
                sampled = self._sample(self.part, scores, ALLOWED_MASK)
                for name, tensor in sampled._asdict().items():
                    require_finite(tensor, "sample", f"{name} of {dtype}")
                    require(tensor.dtype == dtype, "sample", f"{name} of {dtype} is {tensor.dtype}")
                torch.cat([part.flatten() for part in sampled]).sum().backward()  # type: ignore[no-untyped-call]
                require_finite(scores.grad, "sample", f"gradients of scores of {dtype}")

    def any_leading_axes_are_sampled(self) -> None:
        """Any leading axes are accepted, the mask broadcasts over queries, and a memory may have no positions."""
        for leading in ((), (2,), (2, 13)):
            scores = torch.randn(*leading, 3, 7)
            self._sample(self.part, scores, torch.ones(*leading, 3, 7, dtype=torch.bool))
        self._sample(self.part, torch.randn(4, 3, 7), ALLOWED_MASK[:, None])
        self._sample(self.part, torch.randn(2, 3, 0), torch.ones(2, 3, 0, dtype=torch.bool))
