"""The laws of every recurrent scorer and normalizer: what they carry from step to step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from attnx.laws.candidate import Candidate, LawSkipped
from attnx.laws.laws import PartLaws
from attnx.laws.scorer import MEMORY, QUERY
from attnx.laws.small import without_noise
from attnx.laws.violation import require, require_close, require_tensor

B, Q, M = 4, 5, 7
# Rows of 7, 4 and 1 positions, and one that starts with padding.
MEMORY_MASK = (torch.arange(M) < torch.tensor([7, 4, 1, 7])[:, None]) & (
    torch.arange(M) >= torch.tensor([0, 0, 0, 2])[:, None]
)


class Steps(NamedTuple):
    """Consecutive steps: a tensor with the steps as its second axis, and one that is the same at all of them."""

    queries: Tensor  # (b, q, k) of a scorer; of a normalizer the scores (b, q, m)
    memory: Tensor  # (b, m, k) of a scorer; of a normalizer the mask (b, m)


class RecurrenceLaws(PartLaws):
    """The laws of what a recurrent part carries.

    In training mode the noise of a part, if it has an option ``noise``, is 0.
    """

    suffix, member = " over steps", "forward"
    methods: ClassVar[tuple[str, ...]] = ("init_carry",)

    @classmethod
    def cases(cls, candidate: Candidate) -> Iterator[Self]:
        """The candidate in evaluation and in training mode, without noise."""
        if not candidate.declaration("is_recurrent", False):
            raise LawSkipped(f"the {candidate.kind} does not declare is_recurrent = True")
        for is_training in (False, True):
            laws = cls(without_noise(candidate))
            laws.part.train(is_training)
            yield laws

    def _steps(self) -> Steps:
        """Random steps."""
        raise NotImplementedError

    def _start(self, steps: Steps) -> Tensor:
        """What the part carries before the first step."""
        return require_tensor(self.part.init_carry(steps.memory), "init_carry", (B, None))

    def _run(self, steps: Steps, carry: Tensor) -> tuple[Tensor, Tensor]:
        """What the part computes of steps, (b, q, m), and what it carries on, both checked."""
        raise NotImplementedError

    def _checked(self, result: Any, steps: Steps, carry: Tensor) -> tuple[Tensor, Tensor]:
        is_pair = isinstance(result, tuple) and len(result) == 2
        require(is_pair, self.member, "it did not return a tensor and what it carries on")
        tensor, next_carry = result
        shape = *steps.queries.shape[:2], steps.memory.shape[1]
        return require_tensor(tensor, self.member, shape), require_tensor(next_carry, self.member, carry.shape)

    def one_call_equals_a_call_for_each_step(self) -> None:
        """One call for all steps gives what a call for each step gives, if each passes the next what it carries."""
        self._require_methods()
        steps = self._steps()
        carry = start = self._start(steps)
        together, last = self._run(steps, start)
        for index in range(Q):
            step = steps._replace(queries=steps.queries[:, index : index + 1])
            result, carry = self._run(step, carry)
            difference = f"step {index} in a call of its own differs"
            require_close(result[:, 0], together[:, index], self.member, difference)
        require_close(carry, last, self.member, "what is carried after the last step differs")

    def the_carry_is_read(self) -> None:
        """What a step carries has an effect on the next one."""
        steps = self._steps()
        start = self._start(steps)
        _, later = self._run(steps, start)
        first, second = self._run(steps, start)[0], self._run(steps, later)[0]
        require(not torch.allclose(first, second), self.member, "the result does not depend on what is carried")

    def the_carry_is_not_modified(self) -> None:
        """What is passed to a call is not modified in place."""
        steps = self._steps()
        start = self._start(steps)
        originals = [tensor.clone() for tensor in (*steps, start)]
        self._run(steps, start)
        is_same = all(map(torch.equal, (*steps, start), originals))
        require(is_same, self.member, "it changed a tensor in place that it was passed")

    def rows_are_independent_of_each_other(self) -> None:
        """A row alone gives what it gives among others, at every step."""
        steps = self._steps()
        together, _ = self._run(steps, self._start(steps))
        for row in range(B):
            alone = Steps(*(tensor[row : row + 1] for tensor in steps))
            carry = self.part.init_carry(alone.memory)
            result = self._run(alone, carry)[0]
            require_close(result[0], together[row], self.member, f"row {row} differs in a batch")


class RecurrentScorerLaws(RecurrenceLaws):
    """The laws of what a recurrent scorer carries."""

    kind, member = "scorer", "score"

    def _build(self) -> object:
        has_equal_dims = self._declares("requires_equal_dims")
        return self.candidate.build(query_size=MEMORY if has_equal_dims else QUERY, memory_size=MEMORY)

    def _steps(self) -> Steps:
        has_equal_dims = self._declares("requires_equal_dims")
        queries = torch.randn(B, Q, MEMORY if has_equal_dims else QUERY)
        return Steps(self.part.project_queries(queries), self.part.project_keys(torch.randn(B, M, MEMORY)))

    def _run(self, steps: Steps, carry: Tensor) -> tuple[Tensor, Tensor]:
        return self._checked(self.part.score(*steps, carry), steps, carry)


class RecurrentNormalizerLaws(RecurrenceLaws):
    """The laws of what a recurrent normalizer carries."""

    kind = "normalizer"

    def _steps(self) -> Steps:
        return Steps(3 * torch.randn(B, Q, M), MEMORY_MASK.clone())

    def _run(self, steps: Steps, carry: Tensor) -> tuple[Tensor, Tensor]:
        allowed_mask = steps.memory[:, None].expand_as(steps.queries)
        return self._checked(self.part(steps.queries, allowed_mask, carry), steps, carry)

    def a_monotonic_normalizer_never_goes_back(self) -> None:
        """If ``is_monotonic`` is declared, no step reads a position before the first that the previous step read."""
        if not self._declares("is_monotonic"):
            return
        for spread in (1.0, 1e3):
            steps = self._steps()
            steps = steps._replace(queries=spread * steps.queries)
            weights, _ = self._run(steps, self._start(steps))
            # Where nothing is read any longer, no position is before it.
            is_read = torch.cat([weights > 0, torch.ones(B, Q, 1, dtype=torch.bool)], -1)
            first = is_read.int().argmax(-1)
            require((first.diff(dim=1) >= 0).all(), self.member, "it read a position before those of the last step")
