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
from attnx.errors import UserError
from attnx.models.schedules import SCHEDULES
from attnx.models.seq2seq_composition import compose
from attnx.nn.targets.numbers import Numbers

pytestmark = pytest.mark.usefixtures("float64")
Config = dict[str, Any]
Built = Callable[..., Any]

NAMES = registry.names("query")
NEEDS = {name: registry.part("query", name).declares["needs"] for name in NAMES}
QUERIES = [query for count in range(1, len(NAMES) + 1) for query in itertools.combinations(NAMES, count)]
FEEDS = (None, "now", "next", "none")
BOTH = ["encoder", "decoder"]
SCOPES: list[Any] = [
    *((name, {}) for name in registry.names("scope")),
    ("local", {"center": "predictive"}),
    ("local", {"center": "predictive", "sources": BOTH}),
    ("local", {"sources": BOTH, "include_self": True}),
    ("local", {"sources": ["decoder"]}),
    ("encoder_decoder", {"include_self": True}),
    ("history", {"include_self": True}),
]
DEFAULTS = {
    part.name: {"sources": ["encoder"], **part.declares, **{knob.name: knob.default for knob in part.knobs}}
    for part in (registry.part("scope", name) for name in registry.names("scope"))
}
SCORERS, NORMALISERS = (
    {name: registry.part(kind, name).declares for name in registry.names(kind)} for kind in ("scorer", "normaliser")
)
POSITIONS = ["one_hot", "sinusoidal"]
READOUTS = [list(some) for n in (1, 2, 3) for some in itertools.combinations(["state", "context", "token"], n)]
# Those that can contradict each other come first, so that few are tried in vain.
FACTORS: dict[str, Any] = {
    "query": [query for query in QUERIES if len(query) in (1, 2, len(NAMES))],
    "feed": FEEDS,
    "scope": SCOPES,
    "read_out": READOUTS,
    "memory": ["states", "inputs", "layer:0", *POSITIONS],
    "values": [None, "states", "inputs", "layer:0"],
    "bridge": [None, "zeros", "learned", "last"],
    "tag": [None, ["encoder"], ["decoder"], BOTH],
    "scorer": list(SCORERS),
    "normaliser": list(NORMALISERS),
    "heads": [1, 2],
    "tanh": [True, False],
    "tied": [False, True],
    "cell": ["lstm", "gru", "rnn"],
    "layers": [(1, 1), (2, 2), (3, 2), (1, 3)],
    "bidirectional": [True, False],
    "hidden": [11, 13],
    "written": ["symbols", "numbers"],
    "output": ["linear", "copying"],
    "encoder": ["recurrent", "pyramid"],
}

# Rows of unlike length and tag; the target is read by all.
SOURCE = torch.tensor([[3, 19, 7, 2, 11, 17, 5], [5, 13, 22, 0, 0, 0, 0]])
PRESENT = SOURCE != 0
INPUTS = torch.tensor([[1, 5, 3, 8], [1, 7, 13, 2]])
ROWS = torch.linspace(-2, 3, 2 * 4 * 5, dtype=torch.float64).reshape(2, 4, 5)  # where a step is five numbers
TAG = torch.tensor([2, 0])


def needs(query: tuple[str, ...]) -> set[str]:
    return {NEEDS[name] for name in query}


def knob(scope: Any, name: str) -> Any:
    """The value of a scope's knob: what is given, or its default."""
    return scope[1].get(name, DEFAULTS[scope[0]].get(name))


def feed_of(query: tuple[str, ...], feed: str | None) -> str:
    """The feed that the design gives a query that names none; a current state rules ``now`` out."""
    if feed is not None or "after" in needs(query):
        return feed or "none"
    return "now" if "before" in needs(query) or needs(query) <= {"token", "tag"} else "none"


def contradicts(query: tuple[str, ...], feed: str | None) -> bool:
    return feed == "now" and "after" in needs(query)


