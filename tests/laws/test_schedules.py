"""Laws of the planner and its schedules: every admitted schedule gives the same numbers, the others are refused."""

import contextlib
import copy
import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnx import accel, registry
from attnx.data.batches import Batch
from attnx.errors import UserError
from attnx.laws.candidate import LawSkipped
from attnx.laws.model import INPUTS as FOUR_STEPS
from attnx.laws.model import SOURCE, SOURCE_MASK, TAG, ModelLaws, outputs_and_gradients
from attnx.models.resolve import resolve_model
from attnx.models.seq2seq.schedules import SCHEDULES
from attnx.nn.targets.numbers import Numbers
from tests.conftest import combination_name, each_choice

pytestmark = pytest.mark.usefixtures("float64")
Config = dict[str, Any]
BuildModel = Callable[..., Any]

NAMES = registry.names("query")
NEEDS = {name: registry.describe("query", name).declarations["needs"] for name in NAMES}
QUERIES = [query for count in range(1, len(NAMES) + 1) for query in itertools.combinations(NAMES, count)]
FEEDS = (None, "now", "next", "none")
BOTH = ["encoder", "decoder"]
SCOPES: list[Any] = [
    *((name, {}) for name in registry.names("scope")),
    ("local", {"center": "predictive"}),
    ("local", {"center": "predictive", "sources": BOTH}),
    ("local", {"sources": BOTH, "include_self": True}),
    ("encoder_decoder", {"include_self": True}),
    ("history", {"include_self": True}),
]
DEFAULTS = {
    part.name: {"sources": ["encoder"], **part.declarations, **{option.name: option.default for option in part.options}}
    for part in (registry.describe("scope", name) for name in registry.names("scope"))
}
SCORERS, NORMALIZERS = (
    {name: registry.describe(kind, name).declarations for name in registry.names(kind)}
    for kind in ("scorer", "normalizer")
)
ALIKE = ("scorer", "normalizer")  # rules and schedules know what they declare
POSITIONS = ["one_hot", "sinusoidal"]
READOUTS = [list(some) for n in (1, 2, 3) for some in itertools.combinations(["state", "context", "token"], n)]
# The table of schedules is tested with all pairs of queries; for their numbers some will do.
PAIRS = [{"previous_state", "last_context"}, {"token", "language_tag"}]
# Those that can contradict each other come first, so that few are tried in vain.
FACTORS: dict[str, Any] = {
    "query": [query for query in QUERIES if len(query) in (1, len(NAMES)) or set(query) in PAIRS],
    "feed": FEEDS,
    "scope": SCOPES,
    "read_out": READOUTS,
    "keys_from": ["states", "inputs", "layer:0", *POSITIONS],
    "values_from": [None, "states", "inputs", "layer:0"],
    "bridge": [None, "zeros", "learned", "last"],
    "tag_inputs": [None, ["encoder"], ["decoder"], BOTH],
    "scorer": list(SCORERS),
    "normalizer": list(NORMALIZERS),
    "heads": [1, 2],
    "bias": [None, "alibi", "distance", "relative"],
    "tanh": [True, False],
    "tie_embeddings": [False, True],
    "cell": ["lstm", "gru", "rnn"],
    "layers": [(1, 1), (2, 2), (3, 2), (1, 3)],
    "bidirectional": [True, False],
    "hidden": [11, 13],
    "written": ["symbols", "numbers"],
    "output": ["linear", "copy"],
    "encoder": ["recurrent", "pyramid"],
}

# Three steps: the first, one between, and the last; where a step is five numbers, rows of them.
INPUTS = FOUR_STEPS[:, :3]
ROWS = torch.linspace(-2, 3, 2 * 3 * 5, dtype=torch.float64).reshape(2, 3, 5)


def needs(query: tuple[str, ...]) -> set[str]:
    return {NEEDS[name] for name in query}


