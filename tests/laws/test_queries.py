"""Laws of every query input, and of the query they make together."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from attnx import registry
from attnx.attention import Query, Step

pytestmark = pytest.mark.usefixtures("float64")
Choice = tuple[str, dict[str, Any]]

SIZES = {"state_size": 13, "context_size": 11, "token_size": 7, "tags": 101}
WIDTHS = {"token": 7, "before": 13, "after": 13, "context": 11}


def make(choice: Choice) -> Any:
    return registry.build("query", choice, **SIZES)


def step(leave_out: tuple[str, ...] = ()) -> Step:
    fields = {name: torch.randn(2, 3, width) for name, width in WIDTHS.items()}
    fields["tag"] = torch.randint(SIZES["tags"], (2, 3))
    return Step(**{name: field for name, field in fields.items() if name not in leave_out})


def needs(choice: Choice) -> str:
    return str(registry.part("query", choice[0]).declares["needs"])


def test_needs_is_a_field_of_the_step(each_query: Choice) -> None:
    """The planner reads it from the source, the class says the same."""
    assert needs(each_query) in Step._fields
    assert make(each_query).needs == needs(each_query)


def test_shape(each_query: Choice) -> None:
    part = make(each_query)
    assert part(step()).shape == (2, 3, part.size)


def test_it_reads_what_it_needs_and_nothing_else(each_query: Choice) -> None:
    """Other fields may be unknown or hold anything; what it needs changes the outcome."""
    part, given = make(each_query), step()
    changed = step()._replace(**{needs(each_query): getattr(given, needs(each_query))})
    torch.testing.assert_close(part(given), part(changed))
    assert not torch.equal(part(given), part(step()))
    unknown = tuple(name for name in Step._fields if name not in ("token", needs(each_query)))
    assert part(step(leave_out=unknown)).isfinite().all()


def test_steps_and_rows_are_independent(each_query: Choice) -> None:
    part, given = make(each_query), step()
    whole = part(given)
    for row, position in itertools.product(range(2), range(3)):
        one = Step(*(field[row : row + 1, position : position + 1] for field in given))
        torch.testing.assert_close(part(one), whole[row : row + 1, position : position + 1])


def test_it_is_asked_too_early(each_query: Choice) -> None:
    """A field that is not known yet is refused, not read as something else."""
    if needs(each_query) != "token":
        with pytest.raises(AssertionError, match=r"before what its query needs|given no tags"):
            make(each_query)(step(leave_out=(needs(each_query),)))


@pytest.mark.parametrize(
    ("name", "picks"),
    [("token", "token"), ("previous_state", "before"), ("current_state", "after"), ("last_context", "context")],
)
def test_what_each_picks(name: str, picks: str) -> None:
    given = step()
    assert torch.equal(make((name, {}))(given), getattr(given, picks))


def test_a_tag_is_embedded() -> None:
    given, part = step(), make(("language_tag", {"width": 5}))
    assert torch.equal(part(given), part.embedding.weight[given.tag])


@pytest.mark.parametrize("order", list(itertools.permutations(["token", "previous_state", "language_tag"], 2)))
def test_a_query_is_its_inputs_in_the_order_given(order: tuple[str, ...]) -> None:
    given = step()
    parts = [make((name, {})) for name in order]
    query = Query(parts)
    assert query.size == sum(part.size for part in parts)
    torch.testing.assert_close(query(given), torch.cat([part(given) for part in parts], -1))


def test_the_empty_query_has_no_width() -> None:
    query = Query([])
    assert query.size == 0
    assert query(step()).shape == (2, 3, 0)
