"""Laws of the planner and its schedules: every admitted schedule gives the same numbers, the others are refused."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnx import registry
from attnx.attention.plan import Plan
from attnx.errors import UserError
from attnx.models.composition import compose
from attnx.models.schedules import SCHEDULES

pytestmark = pytest.mark.usefixtures("float64")
Config = dict[str, Any]
Built = Callable[..., Any]

NAMES = registry.names("query")
QUERIES = [query for count in (1, 2, 3) for query in itertools.combinations(NAMES, count)]
FEEDS = (None, "now", "next", "none")
MEMORIES = ("states", "inputs", "layer:0")
SCOPES: list[Any] = [("local", {"window": 1, "center": center}) for center in ("monotonic", "predictive")] + [
    name for name in registry.names("scope") if name != "local"
]
SCORERS = registry.names("scorer")
# Rows of unlike length, none of them empty; the target is read by all.
SOURCE = torch.tensor([[3, 19, 7, 2, 11], [5, 13, 0, 0, 0]])
PRESENT = SOURCE != 0
INPUTS = torch.tensor([[1, 5, 3], [1, 7, 13]])


def needs(query: tuple[str, ...]) -> set[str]:
    return {registry.part("query", name).declares["needs"] for name in query}


def feed_of(query: tuple[str, ...], feed: str | None) -> str:
    """The feed that the design gives a query that names none; a current state rules ``now`` out."""
    if feed is not None or "after" in needs(query):
        return feed or "none"
    return "now" if "before" in needs(query) or needs(query) <= {"token"} else "none"


def contradicts(query: tuple[str, ...], feed: str | None) -> bool:
    return feed == "now" and "after" in needs(query)


def admitted(query: tuple[str, ...], feed: str | None) -> tuple[str, ...]:
    """The design's table, for memories that do not grow, scorers without a past and teacher forcing throughout."""
    feed = feed_of(query, feed)
    if "context" in needs(query) or feed == "next":
        return ("step_by_step",)
    found = ["run_then_attend"] if feed == "none" else []
    # With feed=none too a query of known inputs alone may attend first: no state is asked, none is fed.
    found += ["attend_then_run"] if needs(query) <= {"token"} else []
    return (*found, "step_by_step")


GRID = [
    pytest.param(query, feed, id=f"{'+'.join(query)}-{feed or 'unset'}")
    for query in QUERIES
    for feed in FEEDS
    if not contradicts(query, feed)
]
over_the_grid = pytest.mark.parametrize(("query", "feed"), GRID)


