"""Laws of every scope, and the local window position by position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx import registry
from attnx.attention import Field

pytestmark = pytest.mark.usefixtures("float64")
Choice = tuple[str, dict[str, Any]]
Present = Callable[..., Tensor]

WIDTH, STEPS = 5, 3
LENGTHS = (7, 4, 1, 0)


def make(choice: Choice) -> Any:
    return registry.build("scope", choice, query_size=WIDTH, memory_size=11)


def present(lengths: tuple[int, ...] = LENGTHS, size: int = 7) -> Tensor:
    """(b, 1, m), the same for all queries."""
    return (torch.arange(size) < torch.tensor(lengths)[:, None])[:, None]


def growing(size: int = 7) -> Tensor:
    """(b, q, m), as of a memory that grows by two a step, from nothing."""
    return present(size=size) & (torch.arange(size) < 2 * torch.arange(STEPS)[:, None])


each_present = pytest.mark.parametrize("of", [present, growing], ids=["shared", "per query"])


def same(found: Field, expected: Field) -> None:
    assert torch.equal(found.allowed, expected.allowed)
    assert (found.gain is None) == (expected.gain is None)
    if found.gain is not None:
        torch.testing.assert_close(found.gain, expected.gain)


def rows(field: Field, pick: Any) -> Field:
    return Field(field.allowed[pick], None if field.gain is None else field.gain[pick])


@each_present
def test_allowed_is_present(each_scope: Choice, of: Present) -> None:
    """Shapes (b, q, m), and nothing absent is ever allowed."""
    field = make(each_scope)(torch.randn(4, STEPS, WIDTH), torch.arange(STEPS), of())
    assert field.allowed.shape == (4, STEPS, 7)
    assert field.allowed.dtype == torch.bool
    assert not (field.allowed & ~of()).any()


@each_present
def test_a_row_with_something_present_may_read_something(each_scope: Choice, of: Present) -> None:
    field = make(each_scope)(torch.randn(4, STEPS, WIDTH), torch.arange(STEPS), of())
    assert torch.equal(field.allowed.any(-1), of().any(-1).expand(4, STEPS))


@each_present
@pytest.mark.parametrize("per_row", [False, True], ids=["steps shared", "steps per row"])
def test_a_loop_is_all_at_once(each_scope: Choice, per_row: bool, of: Present) -> None:
    """Asked one step at a time, a scope answers as it does for all steps."""
    scope, queries = make(each_scope), torch.randn(4, STEPS, WIDTH)
    at = torch.tensor([[0, 1, 2], [5, 6, 7], [2, 2, 2], [3, 1, 0]]) if per_row else torch.arange(STEPS)
    whole, there = scope(queries, at, of()), of().expand(4, STEPS, 7)
    for step in range(STEPS):
        pick = slice(step, step + 1)
        same(scope(queries[:, pick], at[..., pick], there[:, pick]), rows(whole, (slice(None), pick)))


@each_present
def test_rows_are_independent(each_scope: Choice, of: Present) -> None:
    scope, queries, at = make(each_scope), torch.randn(4, STEPS, WIDTH), torch.arange(STEPS)
    whole = scope(queries, at, of())
    for row in range(4):
        same(scope(queries[row : row + 1], at, of()[row : row + 1]), rows(whole, slice(row, row + 1)))


@each_present
def test_padding_changes_nothing(each_scope: Choice, of: Present) -> None:
    """Absent positions added behind a memory leave the field of the others as it was."""
    scope, queries, at = make(each_scope), torch.randn(4, STEPS, WIDTH), torch.arange(STEPS)
    tight, padded = scope(queries, at, of()), scope(queries, at, of(size=13))
    same(rows(padded, (..., slice(0, 7))), tight)
    assert not padded.allowed[..., 7:].any()


def test_a_memory_of_no_positions(each_scope: Choice) -> None:
    """So a history begins."""
    field = make(each_scope)(torch.randn(4, STEPS, WIDTH), torch.arange(STEPS), present(size=0))
    assert field.allowed.shape == (4, STEPS, 0)


def test_gain(each_scope: Choice) -> None:
    """A gain is a share: above 0 and at most 1 where something may be read; its gradients are right."""
    scope, queries, at = make(each_scope), torch.randn(4, STEPS, WIDTH, requires_grad=True), torch.arange(STEPS)
    field = scope(queries, at, present())
    if field.gain is None:
        assert not list(scope.parameters()), "without a gain nothing of a scope could be trained"
        return
    inside = field.gain[field.allowed]
    assert ((inside > 0) & (inside <= 1)).all()
    assert torch.autograd.gradcheck(
        lambda queries, *_: scope(queries, at, present()).gain[field.allowed],
        (queries, *scope.parameters()),
        fast_mode=True,
    )


def test_bfloat16(each_scope: Choice) -> None:
    scope = make(each_scope).to(torch.bfloat16)
    field = scope(torch.randn(4, STEPS, WIDTH, dtype=torch.bfloat16), torch.arange(STEPS), present())
    assert field.gain is None or field.gain.isfinite().all()


def test_sources_are_known_beforehand(each_scope: Choice) -> None:
    """A memory is planned before its scope is built: by the knob, or by what the scope declares."""
    part = registry.part("scope", each_scope[0])
    known = {"sources": ["encoder"], **part.declares, **{knob.name: knob.default for knob in part.knobs}}
    scope = make(each_scope)
    assert scope.sources == tuple(known["sources"])
    assert getattr(scope, "include_self", False) is each_scope[1].get("include_self", False)


CORE = [name for name in registry.names("scope") if registry.part("scope", name).origin == "core"]


@pytest.mark.parametrize("sources", [["encoder"], ["decoder"], ["encoder", "decoder"]], ids="+".join)
@pytest.mark.parametrize("name", CORE)
def test_every_scope_takes_any_sources(name: str, sources: list[str]) -> None:
    """They are where, and the scope is which: what it allows of one source is the same."""
    given = torch.randn(4, STEPS, WIDTH), torch.arange(STEPS), growing()
    scope = make((name, {"sources": sources, "include_self": True}))
    assert scope.sources == tuple(sources)
    same(scope(*given), make((name, {}))(*given))


def window_of(centre: int, window: int, length: int) -> list[bool]:
    """Which of 7 positions lie within the window and the row."""
    return [position < length and abs(position - centre) <= window for position in range(7)]


@pytest.mark.parametrize("window", [0, 1, 2, 3, 13])
def test_local_monotonic_window(window: int) -> None:
    """Exactly the positions within ``window`` of min(t, S - 1), for rows of unlike length and steps beyond them."""
    steps = 11
    scope = make(("local", {"window": window}))
    allowed = scope(torch.randn(4, steps, WIDTH), torch.arange(steps), present()).allowed
    expected = [[window_of(min(step, length - 1), window, length) for step in range(steps)] for length in LENGTHS]
    assert allowed.tolist() == expected


@pytest.mark.parametrize("window", [0, 1, 2, 3, 13])
def test_local_predictive_window(window: int) -> None:
    """Exactly the positions within ``window`` of the one nearest to the predicted centre, p = S sigmoid(...)."""
    scope = make(("local", {"window": window, "center": "predictive"}))
    for parameter in scope.parameters():
        torch.nn.init.normal_(parameter, std=3.0)  # centres from one end to the other
    queries = torch.randn(4, 11, WIDTH)
    allowed = scope(queries, torch.arange(11), present()).allowed
    share = torch.sigmoid(scope.centre(queries)[..., 0])
    for row, length in enumerate(LENGTHS):
        for step in range(11):
            centre = min(round(length * share[row, step].item()), length - 1)
            assert allowed[row, step].tolist() == window_of(centre, window, length)


def test_only_a_predictive_window_has_a_gain() -> None:
    queries, at = torch.randn(4, STEPS, WIDTH), torch.arange(STEPS)
    assert make(("local", {"center": "predictive"}))(queries, at, present()).gain is not None
    assert make(("local", {"center": "monotonic"}))(queries, at, present()).gain is None
    assert make(("global", {}))(queries, at, present()).gain is None
