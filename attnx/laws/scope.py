"""The laws of every scope."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attnx.attention import ScopeMask
from attnx.laws.laws import PartLaws
from attnx.laws.violation import (
    describe_type,
    require,
    require_close,
    require_equal,
    require_finite,
    require_gradients,
    require_tensor,
)

WIDTH, STEPS, MEMORY = 5, 3, 11
SIZES = {"query_size": WIDTH, "memory_size": MEMORY}
LENGTHS = (7, 4, 1, 0)


def memory_mask(lengths: tuple[int, ...] = LENGTHS, size: int = 7) -> Tensor:
    """(b, 1, m), the same mask for all queries."""
    return (torch.arange(size) < torch.tensor(lengths)[:, None])[:, None]


def growing(size: int = 7) -> Tensor:
    """(b, q, m), the mask of a memory that grows by two positions a step, from none."""
    return memory_mask(size=size) & (torch.arange(size) < 2 * torch.arange(STEPS)[:, None])


def require_same_mask(actual: ScopeMask, expected: ScopeMask, difference: str) -> None:
    """Check that two outputs of a scope are the same."""
    require(
        torch.equal(actual.allowed_mask, expected.allowed_mask), "forward", f"{difference}: other positions are allowed"
    )
    require((actual.gain is None) == (expected.gain is None), "forward", f"{difference}: one of them has a gain")
    if actual.gain is not None and expected.gain is not None:
        require_close(actual.gain, expected.gain, "forward", f"{difference}: the gain differs")


def _select(mask: ScopeMask, pick: Any) -> ScopeMask:
    """Some rows or steps of a mask."""
    return ScopeMask(mask.allowed_mask[pick], None if mask.gain is None else mask.gain[pick])


class ScopeLaws(PartLaws):
    """The laws of every scope, for four rows of three queries of width 5."""

    kind, sizes = "scope", SIZES
    quick = (
        "declarations",
        "equal_calls_agree",
        "padding_is_never_allowed",
        "every_query_has_an_allowed_position",
        "rows_are_independent",
        "gains_are_between_0_and_1",
    )

    def _mask(self, queries: Tensor, steps: Tensor, positions_mask: Tensor) -> ScopeMask:
        """The scope's output, its types and shapes checked."""
        mask = self.part(queries, steps, positions_mask)
        fits = isinstance(mask, tuple) and len(mask) == 2
        require(fits, "forward", f"it returned {describe_type(mask)} instead of an attnx.attention.ScopeMask")
        shape = (*queries.shape[:2], positions_mask.shape[-1])
        allowed_mask = require_tensor(mask[0], "forward", shape)
        require(
            allowed_mask.dtype == torch.bool, "forward", f"allowed_mask is {allowed_mask.dtype} instead of torch.bool"
        )
        if mask[1] is not None:
            gain = require_tensor(mask[1], "forward")
            fits = gain.dim() == 3 and all(size in (1, full) for size, full in zip(gain.shape, shape, strict=True))
            require(fits, "forward", f"the gain has the shape {tuple(gain.shape)} instead of {shape}")
        return ScopeMask(*mask)

    def _random_masks(self) -> Iterator[tuple[Tensor, ScopeMask]]:
        """Masks of a memory, fixed and growing, and what the scope makes of them for random queries."""
        for positions_mask in (memory_mask(), growing()):
            yield positions_mask, self._mask(torch.randn(4, STEPS, WIDTH), torch.arange(STEPS), positions_mask)

    def declarations(self) -> None:
        """A scope is an nn.Module with a forward; its ``sources`` are a declaration or an option."""
        self._require_module()
        info = self.candidate.info
        declared = {"sources": ["encoder"], "include_self": False, **info.declarations}
        declared |= {option.name: option.default for option in info.options} | dict(self.candidate.options)
        for name, value in (("sources", tuple(declared["sources"])), ("include_self", declared["include_self"])):
            actual = getattr(self.part, name, None if name == "sources" else False)
            actual = tuple(actual) if isinstance(actual, list) else actual
            message = f"{name} is {actual!r} on the object and {value!r} by declaration, option or default"
            require(actual == value, name, message)

    def equal_calls_agree(self) -> None:
        """Two calls with the same inputs give the same mask, in every bit: nothing is drawn but in training."""
        queries, steps = torch.randn(4, STEPS, WIDTH), torch.arange(STEPS)
        first, second = (self._mask(queries.clone(), steps.clone(), memory_mask()) for _ in range(2))
        for tensor, expected in zip(second, first, strict=True):
            require((tensor is None) == (expected is None), "forward", "one of two equal calls gives a gain")
            if tensor is not None and expected is not None:
                require_equal(tensor, expected, "forward")

    def padding_is_never_allowed(self) -> None:
        """A scope returns a ScopeMask whose ``allowed_mask`` is (b, q, m) bool, and False at masked positions."""
        for positions_mask, mask in self._random_masks():
            require(not (mask.allowed_mask & ~positions_mask).any(), "forward", "it allows masked positions")

    def every_query_has_an_allowed_position(self) -> None:
        """A row with unmasked positions has at least one allowed position."""
        for positions_mask, mask in self._random_masks():
            empty = positions_mask.any(-1).expand(4, STEPS) & ~mask.allowed_mask.any(-1)
            require(not empty.any(), "forward", "a query has no allowed position, though some are not masked")

    def steps_equal_one_call(self) -> None:
        """A call for each step gives what one call for all steps gives."""
        queries = torch.randn(4, STEPS, WIDTH)
        for steps in (torch.tensor([[0, 1, 2], [5, 6, 7], [2, 2, 2], [3, 1, 0]]), torch.arange(STEPS)):
            for positions_mask in (memory_mask(), growing()):
                expected, wide = self._mask(queries, steps, positions_mask), positions_mask.expand(4, STEPS, 7)
                for pick in (slice(step, step + 1) for step in range(STEPS)):
                    alone = self._mask(queries[:, pick], steps[..., pick], wide[:, pick])
                    difference = f"step {pick.start} in a call of its own"
                    require_same_mask(alone, _select(expected, (slice(None), pick)), difference)

    def rows_are_independent(self) -> None:
        """The mask of a row does not depend on other rows."""
        queries, steps = torch.randn(4, STEPS, WIDTH), torch.arange(STEPS)
        for positions_mask in (memory_mask(), growing()):
            expected = self._mask(queries, steps, positions_mask)
            for row in (slice(row, row + 1) for row in range(4)):
                alone = self._mask(queries[row], steps, positions_mask[row])
                require_same_mask(alone, _select(expected, row), f"row {row.start} in a batch of its own")

    def padding_has_no_effect(self) -> None:
        """Padding after a memory has no effect on the mask of its positions."""
        queries, steps = torch.randn(4, STEPS, WIDTH), torch.arange(STEPS)
        for make in (memory_mask, growing):
            tight, padded = self._mask(queries, steps, make()), self._mask(queries, steps, make(size=13))
            require_same_mask(_select(padded, (..., slice(0, 7))), tight, "with padding after the memory")

    def a_memory_of_no_positions(self) -> None:
        """A memory of no positions is accepted, as at the first step of a history."""
        self._mask(torch.randn(4, STEPS, WIDTH), torch.arange(STEPS), memory_mask(size=0))

    def gains_are_between_0_and_1(self) -> None:
        """Gains of allowed positions are above 0 and at most 1; a scope without a gain has no parameters."""
        mask = self._mask(torch.randn(4, STEPS, WIDTH), torch.arange(STEPS), memory_mask())
        if mask.gain is None:
            has_none = not list(self.part.parameters())
            require(has_none, "forward", "it has parameters but no gain, so they have no gradient")
            return
        inside = mask.gain.expand_as(mask.allowed_mask)[mask.allowed_mask]
        require(
            ((inside > 0) & (inside <= 1)).all(), "forward", f"the gain is {inside.min():.3g} to {inside.max():.3g}"
        )

    def gradients_are_derivatives(self) -> None:
        """Gradients of a gain agree with finite differences."""
        queries, steps = torch.randn(4, STEPS, WIDTH), torch.arange(STEPS)
        mask = self._mask(queries, steps, memory_mask())
        if mask.gain is not None:

            def compute(queries: Tensor) -> Tensor:
                gain: Tensor = self.part(queries, steps, memory_mask())[1]
                return gain.expand_as(mask.allowed_mask)[mask.allowed_mask]

            require_gradients(compute, [queries], self.part, "forward")

    def bfloat16_is_supported(self) -> None:
        """A gain of bfloat16 is finite."""
        self.part.to(torch.bfloat16)
        mask = self._mask(torch.randn(4, STEPS, WIDTH, dtype=torch.bfloat16), torch.arange(STEPS), memory_mask())
        require_finite(mask.gain, "forward", "gains of bfloat16")