def admitted(query: tuple[str, ...], feed: str | None, scope: Any, scorer: str) -> tuple[str, ...]:
    """The design's table, under teacher forcing throughout."""
    feed, grows, known = feed_of(query, feed), "decoder" in knob(scope, "sources"), needs(query) <= {"token", "tag"}
    if "context" in needs(query) or feed == "next" or (feed == "now" and (grows or not known)) or needs_past(scorer):
        return ("step_by_step",)
    found = ["run_then_attend"] if feed == "none" else []
    # With feed=none too a query of known inputs alone may attend first: no state is asked, none is fed.
    found += ["attend_then_run"] if known and not grows else []
    return (*found, "step_by_step")


def needs_past(scorer: str) -> bool:
    return bool(SCORERS[scorer].get("needs_past"))


def all_is_read(query: tuple[str, ...], feed: str | None, scope: Any, read_out: list[str]) -> bool:
    """State and context both reach the output: read out, or one by way of the other."""
    from_context_to_state = feed_of(query, feed) == "now"
    from_state_to_context = bool(needs(query) & {"before", "after"}) or "decoder" in knob(scope, "sources")
    return ("state" in read_out or ("context" in read_out and from_state_to_context)) and (
        "context" in read_out or ("state" in read_out and from_context_to_state)
    )


def has_encoder(scope: Any, memory: str, values: str | None, bridge: str | None) -> bool:
    """Something of an encoder is remembered; or nothing of the source is, and the decoder starts from one."""
    if "encoder" not in knob(scope, "sources"):
        return bridge in (None, "last")
    picked = {memory, values or ("states" if memory in POSITIONS else memory)}
    return not picked <= {"inputs", *POSITIONS}


# What some choices must not be together.
RULES: dict[tuple[str, ...], Callable[..., bool]] = {
    ("query", "feed"): lambda query, feed: not contradicts(query, feed),
    ("query", "scope"): lambda query, scope: not knob(scope, "include_self") or needs(query) & {"before", "after"},
    ("scope", "memory"): lambda scope, memory: "encoder" in knob(scope, "sources") or memory in ["states", *POSITIONS],
    ("scope", "values"): lambda scope, values: "encoder" in knob(scope, "sources") or values in [None, "states"],
    ("bridge", "scope", "memory", "values"): lambda bridge, *of: bridge != "last" or has_encoder(*of, bridge),
    ("tag", "scope", "memory", "values", "bridge"): lambda tag, *of: "encoder" not in (tag or []) or has_encoder(*of),
    ("query", "feed", "scope", "read_out"): all_is_read,
    ("tied", "written"): lambda tied, written: not tied or written == "symbols",
    ("encoder", "scope", "memory", "values"): lambda encoder, scope, memory, values: (
        encoder == "recurrent" or "encoder" not in knob(scope, "sources") or {memory, values or memory} == {"states"}
    ),
    # What is copied are symbols of the source, by weights that are shares of one.
    ("output", "written"): lambda output, written: output == "linear" or written == "symbols",
    ("output", "scope"): lambda output, scope: output == "linear" or "encoder" in knob(scope, "sources"),
    ("output", "normaliser"): lambda output, normaliser: output == "linear" or NORMALISERS[normaliser]["sums_to_one"],
    # Who leaps to the highest score needs one, and positions as keys are alike in both sources.
    ("normaliser", "memory", "scope"): lambda normaliser, memory, scope: (
        NORMALISERS[normaliser].get("differentiable", True) or memory not in POSITIONS or knob(scope, "sources") != BOTH
    ),
}


def possible(chosen: Config) -> bool:
    """Whether choices, some or all, do not contradict each other."""
    return all(rule(*(chosen[name] for name in names)) for names, rule in RULES.items() if chosen.keys() >= set(names))


