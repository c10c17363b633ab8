"""The laws of every normalizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import torch
from torch import Tensor

from attnx.laws.candidate import Candidate
from attnx.laws.laws import TensorLaws, quick
from attnx.laws.small import without_noise
from attnx.laws.violation import gradient_error, require, require_close, require_finite, require_tensor

# The masks of four rows: all, some, one and none of 7 positions allowed.
ALLOWED_MASK = torch.tensor(
    [[1, 1, 1, 1, 1, 1, 1], [0, 1, 1, 0, 1, 0, 1], [0, 0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0]], dtype=torch.bool
)
# The consecutive steps of a recurrent normalizer in each of which a row has the same scores.
STEPS = 3


class NormalizerLaws(TensorLaws):
    """The laws of every normalizer; those of a recurrent one are checked on the mean weights of some steps."""

    kind, results = "normalizer", "weights"

    @classmethod
    def cases(cls, candidate: Candidate) -> Iterator[Self]:
        """The candidate in evaluation mode, and a recurrent one in training mode, too, without noise."""
        yield cls(candidate)
        if candidate.declaration("is_recurrent", False):
            laws = cls(without_noise(candidate))
            laws.part.train()
            yield laws

    def _inputs(self, spread: float = 1.0) -> dict[str, Tensor]:
        return {"scores": spread * torch.randn(4, 7), "allowed_mask": ALLOWED_MASK.clone()}

    def _compute(self, scores: Tensor, allowed_mask: Tensor = ALLOWED_MASK) -> Tensor:
        if not self._declares("is_recurrent"):
            return require_tensor(self.part(scores, allowed_mask), "forward", scores.shape)
        steps, allowed_mask = scores.expand(STEPS, *scores.shape).movedim(0, 1), allowed_mask.expand(scores.shape)
        carry = self.part.init_carry(allowed_mask)
        weights = self.part(steps, allowed_mask[:, None].expand_as(steps), carry)[0]
        return require_tensor(weights, "forward", steps.shape).mean(1)

    @quick
    def declarations(self) -> None:
        """A normalizer is an nn.Module with a forward, and declares ``is_distribution``."""
        self._require_declarations(is_differentiable=True, is_recurrent=False, is_monotonic=False, is_sampled=False)
        self._require_module()

    @quick
    def shapes(self) -> None:
        """Weights have the shape of the scores."""
        if self._declares("is_recurrent"):
            self._compute(torch.randn(2, 7), torch.ones(2, 7, dtype=torch.bool))
            return
        self._compute(torch.randn(2, 3, 7), torch.ones(2, 3, 7, dtype=torch.bool))

    def any_leading_axes(self) -> None:
        """Any leading axes are accepted, and the mask broadcasts over queries; of a recurrent one a batch and steps."""
        if self._declares("is_recurrent"):
            return
        for leading in ((), (2,), (2, 13)):
            self._compute(torch.randn(*leading, 3, 7), torch.ones(*leading, 3, 7, dtype=torch.bool))
        scores, narrow = torch.randn(4, 3, 7), ALLOWED_MASK[:, None]
        wide = self._compute(scores, narrow.expand(4, 3, 7))
        require_close(self._compute(scores, narrow), wide, "forward", "the mask does not broadcast")

    @quick
    def masked_weights_are_zero(self) -> None:
        """Masked positions have a weight of 0."""
        most = self._compute(**self._inputs())[~ALLOWED_MASK].abs().max().item()
        require(most == 0, "forward", f"it gave a weight of {most:.3g} to a masked position")

    @quick
    def distributions_sum_to_one(self) -> None:
        """Weights are never negative; if ``is_distribution`` is declared, rows sum to 1, or to 0 if masked entirely."""
        for spread in (1.0, 1e4):
            weights = self._compute(**self._inputs(spread))
            require((weights >= 0).all(), "forward", f"it gave a weight of {weights.min().item():.3g}")
            if self._declares("is_distribution"):
                expected = ALLOWED_MASK.any(-1).to(weights.dtype)
                require_close(weights.sum(-1), expected, "forward", "a row does not sum to 1, or to 0 where it must")

    @quick
    def masked_scores_have_no_effect(self) -> None:
        """A masked score, NaN included, changes no weight; its gradient is 0, and all others are finite."""
        plain = torch.randn(4, 7)
        expected = self._compute(plain)
        for poison in (torch.inf, -torch.inf, torch.nan, 1e4):
            scores = plain.masked_fill(~ALLOWED_MASK, poison).requires_grad_()
            weights = self._compute(scores)
            require(torch.equal(weights, expected), "forward", f"a masked score of {poison} changed the weights")
            if weights.requires_grad:
                (weights * torch.randn(4, 7)).sum().backward()  # type: ignore[no-untyped-call]
            require_finite(scores.grad, "forward", f"gradients of the scores next to a masked {poison}")
            for name, weight in self._trained_parameters():
                require_finite(weight.grad, "forward", f"gradients of the parameter {name}")
            if scores.grad is not None:
                require(
                    (scores.grad[~ALLOWED_MASK] == 0).all(), "forward", "a masked score has a gradient other than 0"
                )

    def intermediate_gradients_are_finite(self) -> None:
        """No intermediate gradient is NaN, as anomaly detection would report it."""
        with torch.autograd.set_detect_anomaly(True):
            self._backward(self._inputs())

    def large_scores_give_finite_results(self) -> None:
        """Large scores of either sign, one or all, give finite sums of values of 100, and gradients, in every type."""
        for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
            for extreme in (1e4, -1e4):
                for plain in (torch.full((4, 7), extreme), torch.randn(4, 7).index_fill(1, torch.tensor([3]), extreme)):
                    scores = plain.to(dtype).requires_grad_()
                    weights = self._compute(scores)
                    contexts = weights @ torch.full((7, 1), 100.0, dtype=dtype)
                    if weights.requires_grad:
                        contexts.mean().backward()  # type: ignore[no-untyped-call]
                    require_finite(contexts, "forward", f"contexts by scores of {extreme:g} in {dtype}")
                    require_finite(scores.grad, "forward", f"gradients of scores of {extreme:g} in {dtype}")

    def permuting_the_scores_permutes_the_weights(self) -> None:
        """Permuting the positions permutes the weights, unless it is recurrent: then they may have an order."""
        if self._declares("is_recurrent"):
            return
        scores, order = torch.randn(4, 7), torch.tensor([4, 0, 6, 2, 5, 1, 3])
        permuted, straight = self._compute(scores[:, order], ALLOWED_MASK[:, order]), self._compute(scores)[:, order]
        require_close(permuted, straight, "forward", "weights depend on the order of the positions")

    def padding_has_no_effect(self) -> None:
        """Padding has no effect on the weights, and a weight of 0."""
        scores, longer = torch.randn(4, 7), torch.cat([ALLOWED_MASK, torch.zeros(4, 6, dtype=torch.bool)], -1)
        padded = self._compute(torch.cat([scores, torch.randn(4, 6)], -1), longer)
        require_close(padded[:, :7], self._compute(scores), "forward", "padding changed the weights")
        require((padded[:, 7:] == 0).all(), "forward", "padding has a weight above 0")

    def gradients_are_derivatives(self) -> None:
        """Gradients agree with finite differences; those of ``is_differentiable = False`` do not."""
        declared = self._declares("is_differentiable", True)
        error = gradient_error(self._compute, [torch.randn(4, 7)], self.part, fast=False)
        require(not error or not declared, "forward", f"the gradient is not the derivative: {error}")
        require(error or declared, "is_differentiable", "it declares False, but its gradient is the derivative")

    def temperature_divides_the_scores(self) -> None:
        """An option ``temperature`` divides the scores."""
        if not self.candidate.has_option("temperature"):
            return
        scores = torch.randn(4, 7)
        temperatures = (1.0, 0.3, 5.0)
        plain, *warm = (NormalizerLaws(self.candidate.with_options(temperature=number)) for number in temperatures)
        for laws in (plain, *warm):
            laws.part.train(self.part.training)
        for laws in warm:
            temperature = laws.candidate.options["temperature"]
            difference = f"temperature={temperature} does not divide the scores"
            require_close(laws._compute(scores), plain._compute(scores / temperature), "forward", difference)

    def weights_keep_the_order_of_scores(self) -> None:
        """Weights keep the order of the scores, unless it is recurrent: then they depend on earlier steps, too."""
        if self._declares("is_recurrent"):
            return
        scores = torch.randn(4, 7)
        ordered = self._compute(scores, torch.ones_like(ALLOWED_MASK)).gather(-1, scores.argsort(-1))
        require((ordered.diff(dim=-1) >= 0).all(), "forward", "a larger score got a smaller weight")

    def empty_memory_gives_empty_weights(self) -> None:
        """A memory of no positions gives no weights, as at the first step of a growing memory."""
        scores = torch.randn(2, 0).requires_grad_()
        weights = self._compute(scores, torch.ones(2, 0, dtype=torch.bool))
        if not self._declares("is_recurrent") or self.part.training:
            weights.sum().backward()  # type: ignore[no-untyped-call]
            has_gradient = scores.grad is not None and scores.grad.shape == (2, 0)
            require(has_gradient, "forward", "an empty tensor of scores has no gradient")

    def float32_agrees_with_float64(self) -> None:
        """Long rows in float32 agree with float64 to the precision of float32."""
        for spread in (0.1, 1.0, 13.0):
            scores, allowed_mask = spread * torch.randn(5, 997, dtype=torch.float32), torch.rand(5, 997) < 0.7
            self.part.float()
            actual = self._compute(scores, allowed_mask)
            self.part.double()
            expected = self._compute(scores.double(), allowed_mask)
            require(actual.dtype == torch.float32, "forward", f"weights of float32 are {actual.dtype}")
            require_close(actual.double(), expected, "forward", "float32 differs from float64", rtol=1e-5, atol=1e-6)

    def bfloat16_is_supported(self) -> None:
        """Weights and gradients in bfloat16 are finite and bfloat16; sums are 1 to its precision."""
        super().bfloat16_is_supported()
        weights = self._compute(1e4 * torch.randn(4, 7).to(torch.bfloat16))
        require_finite(weights, "forward", "weights of large scores of bfloat16")
        if self._declares("is_distribution"):
            # 7 weights, each rounded by at most 2^-9 of itself.
            sums, expected = weights.double().sum(-1), ALLOWED_MASK.any(-1).double()
            require_close(sums, expected, "forward", "rows of bfloat16 do not sum to 1", rtol=0, atol=2**-9)