def option(scope: Any, name: str) -> Any:
    """The value of a scope's option: what is given, or its default."""
    return scope[1].get(name, DEFAULTS[scope[0]].get(name))


def feed_of(query: tuple[str, ...], feed: str | None) -> str:
    """The feed that the design gives a query that names none; a current state rules ``now`` out."""
    if feed is not None or "state" in needs(query):
        return feed or "none"
    return "now" if "prev_state" in needs(query) or needs(query) <= {"token", "tag", "nothing"} else "none"


def contradicts(query: tuple[str, ...], feed: str | None) -> bool:
    return feed == "now" and "state" in needs(query)


def admitted_schedules(query: tuple[str, ...], feed: str | None, scope: Any, scorer: str) -> tuple[str, ...]:
    """The design's table, under teacher forcing throughout."""
    feed, grows, has_known_queries = (
        feed_of(query, feed),
        "decoder" in option(scope, "sources"),
        needs(query) <= {"token", "tag", "nothing"},
    )
    if (
        "context" in needs(query)
        or feed == "next"
        or (feed == "now" and (grows or not has_known_queries))
        or needs_history(scorer)
    ):
        return ("step_by_step",)
    result = ["run_then_attend"] if feed == "none" else []
    # With feed=none too a query of known inputs alone may attend first: no state is queried, and none is fed.
    result += ["attend_then_run"] if has_known_queries and not grows else []
    return (*result, "step_by_step")


def needs_history(scorer: str) -> bool:
    return bool(SCORERS[scorer].get("needs_history"))


def all_is_read(query: tuple[str, ...], feed: str | None, scope: Any, read_out: list[str]) -> bool:
    """State and context both reach the output: read out, or one by way of the other."""
    from_context_to_state = feed_of(query, feed) == "now"
    from_state_to_context = bool(needs(query) & {"prev_state", "state"}) or "decoder" in option(scope, "sources")
    return ("state" in read_out or ("context" in read_out and from_state_to_context)) and (
        "context" in read_out or ("state" in read_out and from_context_to_state)
    )


def has_encoder(scorer: str, scope: Any, memory: str, values: str | None, bridge: str | None) -> bool:
    """Something of an encoder is remembered; or nothing of the source is, and the decoder starts from one."""
    if "encoder" not in option(scope, "sources"):
        return bridge in (None, "last")
    picked = {values or ("states" if memory in POSITIONS else memory)}
    picked |= {memory} if SCORERS[scorer].get("needs_keys", True) else set()
    return not picked <= {"inputs", *POSITIONS}