def choices(chosen: Config) -> Config:
    """The nodes of a configuration, with units dropped everywhere something can be dropped."""
    below, above = chosen["layers"]
    cell = {"dropout": 0.3, "cell": chosen["cell"]}
    reads = {"name": chosen["encoder"], "layers": below, "bidirectional": chosen["bidirectional"]}
    model = {name: chosen[name] for name in ("feed", "memory", "values", "bridge", "tag", "tied")}
    hidden = chosen["hidden"] * chosen["heads"]
    return {
        **{kind: chosen[kind] for kind in ("query", "scorer", "scope", "normaliser", "output")},
        "model": {"dropout": 0.3, **model},
        "attention": ("on", {"dropout": 0.3, "heads": chosen["heads"]}),
        "encoder": {**cell, **reads, "hidden": hidden},
        "decoder": {**cell, "layers": above},
        "readout": {"inputs": chosen["read_out"], "tanh": chosen["tanh"]},
        "target_features": ROWS.shape[-1] if chosen["written"] == "numbers" else 0,
    }


def told(model: Any) -> Tensor:
    """What the decoder is to read: symbols, or rows of numbers."""
    return ROWS if isinstance(model.target, Numbers) else INPUTS


def learn(model: Any, schedule: str | None = None) -> dict[str, Tensor]:
    """One pass by a schedule: what comes out, and the gradient of every parameter that has one."""
    torch.manual_seed(47)  # every schedule draws the same masks
    model.zero_grad(set_to_none=True)
    output = model(SOURCE, PRESENT, told(model), TAG, need_weights=True, schedule=schedule)
    slope = torch.linspace(-1, 1, output.logits.numel(), dtype=output.logits.dtype)
    loss = (output.logits * slope.reshape(output.logits.shape)).sum()
    (loss if output.penalty is None else loss + output.penalty.sum()).backward()
    return {name: tensor.detach() for name, tensor in output._asdict().items() if tensor is not None} | gradients(model)


def gradients(model: Any) -> dict[str, Tensor]:
    return {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(
            found[name], tensor, rtol=1e-7, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}"
        )


def assert_schedules_agree(model: Any) -> None:
    """The same outputs and gradients; every parameter has one, since one without would stop distributed training."""
    first, *others = (learn(model, schedule) for schedule in model.plan.admitted)
    for other in others:
        assert_same(other, first)
    assert {name for name, value in model.named_parameters() if value.requires_grad} <= first.keys()


def assert_generation_agrees(model: Any, output: Any) -> None:
    """Steps of generation, told the target, give the log-probabilities or the numbers of the teacher-forced pass.

    Rows of the state between them can be reordered, as a beam does: then what comes out is, and nothing else differs.
    """
    inputs, order = told(model), torch.tensor([1, 0, 1])
    expected = output.logits if isinstance(model.target, Numbers) else torch.log_softmax(output.logits, -1)
    state = model.begin(SOURCE, PRESENT, TAG)
    for step in range(inputs.shape[1]):
        before, other = state, reordered(state, order)
        found, state, read = model.step(inputs[:, step], before, need_weights=True)
        torch.testing.assert_close(found, expected[:, step])
        if output.weights is not None:
            known, later = output.weights[..., step, :].tensor_split([read.weights.shape[-1]], dim=-1)
            torch.testing.assert_close(read.weights[..., 0, :], known)
            assert (later == 0).all()
        if output.penalty is not None:
            torch.testing.assert_close(read.penalty[:, 0], output.penalty[:, step])
    found_other, _, read_other = model.step(inputs[order, -1], other, need_weights=True)
    for one, straight in zip((found_other, *read_other), (found, *read), strict=True):
        assert (one is None) == (straight is None)
        if one is not None:
            torch.testing.assert_close(one, straight[order])