def compositions(query: tuple[str, ...], feed: str | None) -> list[Config]:
    """Every scope; memories and scorers take turns, each query and feed beginning with another."""
    first = QUERIES.index(query) * len(FEEDS) + FEEDS.index(feed)
    return [
        {
            "query": query,
            "scope": scope,
            "scorer": SCORERS[(first + turn) % len(SCORERS)],
            "model": {"feed": feed, "memory": MEMORIES[(first // len(FEEDS) + first + turn) % len(MEMORIES)]},
            "encoder": {"layers": 2, "bidirectional": False},
            "decoder": {"layers": 2},
        }
        for turn, scope in enumerate(SCOPES)
    ]


def with_dropout(choices: Config) -> Config:
    """Drop units everywhere something can be dropped."""
    return {
        **choices,
        "model": {**choices.get("model", {}), "dropout": 0.3},
        "encoder": {**choices.get("encoder", {}), "dropout": 0.3},
        "decoder": {**choices.get("decoder", {}), "dropout": 0.3},
        "attention": choices.get("attention", ("on", {"dropout": 0.3})),
    }


def learn(model: Any, schedule: str) -> dict[str, Tensor]:
    """One pass by a schedule, and the gradient of every parameter that has one."""
    torch.manual_seed(47)  # every schedule draws the same masks
    model.zero_grad(set_to_none=True)
    output = model(SOURCE, PRESENT, INPUTS, need_weights=True, schedule=schedule)
    slope = torch.linspace(-1, 1, output.logits.numel(), dtype=output.logits.dtype)
    (output.logits * slope.reshape(output.logits.shape)).sum().backward()
    results = {"logits": output.logits.detach()}
    if output.weights is not None:
        results["weights"] = output.weights.detach()
    return results | {name: value.grad for name, value in model.named_parameters() if value.grad is not None}


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(
            found[name], tensor, rtol=1e-7, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}"
        )


def assert_schedules_agree(model: Any) -> None:
    model.train()
    first, *others = (learn(model, schedule) for schedule in model.plan.admitted)
    for other in others:
        assert_same(other, first)


def assert_generation_agrees(model: Any) -> None:
    """Steps of generation, told the target, give the log-probabilities of the teacher-forced pass."""
    model.eval()
    with torch.no_grad():
        output = model(SOURCE, PRESENT, INPUTS, need_weights=True)
        expected, state = torch.log_softmax(output.logits, -1), model.begin(SOURCE, PRESENT)
        for step in range(INPUTS.shape[1]):
            found, state, read = model.step(INPUTS[:, step], state, need_weights=True)
            torch.testing.assert_close(found, expected[:, step])
            if output.weights is not None:
                torch.testing.assert_close(read.weights[:, 0], output.weights[:, step])


def assert_padding_changes_nothing(model: Any) -> None:
    """More padding behind the sources, whatever symbols stand there, changes neither outputs nor gradients."""
    model.eval()
    results = []
    for source, present in (
        (SOURCE, PRESENT),
        (
            torch.cat([SOURCE.masked_fill(~PRESENT, 17), torch.full((2, 3), 19)], 1),
            torch.cat([PRESENT, torch.zeros(2, 3).bool()], 1),
        ),
    ):
        model.zero_grad(set_to_none=True)
        output = model(source, present, INPUTS, need_weights=True)
        output.logits.pow(2).sum().backward()
        gradients = {name: value.grad for name, value in model.named_parameters() if value.grad is not None}
        results.append({"logits": output.logits, **gradients})
        if output.weights is not None and output.weights.shape[-1] > 5:
            assert (output.weights[..., 5:] == 0).all()
    assert_same(*results)


@over_the_grid
def test_the_table(composed: Callable[..., Config], query: tuple[str, ...], feed: str | None) -> None:
    """The feed and the admitted schedules are the design's, whatever scores and wherever it may read."""
    for choices in compositions(query, feed):
        plan = compose(composed(**choices)).plan
        assert plan.feed == feed_of(query, feed)
        assert plan.admitted == admitted(query, feed)
        assert plan.schedule == plan.admitted[0]


@over_the_grid
def test_the_others_are_refused(composed: Callable[..., Config], query: tuple[str, ...], feed: str | None) -> None:
    """Insisting on an admitted schedule gives it; insisting on another names a reason that is true."""
    true = {
        "the query holds the last context": "context" in needs(query),
        r"model\.feed=next": feed_of(query, feed) == "next",
        r"a state \(model\.feed=now\)": feed_of(query, feed) == "now" and not needs(query) <= {"token"},
        r"the context enters the recurrence \(model\.feed=now\); use attend": feed_of(query, feed) == "now",
        "the query holds a state, which": not needs(query) <= {"token"},
    }
    reasons = "|".join(reason for reason, holds in true.items() if holds)
    for schedule in SCHEDULES:
        config = composed(query=query, model={"feed": feed}, attention=("on", {"schedule": schedule}))
        if schedule in admitted(query, feed):
            assert compose(config).plan.schedule == schedule
        else:
            with pytest.raises(UserError, match=rf"attention\.schedule={schedule} is not possible: .*({reasons})"):
                compose(config)


@pytest.mark.parametrize("query", [query for query in QUERIES if "current_state" in query], ids="+".join)
def test_a_current_state_cannot_feed_the_cell_that_makes_it(
    composed: Callable[..., Config], query: tuple[str, ...]
) -> None:
    with pytest.raises(UserError, match=re.escape("model.feed=now contradicts query=current_state")):
        compose(composed(query=query, model={"feed": "now"}))


@over_the_grid
def test_admitted_schedules_agree(built: Built, query: tuple[str, ...], feed: str | None) -> None:
    """Logits, weights and every gradient, with units dropped everywhere."""
    for choices in compositions(query, feed):
        assert_schedules_agree(built(**with_dropout(choices)))


@over_the_grid
def test_generation_agrees(built: Built, query: tuple[str, ...], feed: str | None) -> None:
    for choices in compositions(query, feed):
        assert_generation_agrees(built(**choices))


@over_the_grid
def test_padding_changes_nothing(built: Built, query: tuple[str, ...], feed: str | None) -> None:
    for choices in compositions(query, feed):
        assert_padding_changes_nothing(built(**choices))


# Every scorer with every scope, under each of:
RECIPES = {
    "current_state": {"query": ["current_state"]},
    "token, now": {"query": ["token"], "model": {"feed": "now"}},
    "token and previous_state, none": {"query": ["token", "previous_state"], "model": {"feed": "none"}},
    "last_context, next": {"query": ["last_context", "token"], "model": {"feed": "next"}},
}


@pytest.mark.parametrize("scope", SCOPES, ids=str)
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_every_scorer_and_scope(built: Built, plain_scorer: Any, scope: Any, recipe: Config) -> None:
    """All the laws of schedules, for every pair of scorer and scope."""
    choices = {**recipe, "scorer": plain_scorer, "scope": scope, "readout": {"inputs": ["state", "context", "token"]}}
    model = built(**with_dropout(choices))
    assert_schedules_agree(model)
    assert_generation_agrees(model)
    assert_padding_changes_nothing(model)


BASELINES = {None: "attend_then_run", "now": "attend_then_run", "next": "step_by_step", "none": "run_then_attend"}


@pytest.mark.parametrize(("feed", "chosen"), BASELINES.items(), ids=map(str, BASELINES))
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_no_attention(built: Built, feed: str | None, chosen: str, cell: str) -> None:
    """The baseline obeys the same laws: its context is known before anything runs."""
    model = built(
        **with_dropout({"attention": "none", "model": {"feed": feed}, "decoder": {"cell": cell, "layers": 2}})
    )
    assert model.plan.schedule == chosen
    assert_schedules_agree(model)
    assert_generation_agrees(model)
    assert_padding_changes_nothing(model)


def any_composition() -> st.SearchStrategy[Config]:
    """Any choices at all that do not contradict each other."""
    cells, layers = st.sampled_from(["lstm", "gru", "rnn"]), st.integers(1, 3)
    inputs = st.lists(st.sampled_from(["state", "context", "token"]), min_size=1, max_size=3, unique=True)
    sources = st.sampled_from([*MEMORIES, "layer:1"])
    return st.fixed_dictionaries(
        {
            "scorer": st.sampled_from(SCORERS),
            "scope": st.sampled_from(SCOPES),
            "normaliser": st.sampled_from(registry.names("normaliser")),
            "query": st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True).map(tuple),
            "model": st.fixed_dictionaries(
                {
                    "feed": st.sampled_from(FEEDS),
                    "memory": sources,
                    "values": st.none() | sources,
                    "bridge": st.sampled_from([None, "zeros", "learned", "last"]),
                    "tied": st.booleans(),
                }
            ),
            "encoder": st.fixed_dictionaries({"cell": cells, "layers": layers, "bidirectional": st.booleans()}),
            "decoder": st.fixed_dictionaries({"cell": cells, "layers": layers}),
            "readout": st.fixed_dictionaries({"inputs": inputs, "tanh": st.booleans()}),
        }
    ).filter(is_possible)


def is_possible(choices: Config) -> bool:
    model, layers = choices["model"], choices["encoder"]["layers"]
    without_encoder = model["memory"] == "inputs" and model["values"] in (None, "inputs")
    too_high = layers == 1 and "layer:1" in (model["memory"], model["values"])
    nowhere = without_encoder and model["bridge"] == "last"
    return (
        not contradicts(choices["query"], model["feed"])
        and not too_high
        and not nowhere
        and all_is_read(choices["query"], model["feed"], choices["readout"]["inputs"])
    )


def all_is_read(query: tuple[str, ...], feed: str | None, inputs: list[str]) -> bool:
    """State and context both reach the output: read out, or one by way of the other."""
    from_context_to_state = feed_of(query, feed) == "now"
    from_state_to_context = bool(needs(query) & {"before", "after"})
    return ("state" in inputs or ("context" in inputs and from_state_to_context)) and (
        "context" in inputs or ("state" in inputs and from_context_to_state)
    )


@settings(deadline=None, max_examples=40)
@given(choices=any_composition())
def test_any_composition(built: Built, choices: Config) -> None:
    """Cells, layers, bridges, keys and values from unlike places, tied outputs, readouts: the laws hold throughout."""
    torch.set_default_dtype(torch.float64)
    model = built(**with_dropout(choices))
    assert model.plan.admitted == admitted(choices["query"], choices["model"]["feed"])
    assert_schedules_agree(model)
    assert_generation_agrees(model)
    assert_padding_changes_nothing(model)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_forbidden_schedule_would_be_wrong(built: Built, schedule: str) -> None:
    """The planner does not refuse for nothing: run first with ``feed=next`` and nothing would be fed."""
    model = built(model={"feed": "next"})
    assert model.plan.admitted == ("step_by_step",)
    if schedule != "step_by_step":
        with pytest.raises((AssertionError, RuntimeError)):
            learn(model, schedule)


def test_sampling_steps(built: Built, composed: Callable[..., Config]) -> None:
    """Scheduled sampling steps; at chance 0 it is teacher forcing, at chance 1 only the first token is told."""
    plan: Plan = compose(composed(model={"sampling": 0.3})).plan
    assert plan.admitted == ("step_by_step",)
    model = built(model={"sampling": 0.3}).eval()
    told = model(SOURCE, PRESENT, INPUTS).logits
    torch.testing.assert_close(model(SOURCE, PRESENT, INPUTS, sampling=0.0).logits, told)
    other = torch.cat([INPUTS[:, :1], INPUTS[:, 1:] + 2], 1)
    outputs = []
    for inputs in (INPUTS, other):
        torch.manual_seed(47)
        outputs.append(model(SOURCE, PRESENT, inputs, sampling=1.0).logits)
    torch.testing.assert_close(*outputs)


def unused(model: Any) -> list[str]:
    """The parameters that a pass by the plan's schedule leaves without a gradient. (Zeros are a gradient.)"""
    learned = learn(model, model.plan.schedule)
    return [name for name, value in model.named_parameters() if value.requires_grad and name not in learned]


@over_the_grid
def test_every_parameter_gets_a_gradient(built: Built, query: tuple[str, ...], feed: str | None) -> None:
    """A parameter without one would stop distributed training."""
    for choices in compositions(query, feed):
        assert not unused(built(**choices))


def collect_unused(built: Built, every: list[Config]) -> dict[str, list[str]]:
    """What is unused, by composition; one that is refused as contradictory has nothing to train."""
    found = {}
    for choices in every:
        try:
            found[str(choices)] = unused(built(**choices))
        except UserError:
            continue
    return {choices: names for choices, names in found.items() if names}


def test_every_parameter_gets_a_gradient_whatever_is_remembered(built: Built) -> None:
    """Layers that nothing reads are not built."""
    places = itertools.product([(1, 1), (2, 2), (2, 1), (1, 2)], MEMORIES, [None, *MEMORIES], [None, "zeros"])
    every = [
        {
            "model": {"memory": memory, "values": values, "bridge": bridge},
            "encoder": {"layers": below, "bidirectional": False},
            "decoder": {"layers": above},
        }
        for (below, above), memory, values, bridge in places
    ]
    assert not collect_unused(built, every)


READOUTS = [list(some) for n in (1, 2, 3) for some in itertools.combinations(["state", "context", "token"], n)]


def test_every_parameter_gets_a_gradient_whatever_is_read_out(built: Built) -> None:
    """What is built can be trained throughout."""
    every = [
        {"query": [name], "model": {"feed": feed}, "encoder": {"bidirectional": False}, "readout": {"inputs": inputs}}
        for name, feed, inputs in itertools.product(NAMES, FEEDS[1:], READOUTS)
        if not contradicts((name,), feed)
    ]
    assert not collect_unused(built, every)


@over_the_grid
def test_what_nothing_reads_is_refused(
    composed: Callable[..., Config], query: tuple[str, ...], feed: str | None
) -> None:
    """A readout may leave out the state or the context only where the other one brings it to the output."""
    for inputs in READOUTS:
        config = composed(query=query, model={"feed": feed}, readout={"inputs": inputs})
        if all_is_read(query, feed, inputs):
            compose(config)
        else:
            with pytest.raises(UserError, match=r"nothing that leads to the output reads the (state|context)"):
                compose(config)


PLUGIN = '''
"""A scorer of somebody else's."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.registry import Size, register


@register("scorer", "first_unit_of_lore")
class FirstUnit(nn.Module):
    """The first unit of the memory alone."""

    equal_widths = False

    def __init__(self, query_size: Size, memory_size: Size, sign: bool = True) -> None:
        super().__init__()
        self.sign = 1.0 if sign else -1.0

    def keys(self, memory: Tensor) -> Tensor:
        return self.sign * memory[..., :1]

    def queries(self, queries: Tensor) -> Tensor:
        return queries[..., :1] * 0 + 1

    def compare(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries @ keys.mT
'''


def test_a_plug_in_is_a_scorer_like_any_other(built: Built, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file in a folder: it is named, it is built by its name, and it obeys the laws of schedules."""
    assert "first_unit_of_lore" not in registry.names("scorer")
    (tmp_path / "lore_of_scorers.py").write_text(PLUGIN)
    monkeypatch.setenv("ATTNX_PLUGINS", str(tmp_path))
    monkeypatch.setattr(registry, "_registered", registry._registered.copy())  # what is imported here is forgotten
    assert "first_unit_of_lore" in registry.names("scorer")
    assert registry.part("scorer", "first_unit_of_lore").origin == "plug-in lore_of_scorers.py"
    for sign in (True, False):
        model = built(scorer=("first_unit_of_lore", {"sign": sign}), query=["token"], model={"feed": "now"})
        assert_schedules_agree(model)
        assert_generation_agrees(model)
        assert_padding_changes_nothing(model)