# What some choices must not be together.
RULES: dict[tuple[str, ...], Callable[..., bool]] = {
    ("query", "feed"): lambda query, feed: not contradicts(query, feed),
    ("query", "scope"): lambda query, scope: (
        not option(scope, "include_self") or needs(query) & {"prev_state", "state"}
    ),
    ("scope", "keys_from"): lambda scope, memory: (
        "encoder" in option(scope, "sources") or memory in ["states", *POSITIONS]
    ),
    ("scope", "values_from"): lambda scope, values: "encoder" in option(scope, "sources") or values in [None, "states"],
    ("bridge", "scorer", "scope", "keys_from", "values_from"): lambda bridge, *of: (
        bridge != "last" or has_encoder(*of, bridge)
    ),
    ("tag_inputs", "scorer", "scope", "keys_from", "values_from", "bridge"): lambda tag, *of: (
        "encoder" not in (tag or []) or has_encoder(*of)
    ),
    ("query", "feed", "scope", "read_out"): all_is_read,
    ("tie_embeddings", "written"): lambda tied, written: not tied or written == "symbols",
    ("encoder", "scope", "keys_from", "values_from"): lambda encoder, scope, memory, values: (
        encoder == "recurrent" or "encoder" not in option(scope, "sources") or {memory, values or memory} == {"states"}
    ),
    # What is copied are symbols of the source, by weights that are shares of one.
    ("output", "written"): lambda output, written: output == "linear" or written == "symbols",
    ("output", "scope"): lambda output, scope: output == "linear" or "encoder" in option(scope, "sources"),
    ("output", "normalizer"): lambda output, normalizer: (
        output == "linear" or NORMALIZERS[normalizer]["is_distribution"]
    ),
    ("scorer", "scope"): lambda scorer, scope: (
        not SCORERS[scorer].get("is_recurrent") or option(scope, "sources") == ["encoder"]
    ),
    ("scorer", "keys_from"): lambda scorer, memory: SCORERS[scorer].get("needs_keys", True) or memory not in POSITIONS,
    ("normalizer", "scope"): lambda normalizer, scope: (
        not NORMALIZERS[normalizer].get("is_recurrent") or option(scope, "sources") == ["encoder"]
    ),
    # Who leaps to the highest score needs one, and positions as keys are alike in both sources.
    ("normalizer", "keys_from", "scope"): lambda normalizer, memory, scope: (
        NORMALIZERS[normalizer].get("is_differentiable", True)
        or memory not in POSITIONS
        or option(scope, "sources") != BOTH
    ),
    # So are the scores of positions without their vectors.
    ("normalizer", "scorer", "scope"): lambda normalizer, scorer, scope: (
        NORMALIZERS[normalizer].get("is_differentiable", True)
        or SCORERS[scorer].get("needs_keys", True)
        or option(scope, "sources") != BOTH
    ),
}


NAMED = {names: frozenset(names) for names in RULES}


def possible(choices: Config) -> bool:
    """Whether choices, some or all, do not contradict each other."""
    chosen = choices.keys()
    return all(rule(*map(choices.__getitem__, names)) for names, rule in RULES.items() if chosen >= NAMED[names])


def choices(options: Config, dropout: float = 0.3) -> Config:
    """The nodes of a configuration, with units dropped everywhere something can be dropped."""
    below, above = options["layers"]
    cell, read = {"dropout": dropout, "cell": options["cell"]}, {options["keys_from"], options["values_from"]}
    reads = {"name": options["encoder"], "layers": below, "bidirectional": options["bidirectional"]}
    reads |= {} if "states" in read else {"dropout": 0.0}  # else perhaps one layer is read
    model = {
        name: options[name] for name in ("feed", "keys_from", "values_from", "bridge", "tag_inputs", "tie_embeddings")
    }
    hidden = options["hidden"] * options["heads"]
    return {
        **{kind: options[kind] for kind in ("query", "scorer", "scope", "normalizer", "output")},
        "model": {"dropout": dropout, **model},
        "attention": ("standard", {"dropout": dropout, "heads": options["heads"], "bias": options["bias"]}),
        "encoder": {**cell, **reads, "hidden_size": hidden},
        "decoder": {**cell, "layers": above},
        "readout": {"inputs": options["read_out"], "tanh": options["tanh"]},
        "target_features": ROWS.shape[-1] if options["written"] == "numbers" else 0,
    }


def assert_laws(model: Any) -> None:
    """All laws of schedules."""
    laws = ModelLaws(model.eval(), inputs=ROWS if isinstance(model.target, Numbers) else INPUTS)
    for law in ModelLaws.collect():
        with contextlib.suppress(LawSkipped):  # one schedule alone
            getattr(laws, law.method)()


def training_batch(model: Any, rows: Tensor, inputs: Tensor = INPUTS, source: Tensor = SOURCE) -> Batch:
    """What a model learns, symbols or these rows, with lengths on the CPU."""
    target, source_mask = inputs.roll(-1, 1), source != 0
    values = rows if isinstance(model.target, Numbers) else target
    index, lengths = torch.arange(len(source)), source_mask.sum(-1)
    return Batch(source, source_mask, values, target != 0, index, TAG, source_lengths=lengths)


