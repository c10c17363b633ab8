"""The laws of every scope."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnx.attention import ScopeMask
from attnx.laws.candidate import Candidate
from attnx.laws.declarations import require_methods
from attnx.laws.gradients import require_gradients
from attnx.laws.violation import described, require, require_close, require_finite, require_tensor

WIDTH, STEPS, MEMORY = 5, 3, 11
LENGTHS = (7, 4, 1, 0)


def build(scope: Candidate) -> Any:
    """The scope for queries of width 5."""
    return scope.build(query_size=WIDTH, memory_size=MEMORY)


def memory_mask(lengths: tuple[int, ...] = LENGTHS, size: int = 7) -> Tensor:
    """(b, 1, m), the same mask for all queries."""
    return (torch.arange(size) < torch.tensor(lengths)[:, None])[:, None]


def growing(size: int = 7) -> Tensor:
    """(b, q, m), the mask of a memory that grows by two positions a step, from none."""
    return memory_mask(size=size) & (torch.arange(size) < 2 * torch.arange(STEPS)[:, None])


MEMORY_MASK = (memory_mask, growing)


def scope_mask(part: Any, queries: Tensor, steps: Tensor, mask: Tensor) -> ScopeMask:
    """The scope's output, its types and shapes checked."""
    field = part(queries, steps, mask)
    right = isinstance(field, tuple) and len(field) == 2
    require(right, "forward", f"it returned {described(field)} instead of an attnx.attention.ScopeMask")
    shape = (*queries.shape[:2], mask.shape[-1])
    allowed_mask = require_tensor(field[0], "forward", shape)
    require(allowed_mask.dtype == torch.bool, "forward", f"allowed_mask is {allowed_mask.dtype} instead of torch.bool")
    if field[1] is not None:
        gain = require_tensor(field[1], "forward")
        fits = gain.dim() == 3 and all(size in (1, full) for size, full in zip(gain.shape, shape, strict=True))
        require(fits, "forward", f"the gain has the shape {tuple(gain.shape)} instead of {shape}")
    return ScopeMask(*field)


def require_same(actual: ScopeMask, expected: ScopeMask, difference: str) -> None:
    """Check that two outputs of a scope are the same."""
    require(
        torch.equal(actual.allowed_mask, expected.allowed_mask), "forward", f"{difference}: other positions are allowed"
    )
    require((actual.gain is None) == (expected.gain is None), "forward", f"{difference}: one of them has a gain")
    if actual.gain is not None and expected.gain is not None:
        require_close(actual.gain, expected.gain, "forward", f"{difference}: the gain differs")


def select(field: ScopeMask, pick: Any) -> ScopeMask:
    """Some rows or steps of a mask."""
    return ScopeMask(field.allowed_mask[pick], None if field.gain is None else field.gain[pick])


def declarations(scope: Candidate) -> None:
    """A scope is an nn.Module with a forward; its ``sources`` are a declaration or an option."""
    part, info = build(scope), scope.info
    require_methods(part, ("forward",))
    declared = {"sources": ["encoder"], "include_self": False, **info.properties}
    declared |= {knob.name: knob.default for knob in info.knobs} | dict(scope.knobs)
    for fact, value in (("sources", tuple(declared["sources"])), ("include_self", declared["include_self"])):
        actual = getattr(part, fact, None if fact == "sources" else False)
        actual = tuple(actual) if isinstance(actual, list) else actual
        require(
            actual == value,
            fact,
            f"{fact} is {actual!r} on the object and {value!r} by declaration, option or default",
        )


def padding_is_never_allowed(scope: Candidate) -> None:
    """A scope returns a ScopeMask whose ``allowed_mask`` is (b, q, m) bool, and False at masked positions."""
    part = build(scope)
    for mask in (make() for make in MEMORY_MASK):
        field = scope_mask(part, torch.randn(4, STEPS, WIDTH), torch.arange(STEPS), mask)
        require(not (field.allowed_mask & ~mask).any(), "forward", "it allows masked positions")


