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


def built(scope: Candidate) -> Any:
    """The scope for queries of width 5."""
    return scope.build(query_size=WIDTH, memory_size=MEMORY)


def present(lengths: tuple[int, ...] = LENGTHS, size: int = 7) -> Tensor:
    """(b, 1, m), the same for all queries."""
    return (torch.arange(size) < torch.tensor(lengths)[:, None])[:, None]


def growing(size: int = 7) -> Tensor:
    """(b, q, m), as of a memory that grows by two a step, from nothing."""
    return present(size=size) & (torch.arange(size) < 2 * torch.arange(STEPS)[:, None])


PRESENT = (present, growing)


def asked(part: Any, queries: Tensor, at: Tensor, there: Tensor) -> ScopeMask:
    """What the scope says, of the right types and shapes."""
    field = part(queries, at, there)
    right = isinstance(field, tuple) and len(field) == 2
    require(right, "forward", f"it returned {described(field)} instead of an attnx.attention.ScopeMask")
    shape = (*queries.shape[:2], there.shape[-1])
    allowed = require_tensor(field[0], "forward", shape)
    require(allowed.dtype == torch.bool, "forward", f"allowed is {allowed.dtype} instead of torch.bool")
    if field[1] is not None:
        gain = require_tensor(field[1], "forward")
        fits = gain.dim() == 3 and all(size in (1, full) for size, full in zip(gain.shape, shape, strict=True))
        require(fits, "forward", f"the gain has the shape {tuple(gain.shape)} instead of {shape}")
    return ScopeMask(*field)


def require_same(found: ScopeMask, expected: ScopeMask, difference: str) -> None:
    """Raise a violation unless two answers of a scope are one."""
    require(torch.equal(found.allowed, expected.allowed), "forward", f"{difference}: other positions are allowed")
    require((found.gain is None) == (expected.gain is None), "forward", f"{difference}: a gain came or went")
    if found.gain is not None and expected.gain is not None:
        require_close(found.gain, expected.gain, "forward", f"{difference}: the gain differs")


def picked(field: ScopeMask, pick: Any) -> ScopeMask:
    """Some rows or steps of an answer."""
    return ScopeMask(field.allowed[pick], None if field.gain is None else field.gain[pick])


def declarations(scope: Candidate) -> None:
    """A scope is an nn.Module with a forward; its ``sources`` are known from its source or its knob."""
    part, info = built(scope), scope.info
    require_methods(part, ("forward",))
    known = {"sources": ["encoder"], "include_self": False, **info.declares}
    known |= {knob.name: knob.default for knob in info.knobs} | dict(scope.knobs)
    for fact, value in (("sources", tuple(known["sources"])), ("include_self", known["include_self"])):
        found = getattr(part, fact, None if fact == "sources" else False)
        found = tuple(found) if isinstance(found, list) else found
        require(
            found == value, fact, f"{fact} is {found!r} on the object and {value!r} by its declaration, knob or default"
        )


def nothing_absent_is_allowed(scope: Candidate) -> None:
    """A scope answers with a ScopeMask whose ``allowed`` is (b, q, m) bool, and never allows what is not present."""
    part = built(scope)
    for there in (make() for make in PRESENT):
        field = asked(part, torch.randn(4, STEPS, WIDTH), torch.arange(STEPS), there)
        require(not (field.allowed & ~there).any(), "forward", "it allows positions that are not present")


def a_row_with_something_present_may_read_something(scope: Candidate) -> None:
    """Where something is present, something is allowed."""
    part = built(scope)
    for there in (make() for make in PRESENT):
        field = asked(part, torch.randn(4, STEPS, WIDTH), torch.arange(STEPS), there)
        empty = there.any(-1).expand(4, STEPS) & ~field.allowed.any(-1)
        require(not empty.any(), "forward", "a query may read nothing, though something is present")


def a_loop_is_all_at_once(scope: Candidate) -> None:
    """Asked one step at a time, a scope answers as it does for all steps."""
    part, queries = built(scope), torch.randn(4, STEPS, WIDTH)
    for at in (torch.tensor([[0, 1, 2], [5, 6, 7], [2, 2, 2], [3, 1, 0]]), torch.arange(STEPS)):
        for there in (make() for make in PRESENT):
            whole, wide = asked(part, queries, at, there), there.expand(4, STEPS, 7)
            for step in range(STEPS):
                pick = slice(step, step + 1)
                alone = asked(part, queries[:, pick], at[..., pick], wide[:, pick])
                require_same(alone, picked(whole, (slice(None), pick)), f"asked about step {step} alone")


def rows_are_independent(scope: Candidate) -> None:
    """A row of a batch is answered as it is alone."""
    part, queries, at = built(scope), torch.randn(4, STEPS, WIDTH), torch.arange(STEPS)
    for there in (make() for make in PRESENT):
        whole = asked(part, queries, at, there)
        for row in (slice(row, row + 1) for row in range(4)):
            alone = asked(part, queries[row], at, there[row])
            require_same(alone, picked(whole, row), f"row {row.start} alone is answered otherwise than beside others")


def padding_changes_nothing(scope: Candidate) -> None:
    """Absent positions behind a memory leave the answer for the others as it was."""
    part, queries, at = built(scope), torch.randn(4, STEPS, WIDTH), torch.arange(STEPS)
    for make in PRESENT:
        tight, padded = asked(part, queries, at, make()), asked(part, queries, at, make(size=13))
        require_same(picked(padded, (..., slice(0, 7))), tight, "with absent positions behind the memory")


def a_memory_of_no_positions(scope: Candidate) -> None:
    """A memory of no positions is answered with none: so a history begins."""
    asked(built(scope), torch.randn(4, STEPS, WIDTH), torch.arange(STEPS), present(size=0))


def a_gain_is_a_share(scope: Candidate) -> None:
    """A gain is above 0 and at most 1 where something may be read; without one a scope has no parameters."""
    part, queries, at = built(scope), torch.randn(4, STEPS, WIDTH), torch.arange(STEPS)
    field = asked(part, queries, at, present())
    if field.gain is None:
        require(not list(part.parameters()), "forward", "without a gain nothing trains the scope's parameters")
        return
    inside = field.gain.expand_as(field.allowed)[field.allowed]
    require(((inside > 0) & (inside <= 1)).all(), "forward", f"the gain is {inside.min():.3g} to {inside.max():.3g}")


def gradients(scope: Candidate) -> None:
    """Gradients of a gain agree with finite differences."""
    part, queries, at = built(scope), torch.randn(4, STEPS, WIDTH), torch.arange(STEPS)
    allowed = asked(part, queries, at, present()).allowed
    if part(queries, at, present())[1] is not None:
        require_gradients(
            lambda queries: part(queries, at, present())[1].expand_as(allowed)[allowed], [queries], part, "forward"
        )


def bfloat16(scope: Candidate) -> None:
    """A gain of bfloat16 is finite."""
    part = built(scope).to(torch.bfloat16)
    field = asked(part, torch.randn(4, STEPS, WIDTH, dtype=torch.bfloat16), torch.arange(STEPS), present())
    require_finite(field.gain, "forward", "gains of bfloat16")


QUICK = (
    declarations,
    nothing_absent_is_allowed,
    a_row_with_something_present_may_read_something,
    rows_are_independent,
    a_gain_is_a_share,
)
LAWS = (*QUICK, a_loop_is_all_at_once, padding_changes_nothing, a_memory_of_no_positions, gradients, bfloat16)