def assert_laws_of_schedules(build_model: BuildModel, combination: Config) -> None:
    model = build_model(**choices(combination))
    assert model.plan.valid_schedules == admitted_schedules(
        *(combination[name] for name in ("query", "feed", "scope", "scorer"))
    )
    assert_laws(model)


def test_the_schedules_obey_their_laws(build_model, combinations, subtests):
    """In combinations of all choices, such that any two which can meet do so in one of them."""
    for combination in combinations:
        with subtests.test(combination_name(combination)):
            assert_laws_of_schedules(build_model, combination)


@pytest.mark.usefixtures("float32")
def test_accel_keeps_outputs_and_gradients(build_model, combinations, subtests):
    """To rounding, by every schedule; and without gradients, where more of it is in C."""
    for combination in combinations:
        with subtests.test(combination_name(combination)):
            assert_accel_computes_the_same(build_model, combination)


def assert_accel_computes_the_same(build_model: BuildModel, combination: Config) -> None:
    """By the definition all schedules agree, so that one is computed."""
    model = build_model(**choices(combination)).eval()
    fast = accel.enable(copy.deepcopy(model))
    inputs = ROWS.float() if isinstance(model.target, Numbers) else INPUTS
    expected = outputs_and_gradients(ModelLaws(model, inputs=inputs), model.plan.schedule)
    for schedule in model.plan.valid_schedules:
        actual = outputs_and_gradients(ModelLaws(fast, inputs=inputs), schedule)
        assert actual.keys() == expected.keys()
        for name, tensor in expected.items():
            scale = max(1.0, float(tensor.abs().max()))
            torch.testing.assert_close(actual[name], tensor, rtol=1e-4, atol=1e-4 * scale, msg=name)
        with torch.no_grad():
            logits = fast(SOURCE, SOURCE_MASK, inputs, TAG, schedule=schedule).logits
        torch.testing.assert_close(logits, expected["logits"], rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("float32")
def test_a_training_step_waits_for_no_device(build_model, take_training_step, combinations):
    """In combinations in which every choice occurs, with lengths that the batch has on the CPU.

    A first step and one after it read sources of 4 and 3 positions.
    """
    for combination in each_choice(combinations):
        model = build_model(**choices(combination))
        take_training_step(model, training_batch(model, ROWS[:, :2].float(), INPUTS[:, :2], SOURCE[:, :4]))


def test_a_gpu_computes_the_same(build_model, assert_same_on_gpu, combinations):
    """In combinations in which every choice occurs, but for samples: a GPU draws other ones."""
    for combination in each_choice(combinations):
        model = build_model(**choices(combination, dropout=0.0))
        if not any(getattr(module, "is_sampled", False) for module in model.modules()):
            assert_same_on_gpu(model, training_batch(model, ROWS))


@settings(deadline=None, derandomize=True, max_examples=20, suppress_health_check=[HealthCheck.filter_too_much])
@given(
    combination=st.fixed_dictionaries({name: st.sampled_from(values) for name, values in FACTORS.items()}).filter(
        possible
    )
)
def test_the_schedules_obey_their_laws_in_every_composition(build_model, combination):
    assert_laws_of_schedules(build_model, combination)


@pytest.mark.parametrize(
    ("feed", "scope", "heads"),  # pairs
    [
        ("now", "global", 1),
        ("next", "global", 2),
        ("none", "global", 1),
        ("now", ("local", {"center": "predictive"}), 2),
        ("next", ("local", {"center": "predictive"}), 1),
        ("none", ("local", {"center": "predictive"}), 2),
        ("now", "encoder_decoder", 1),
        ("next", "encoder_decoder", 1),
        ("none", "encoder_decoder", 2),
    ],
    ids=str,
)
def test_hops_obey_the_laws(build_model, feed, scope, heads):
    attention = ("standard", {"dropout": 0.3, "heads": heads, "hops": 3})
    query = ["previous_state", "token"]
    assert_laws(build_model(attention=attention, scope=scope, query=query, model={"feed": feed, "dropout": 0.3}))


BASELINES = {None: "attend_then_run", "now": "attend_then_run", "next": "step_by_step", "none": "run_then_attend"}


@pytest.mark.parametrize(("feed", "choices"), BASELINES.items(), ids=map(str, BASELINES))
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_a_model_without_attention_has_one_schedule(build_model, feed, choices, cell):
    """The baseline obeys the same laws: its context is known before anything runs."""
    drop = {"dropout": 0.3}
    model = build_model(
        attention="none",
        model={**drop, "feed": feed, "tag_inputs": BOTH},
        encoder=drop,
        decoder={**drop, "cell": cell, "layers": 2},
    )
    assert model.plan.schedule == choices
    assert_laws(model)


@pytest.mark.parametrize("feed", ["now", "none"])
@pytest.mark.parametrize("scope", SCOPES, ids=str)
def test_a_target_of_one_symbol_trains_every_parameter(build_model, scope, feed):
    """It and its end are two steps, in which a history is hardly read; parameters have gradients, if of zeros."""
    model = build_model(scope=scope, query=["previous_state"], scorer="coverage", model={"feed": feed})
    model(SOURCE, SOURCE_MASK, INPUTS[:, :2], TAG).logits.sum().backward()
    assert all(value.grad is not None for value in model.parameters())


# Single inputs, pairs and all: what a set of them needs is the union of what they need.
FEW = [query for query in QUERIES if len(query) in (1, 2, len(NAMES))]
GRID = [(query, feed) for query in FEW for feed in FEEDS if not contradicts(query, feed)]
# A memory that stays, one that grows, and a scorer that looks back.
SITES = [("global", "dot"), ("history", "dot"), ("global", "coverage")]


@pytest.mark.parametrize(("scope", "scorer"), SITES, ids=map("-".join, SITES))
def test_the_table(compose_config, scope, scorer):
    """The feed and the admitted schedules are the design's."""
    for query, feed in GRID:
        plan = resolve_model(compose_config(query=query, scope=scope, scorer=scorer, model={"feed": feed})).plan
        assert plan.feed == feed_of(query, feed), (query, feed)
        assert plan.valid_schedules == admitted_schedules(query, feed, (scope, {}), scorer), (query, feed)
        assert plan.schedule == plan.valid_schedules[0], (query, feed)


@pytest.mark.parametrize(("scope", "scorer"), SITES, ids=map("-".join, SITES))
def test_other_schedules_are_refused(compose_config, scope, scorer):
    """Insisting on an admitted schedule gives it; insisting on another names a reason that is true."""
    for query, feed in GRID:
        fed, has_known_queries = feed_of(query, feed), needs(query) <= {"token", "tag", "nothing"}
        true = {
            "the scorer reads the weights of earlier steps": needs_history(scorer),
            "the query holds the last context": "context" in needs(query),
            r"model\.feed=next": fed == "next",
            r"a state \(model\.feed=now\)": fed == "now" and not has_known_queries,
            "the memory grows with it": fed == "now" and scope == "history",
            "the memory grows while decoding": fed == "none" and has_known_queries and scope == "history",
            r"the context enters the recurrence \(model\.feed=now\); use attend": fed == "now",
            "the query holds a state, which": not has_known_queries,
        }
        reasons = "|".join(reason for reason, holds in true.items() if holds)
        for schedule in SCHEDULES:
            model = {"feed": feed, "schedule": schedule}
            config = compose_config(query=query, scope=scope, scorer=scorer, model=model)
            if schedule in admitted_schedules(query, feed, (scope, {}), scorer):
                assert resolve_model(config).plan.schedule == schedule, (query, feed)
            else:
                with pytest.raises(UserError, match=rf"model\.schedule={schedule} is not possible: .*({reasons})"):
                    resolve_model(config)


def test_a_current_state_cannot_feed_the_cell_that_makes_it(compose_config):
    for query in FEW:
        if "current_state" in query:
            with pytest.raises(UserError, match=re.escape("model.feed=now contradicts query=current_state")):
                resolve_model(compose_config(query=query, model={"feed": "now"}))


@pytest.mark.parametrize("scope", ["global", "history"])
def test_an_unread_context_is_refused(compose_config, scope):
    """A readout may leave out the state or the context only where the other one brings it to the output."""
    single = [(query, feed) for query, feed in GRID if len(query) == 1]
    for (query, feed), inputs in itertools.product(single, READOUTS):
        config = compose_config(query=query, scope=scope, model={"feed": feed}, readout={"inputs": inputs})
        if all_is_read(query, feed, (scope, {}), inputs):
            resolve_model(config)
        else:
            with pytest.raises(UserError, match=r"nothing that leads to the output reads the (state|context)"):
                resolve_model(config)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_refused_schedule_would_change_outputs(build_model, schedule):
    """The planner does not refuse for nothing: run first with ``feed=next`` and nothing would be fed."""
    model = build_model(model={"feed": "next"})
    assert model.plan.valid_schedules == ("step_by_step",)
    if schedule != "step_by_step":
        with pytest.raises((AssertionError, RuntimeError)):
            outputs_and_gradients(ModelLaws(model), schedule)


@pytest.mark.parametrize("features", [0, 5])
@pytest.mark.parametrize("scope", ["global", "encoder_decoder", "history"])
def test_sampling_runs_step_by_step(build_model, scope, features):
    """Scheduled sampling runs step by step; chance 0 is teacher forcing, and chance 1 gives only the first token."""
    model = build_model(scope=scope, target_features=features, model={"scheduled_sampling": 0.3}).eval()
    assert model.plan.valid_schedules == ("step_by_step",)
    arguments = ROWS if features else INPUTS
    forced = model(SOURCE, SOURCE_MASK, arguments, TAG).logits
    torch.testing.assert_close(model(SOURCE, SOURCE_MASK, arguments, TAG, scheduled_sampling=0.0).logits, forced)
    changed = torch.cat([arguments[:, :1], arguments[:, 1:] + 2], 1)
    outputs = []
    for inputs in (arguments, changed):
        torch.manual_seed(47)
        outputs.append(model(SOURCE, SOURCE_MASK, inputs, TAG, scheduled_sampling=1.0).logits)
    torch.testing.assert_close(*outputs)


PLUGIN = '''
from attnx.attention.scorers.dot import Dot
from attnx.registry import Size, register


@register("scorer", "first_unit_of_lore")
class FirstUnit(Dot):
    """The first unit of the memory alone."""

    requires_equal_dims = False

    def __init__(self, query_size: Size, memory_size: Size, sign: bool = True):
        super().__init__()
        self.sign = 1.0 if sign else -1.0

    def project_keys(self, memory):
        return self.sign * memory[..., :1]

    def project_queries(self, queries):
        return queries[..., :1] * 0 + 1
'''


@pytest.mark.usefixtures("new_parts_are_forgotten")
def test_a_plug_in_scorer_obeys_the_laws(build_model, tmp_path, monkeypatch):
    """One file in a folder: it is named, it is built by its name, and it obeys the laws of schedules."""
    assert "first_unit_of_lore" not in registry.names("scorer")
    (tmp_path / "lore_of_scorers.py").write_text(PLUGIN)
    monkeypatch.setenv("ATTNX_PLUGINS", str(tmp_path))
    assert "first_unit_of_lore" in registry.names("scorer")
    assert registry.describe("scorer", "first_unit_of_lore").origin == "plug-in lore_of_scorers.py"
    for sign in (True, False):
        assert_laws(build_model(scorer=("first_unit_of_lore", {"sign": sign}), query=["token"], model={"feed": "now"}))