def every_query_has_an_allowed_position(scope: Candidate) -> None:
    """A row with unmasked positions has at least one allowed position."""
    part = build(scope)
    for mask in (make() for make in MEMORY_MASK):
        field = scope_mask(part, torch.randn(4, STEPS, WIDTH), torch.arange(STEPS), mask)
        empty = mask.any(-1).expand(4, STEPS) & ~field.allowed_mask.any(-1)
        require(not empty.any(), "forward", "a query has no allowed position, though some are not masked")


def steps_equal_one_call(scope: Candidate) -> None:
    """A call for each step gives what one call for all steps gives."""
    part, queries = build(scope), torch.randn(4, STEPS, WIDTH)
    for steps in (torch.tensor([[0, 1, 2], [5, 6, 7], [2, 2, 2], [3, 1, 0]]), torch.arange(STEPS)):
        for mask in (make() for make in MEMORY_MASK):
            expected, wide = scope_mask(part, queries, steps, mask), mask.expand(4, STEPS, 7)
            for step in range(STEPS):
                pick = slice(step, step + 1)
                alone = scope_mask(part, queries[:, pick], steps[..., pick], wide[:, pick])
                require_same(alone, select(expected, (slice(None), pick)), f"step {step} in a call of its own")


def rows_are_independent(scope: Candidate) -> None:
    """The mask of a row does not depend on other rows."""
    part, queries, steps = build(scope), torch.randn(4, STEPS, WIDTH), torch.arange(STEPS)
    for mask in (make() for make in MEMORY_MASK):
        expected = scope_mask(part, queries, steps, mask)
        for row in (slice(row, row + 1) for row in range(4)):
            alone = scope_mask(part, queries[row], steps, mask[row])
            require_same(alone, select(expected, row), f"row {row.start} in a batch of its own")


def padding_has_no_effect(scope: Candidate) -> None:
    """Padding after a memory has no effect on the mask of its positions."""
    part, queries, steps = build(scope), torch.randn(4, STEPS, WIDTH), torch.arange(STEPS)
    for make in MEMORY_MASK:
        tight, padded = scope_mask(part, queries, steps, make()), scope_mask(part, queries, steps, make(size=13))
        require_same(select(padded, (..., slice(0, 7))), tight, "with padding after the memory")


def a_memory_of_no_positions(scope: Candidate) -> None:
    """A memory of no positions is accepted, as at the first step of a history."""
    scope_mask(build(scope), torch.randn(4, STEPS, WIDTH), torch.arange(STEPS), memory_mask(size=0))


def gains_are_between_0_and_1(scope: Candidate) -> None:
    """Gains of allowed positions are above 0 and at most 1; a scope without a gain has no parameters."""
    part, queries, steps = build(scope), torch.randn(4, STEPS, WIDTH), torch.arange(STEPS)
    field = scope_mask(part, queries, steps, memory_mask())
    if field.gain is None:
        require(not list(part.parameters()), "forward", "it has parameters but no gain, so they have no gradient")
        return
    inside = field.gain.expand_as(field.allowed_mask)[field.allowed_mask]
    require(((inside > 0) & (inside <= 1)).all(), "forward", f"the gain is {inside.min():.3g} to {inside.max():.3g}")


def gradients(scope: Candidate) -> None:
    """Gradients of a gain agree with finite differences."""
    part, queries, steps = build(scope), torch.randn(4, STEPS, WIDTH), torch.arange(STEPS)
    allowed_mask = scope_mask(part, queries, steps, memory_mask()).allowed_mask
    if part(queries, steps, memory_mask())[1] is not None:
        require_gradients(
            lambda queries: part(queries, steps, memory_mask())[1].expand_as(allowed_mask)[allowed_mask],
            [queries],
            part,
            "forward",
        )


def bfloat16(scope: Candidate) -> None:
    """A gain of bfloat16 is finite."""
    part = build(scope).to(torch.bfloat16)
    field = scope_mask(part, torch.randn(4, STEPS, WIDTH, dtype=torch.bfloat16), torch.arange(STEPS), memory_mask())
    require_finite(field.gain, "forward", "gains of bfloat16")


QUICK = (
    declarations,
    padding_is_never_allowed,
    every_query_has_an_allowed_position,
    rows_are_independent,
    gains_are_between_0_and_1,
)
LAWS = (*QUICK, steps_equal_one_call, padding_has_no_effect, a_memory_of_no_positions, gradients, bfloat16)
