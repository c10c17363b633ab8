"""Laws of every query input, and of the query they make together."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from attnx import registry
from attnx.attention import Query, QueryContext
from attnx.laws.candidate import Candidate
from attnx.laws.query import SIZES
from attnx.laws.query import random_step as random_fields

pytestmark = pytest.mark.usefixtures("float64")
Choice = tuple[str, dict[str, Any]]
CORE = [name for name in registry.names("query") if registry.describe("query", name).origin == "core"]


def random_step(leave_out: tuple[str, ...] = ()) -> QueryContext:
    return QueryContext(**{name: field for name, field in random_fields().items() if name not in leave_out})


def make(choice: Choice) -> Any:
    return Candidate("query", *choice).build(**SIZES)


@pytest.mark.parametrize("name", [name for name in CORE if name not in ("token", "self_attentive")])  # always known
def test_a_query_input_states_what_it_needs(name):
    needs = registry.describe("query", name).declarations["needs"]
    with pytest.raises(AssertionError, match=r"before what its query needs|given no tags"):
        Query([make((name, {}))])(random_step(leave_out=(needs,)))


@pytest.mark.parametrize(
    ("name", "picks"),
    [("token", "token"), ("previous_state", "prev_state"), ("current_state", "state"), ("last_context", "context")],
)
def test_each_query_input_selects_its_tensor(name, picks):
    inputs = random_step()
    assert torch.equal(make((name, {}))(inputs), getattr(inputs, picks))


def test_a_tag_is_embedded():
    inputs, part = random_step(), make(("language_tag", {"embedding_dim": 5}))
    assert torch.equal(part(inputs), part.embedding.weight[inputs.tag])


@pytest.mark.parametrize("order", list(itertools.permutations(["token", "previous_state", "language_tag"], 2)))
def test_a_query_concatenates_its_inputs_in_order(order):
    inputs = random_step()
    parts = [make((name, {})) for name in order]
    query = Query(parts)
    assert query.size == sum(part.size for part in parts)
    torch.testing.assert_close(query(inputs), torch.cat([part(inputs) for part in parts], -1))


def test_the_empty_query_has_no_width():
    query = Query([])
    assert query.size == 0
    assert query(random_step()).shape == (2, 3, 0)
