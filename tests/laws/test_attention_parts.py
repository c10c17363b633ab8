"""Laws of scopes, query inputs and normalizers beyond those of ``attnx check``, and of what each of them does alone."""

import itertools
from typing import Any

import pytest
import torch

from attnx import registry
from attnx.attention import Query, QueryContext
from attnx.attention.normalizers.reinforced import Reinforced
from attnx.attention.types import SampledWeights
from attnx.laws import query, scope
from attnx.laws.candidate import Candidate
from attnx.laws.check import law_failure
from attnx.laws.sampled_normalizer import SampledNormalizerLaws
from attnx.laws.scope import LENGTHS, STEPS, WIDTH, growing, memory_mask, require_same_mask

pytestmark = pytest.mark.usefixtures("float64")


def core(kind: str) -> list[str]:
    return [name for name in registry.names(kind) if registry.describe(kind, name).origin == "core"]


def make_scope(name: str, **options: Any) -> Any:
    return Candidate("scope", name, options).build(**scope.SIZES)


def make_query(name: str, **options: Any) -> Any:
    return Candidate("query", name, options).build(**query.SIZES)


@pytest.mark.parametrize("sources", [["encoder"], ["decoder"], ["encoder", "decoder"]], ids="+".join)
@pytest.mark.parametrize("name", core("scope"))
def test_every_scope_takes_any_sources(name, sources):
    """They are where, and the scope is which: what it allows of one source is the same."""
    inputs = torch.randn(4, STEPS, WIDTH), torch.arange(STEPS), growing()
    part = make_scope(name, sources=sources, include_self=True)
    assert part.sources == tuple(sources)
    require_same_mask(part(*inputs), make_scope(name)(*inputs), "of other sources")


def window_of(center: int, window: int, length: int) -> list[bool]:
    """Which of 7 positions lie within the window and the row."""
    return [position < length and abs(position - center) <= window for position in range(7)]


@pytest.mark.parametrize("window", [0, 1, 2, 3, 13])
def test_local_monotonic_window(window):
    """Exactly the positions within ``window`` of min(t, S - 1), for rows of unlike length and steps beyond them."""
    steps = 11
    part = make_scope("local", window=window)
    allowed_mask = part(torch.randn(4, steps, WIDTH), torch.arange(steps), memory_mask()).allowed_mask
    expected = [[window_of(min(step, length - 1), window, length) for step in range(steps)] for length in LENGTHS]
    assert allowed_mask.tolist() == expected


@pytest.mark.parametrize("window", [0, 1, 2, 3, 13])
def test_local_predictive_window(window):
    """Exactly the positions within ``window`` of the one nearest to the predicted center, p = S sigmoid(...)."""
    part = make_scope("local", window=window, center="predictive")
    for parameter in part.parameters():
        torch.nn.init.normal_(parameter, std=3.0)  # centers from one end to the other
    queries = torch.randn(4, 11, WIDTH)
    allowed_mask = part(queries, torch.arange(11), memory_mask()).allowed_mask
    share = torch.sigmoid(part.center_predictor(queries)[..., 0])
    for row, length in enumerate(LENGTHS):
        for step in range(11):
            center = min(round(length * share[row, step].item()), length - 1)
            assert allowed_mask[row, step].tolist() == window_of(center, window, length)


def test_only_a_predictive_window_has_a_gain():
    inputs = torch.randn(4, STEPS, WIDTH), torch.arange(STEPS), memory_mask()
    assert make_scope("local", center="predictive")(*inputs).gain is not None
    assert make_scope("local", center="monotonic")(*inputs).gain is None
    assert make_scope("global")(*inputs).gain is None


def random_step(leave_out: tuple[str, ...] = ()) -> QueryContext:
    return QueryContext(**{name: field for name, field in query.random_step().items() if name not in leave_out})


@pytest.mark.parametrize("name", [name for name in core("query") if name not in ("token", "self_attentive")])
def test_a_query_input_states_what_it_needs(name):
    """Those two are always known."""
    needs = registry.describe("query", name).declarations["needs"]
    with pytest.raises(AssertionError, match=r"before what its query needs|given no tags"):
        Query([make_query(name)])(random_step(leave_out=(needs,)))


@pytest.mark.parametrize(
    ("name", "picks"),
    [("token", "token"), ("previous_state", "prev_state"), ("current_state", "state"), ("last_context", "context")],
)
def test_each_query_input_selects_its_tensor(name, picks):
    inputs = random_step()
    assert torch.equal(make_query(name)(inputs), getattr(inputs, picks))


def test_a_tag_is_embedded():
    inputs, part = random_step(), make_query("language_tag", embedding_dim=5)
    assert torch.equal(part(inputs), part.embedding.weight[inputs.tag])


@pytest.mark.parametrize("order", list(itertools.permutations(["token", "previous_state", "language_tag"], 2)))
def test_a_query_concatenates_its_inputs_in_order(order):
    inputs = random_step()
    parts = [make_query(name) for name in order]
    joined = Query(parts)
    assert joined.size == sum(part.size for part in parts)
    torch.testing.assert_close(joined(inputs), torch.cat([part(inputs) for part in parts], -1))


def test_the_empty_query_has_no_width():
    empty = Query([])
    assert empty.size == 0
    assert empty(random_step()).shape == (2, 3, 0)


def test_every_normalizer_of_the_core_has_a_temperature():
    """So that the law of it is tried."""
    for name in core("normalizer"):
        assert "temperature" in [option.name for option in registry.describe("normalizer", name).options]


WRONG: dict[str, tuple[Any, str]] = {
    "the mean": (lambda read: read._replace(weights=read.weights.clamp(min=0.1)), "another share than 0 or 1"),
    "another position": (lambda read: read._replace(weights=read.weights.roll(1, -1)), "a masked position"),
    "a score": (lambda read: read._replace(log_prob=read.log_prob + 0.7), "has a log-probability"),
    "half of it": (lambda read: read._replace(log_prob=0.5 * read.log_prob), "the probabilities sum to"),
    "no query axis": (lambda read: read._replace(log_prob=read.log_prob.sum()), "shape"),
    "infinity": (lambda read: read._replace(penalty=read.penalty / 0), "penalty"),
    "a tuple": (tuple, "SampledWeights"),
}


@pytest.mark.parametrize(("change", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_sample_breaks_a_law(change, message, monkeypatch):
    sample = Reinforced.sample

    def changed(self: Reinforced, scores: torch.Tensor, allowed_mask: torch.Tensor) -> SampledWeights:
        read: SampledWeights = change(sample(self, scores, allowed_mask))
        return read

    monkeypatch.setattr(Reinforced, "sample", changed)
    laws = SampledNormalizerLaws.collect()
    failures = [law_failure(law, Candidate("normalizer", "reinforced")) for law in laws]
    assert any(message in failure for failure in failures), failures