def reordered(value: Any, order: Tensor) -> Any:
    """A state with other rows; every tensor in it has its rows first."""
    if isinstance(value, Tensor):
        assert len(value) == len(SOURCE)
        return value[order]
    if isinstance(value, tuple):
        items = [reordered(item, order) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


def assert_rows_are_alone(model: Any) -> None:
    """Neither other rows nor padding, whatever symbols stand there, change outputs or gradients."""

    def outcome(*batches: tuple[Tensor, ...]) -> tuple[dict[str, Tensor], list[Any]]:
        model.zero_grad(set_to_none=True)
        outputs = [model(*batch, need_weights=True) for batch in batches]
        torch.stack([output.logits.pow(2).sum() for output in outputs]).sum().backward()
        return {"logits": torch.cat([output.logits for output in outputs])} | gradients(model), outputs

    inputs, more = told(model), torch.full((2, 3), 19)
    source, present = torch.cat([SOURCE.masked_fill(~PRESENT, 17), more], 1), torch.cat([PRESENT, more == 0], 1)
    together, (padded,) = outcome((source, present, inputs, TAG))
    rows = [(SOURCE[row : row + 1, :length], row) for row, length in enumerate(PRESENT.sum(-1).tolist())]
    alone, tight = outcome(*((row, row > 0, inputs[i : i + 1], TAG[i : i + 1]) for row, i in rows))
    assert_same(together, alone)
    for output, (row, i) in zip(tight, rows, strict=True):
        if output.weights is not None:
            first, own = (row.shape[1], 10) if "encoder" in model.sources else (0, 0)
            shown = padded.weights[i]
            torch.testing.assert_close(torch.cat([shown[..., :first], shown[..., own:]], -1), output.weights[0])
            assert (shown[..., first:own] == 0).all()
        if output.penalty is not None:
            torch.testing.assert_close(padded.penalty[i], output.penalty[0])


def assert_no_look_ahead(model: Any, output: Any) -> None:
    """Another token changes no earlier output."""
    changed = model(SOURCE, PRESENT, told(model).index_fill(1, torch.tensor([2]), 11), TAG)
    torch.testing.assert_close(changed.logits[:, :2], output.logits[:, :2])


def assert_laws(model: Any) -> None:
    """All laws of schedules."""
    assert_schedules_agree(model.train())
    assert_rows_are_alone(model.eval())
    with torch.no_grad():
        output = model(SOURCE, PRESENT, told(model), TAG, need_weights=True)
        assert_generation_agrees(model, output)
        assert_no_look_ahead(model, output)


def test_the_laws_hold(built: Built, combination: Config) -> None:
    """In combinations of all choices, such that any two which can meet do so in one of them."""
    model = built(**choices(combination))
    assert model.plan.admitted == admitted(*(combination[name] for name in ("query", "feed", "scope", "scorer")))
    assert_laws(model)


@settings(deadline=None, derandomize=True, max_examples=20)
@given(combination=st.fixed_dictionaries({name: st.sampled_from(FACTORS[name]) for name in FACTORS}).filter(possible))
def test_the_laws_hold_whatever_meets(built: Built, combination: Config) -> None:
    test_the_laws_hold(built, combination)


BASELINES = {None: "attend_then_run", "now": "attend_then_run", "next": "step_by_step", "none": "run_then_attend"}


@pytest.mark.parametrize(("feed", "chosen"), BASELINES.items(), ids=map(str, BASELINES))
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_no_attention(built: Built, feed: str | None, chosen: str, cell: str) -> None:
    """The baseline obeys the same laws: its context is known before anything runs."""
    drop = {"dropout": 0.3}
    model = built(
        attention="none",
        model={**drop, "feed": feed, "tag": BOTH},
        encoder=drop,
        decoder={**drop, "cell": cell, "layers": 2},
    )
    assert model.plan.schedule == chosen
    assert_laws(model)


@pytest.mark.parametrize("feed", ["now", "none"])
@pytest.mark.parametrize("scope", SCOPES, ids=str)
def test_a_target_of_one_symbol_trains_everything(built: Built, scope: Any, feed: str) -> None:
    """It and its end are two steps, in which a history is hardly read; parameters have gradients, if of zeros."""
    model = built(scope=scope, query=["previous_state"], scorer="coverage", model={"feed": feed})
    model(SOURCE, PRESENT, INPUTS[:, :2], TAG).logits.sum().backward()
    assert all(value.grad is not None for value in model.parameters())


def grid(sizes: tuple[int, ...]) -> list[Any]:
    return [
        pytest.param(query, feed, id=f"{'+'.join(query)}-{feed or 'unset'}")
        for query in QUERIES
        for feed in FEEDS
        if len(query) in sizes and not contradicts(query, feed)
    ]


# A memory that stays, one that grows, and a scorer that looks back.
SITES = [("global", "dot"), ("history", "dot"), ("global", "coverage")]


@pytest.mark.parametrize(("query", "feed"), grid((1, 2, 3, 4, 5)))
def test_the_table(composed: Callable[..., Config], query: tuple[str, ...], feed: str | None) -> None:
    """The feed and the admitted schedules are the design's."""
    for scope, scorer in SITES:
        plan = compose(composed(query=query, scope=scope, scorer=scorer, model={"feed": feed})).plan
        assert plan.feed == feed_of(query, feed)
        assert plan.admitted == admitted(query, feed, (scope, {}), scorer)
        assert plan.schedule == plan.admitted[0]


@pytest.mark.parametrize("site", SITES, ids="-".join)
@pytest.mark.parametrize(("query", "feed"), grid((1, 2)))
def test_the_others_are_refused(
    composed: Callable[..., Config], query: tuple[str, ...], feed: str | None, site: tuple[str, str]
) -> None:
    """Insisting on an admitted schedule gives it; insisting on another names a reason that is true."""
    scope, scorer = site
    fed, known = feed_of(query, feed), needs(query) <= {"token", "tag"}
    true = {
        "the scorer reads the weights of earlier steps": needs_past(scorer),
        "the query holds the last context": "context" in needs(query),
        r"model\.feed=next": fed == "next",
        r"a state \(model\.feed=now\)": fed == "now" and not known,
        "the memory grows with it": fed == "now" and scope == "history",
        "the memory grows while decoding": fed == "none" and known and scope == "history",
        r"the context enters the recurrence \(model\.feed=now\); use attend": fed == "now",
        "the query holds a state, which": not known,
    }
    reasons = "|".join(reason for reason, holds in true.items() if holds)
    for schedule in SCHEDULES:
        config = composed(
            query=query, scope=scope, scorer=scorer, model={"feed": feed}, attention=("on", {"schedule": schedule})
        )
        if schedule in admitted(query, feed, (scope, {}), scorer):
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


@pytest.mark.parametrize("scope", ["global", "history"])
@pytest.mark.parametrize(("query", "feed"), grid((1,)))
def test_what_nothing_reads_is_refused(
    composed: Callable[..., Config], query: tuple[str, ...], feed: str | None, scope: str
) -> None:
    """A readout may leave out the state or the context only where the other one brings it to the output."""
    for inputs in READOUTS:
        config = composed(query=query, scope=scope, model={"feed": feed}, readout={"inputs": inputs})
        if all_is_read(query, feed, (scope, {}), inputs):
            compose(config)
        else:
            with pytest.raises(UserError, match=r"nothing that leads to the output reads the (state|context)"):
                compose(config)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_forbidden_schedule_would_be_wrong(built: Built, schedule: str) -> None:
    """The planner does not refuse for nothing: run first with ``feed=next`` and nothing would be fed."""
    model = built(model={"feed": "next"})
    assert model.plan.admitted == ("step_by_step",)
    if schedule != "step_by_step":
        with pytest.raises((AssertionError, RuntimeError)):
            learn(model, schedule)


@pytest.mark.parametrize("features", [0, 5])
@pytest.mark.parametrize("scope", ["global", "encoder_decoder", "history"])
def test_sampling_steps(built: Built, scope: str, features: int) -> None:
    """Scheduled sampling steps; at chance 0 it is teacher forcing, at chance 1 only the first token is told."""
    model = built(scope=scope, target_features=features, model={"sampling": 0.3}).eval()
    assert model.plan.admitted == ("step_by_step",)
    given = told(model)
    forced = model(SOURCE, PRESENT, given, TAG).logits
    torch.testing.assert_close(model(SOURCE, PRESENT, given, TAG, sampling=0.0).logits, forced)
    other = torch.cat([given[:, :1], given[:, 1:] + 2], 1)
    outputs = []
    for inputs in (given, other):
        torch.manual_seed(47)
        outputs.append(model(SOURCE, PRESENT, inputs, TAG, sampling=1.0).logits)
    torch.testing.assert_close(*outputs)


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
        assert_laws(built(scorer=("first_unit_of_lore", {"sign": sign}), query=["token"], model={"feed": "now"}))
