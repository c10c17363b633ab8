"""Laws of folding: where it is done a search finds and reads what it would without; else all is left as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx.accel.lstm import bindings
from attnx.decoding.beam import Beam
from attnx.decoding.ensemble import Ensemble
from attnx.decoding.greedy import Greedy
from attnx.models.seq2seq import model
from attnx.models.seq2seq.folded import FEW, TABLE, WIDE

SOURCE = torch.tensor([[3, 19, 7, 2, 11], [5, 13, 22, 0, 0], [2, 0, 0, 0, 0]])
PRESENT = SOURCE != 0
TAG = torch.tensor([2, 0, 1])
BEFORE: dict[str, Any] = {"query": ["previous_state"], "model": {"feed": "now"}}
SERVED: dict[str, dict[str, Any]] = {
    "none": {},
    "now": BEFORE,
    "token": {**BEFORE, "readout": {"inputs": ["token", "context", "state"], "hidden_size": 17}},
    "tags": {
        "query": ["previous_state", "language_tag"],
        "model": {"feed": "now", "tag_inputs": ["encoder", "decoder"]},
    },
    "told": {"query": ["token"], "model": {"feed": "none", "tag_inputs": ["decoder"]}},
    "local": {**BEFORE, "scope": ("local", {"center": "predictive"})},
    "sdpa": {**BEFORE, "scorer": "dot", "normalizer": "softmax"},
    "sparsemax": {**BEFORE, "normalizer": "sparsemax"},
    "values": {**BEFORE, "model": {"feed": "now", "keys_from": "one_hot"}},
    "no attention": {"attention": "none", "model": {"feed": "now"}},
    "state alone": {**BEFORE, "readout": {"inputs": ["state"], "tanh": False}},
    "state mapped": {**BEFORE, "readout": {"inputs": ["state"]}},
    "pyramid": {**BEFORE, "encoder": {"name": "pyramid", "layers": 2, "hidden_size": 43}},
}
LEFT_ALONE: dict[str, dict[str, Any]] = {
    "next": {"model": {"feed": "next"}},
    "last_context": {"query": ["current_state", "last_context"]},
    "own states": {"scope": "encoder_decoder"},
    "past": {"scorer": "coverage"},
    "heads": {"attention": ("standard", {"heads": 2}), "encoder": {"hidden_size": 46}},
    "gru": {"decoder": {"cell": "gru"}},
    "layers": {"decoder": {"layers": 2}},
    "no map": {"readout": {"tanh": False}},
    "no state": {**BEFORE, "readout": {"inputs": ["context"]}},
    "state and token": {**BEFORE, "readout": {"inputs": ["state", "token"], "tanh": False}},
    "copy": {"output": "copy"},
}
Build = Callable[..., Any]


@pytest.fixture
def decided(built: Build) -> Build:
    """Build a model with opinions, whose memory is wide beside its length."""

    def build(**choices: Any) -> Any:
        torch.manual_seed(3)
        model = built(**{"encoder": {"hidden_size": 43}, **choices}).eval()
        with torch.no_grad():
            getattr(model.output, "vocabulary", model.output).weight *= 11
        return model

    return build


@pytest.fixture
def folds(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether it was folded, each time that it could have been."""
    seen: list[bool] = []
    fold = model.folded

    def watched(model: Any, state: Any) -> Any:
        seen.append(fold(model, state).folded is not None)
        return fold(model, state)

    monkeypatch.setattr(model, "folded", watched)
    return seen


def unfolded(monkeypatch: pytest.MonkeyPatch, search: Callable[[], Any]) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(model, "folded", lambda model, state: state)
        return search()


@pytest.mark.parametrize("enough", [1, 10**9], ids=["products in C", "products by torch"])
@pytest.mark.parametrize("wide", [WIDE, 1000], ids=["once", "each context"])
@pytest.mark.parametrize("search", [Greedy(), Beam(5, nbest=3)], ids=["greedy", "beam"])
@pytest.mark.parametrize("composition", SERVED.values(), ids=SERVED)
def test_folded_is_unfolded(
    decided: Build,
    folds: list[bool],
    monkeypatch: pytest.MonkeyPatch,
    composition: Any,
    search: Any,
    wide: int,
    enough: int,
) -> None:
    """The same outputs, log-probabilities and weights, whether the memory or each context is carried through."""
    monkeypatch.setattr("attnx.models.seq2seq.folded.WIDE", wide)
    monkeypatch.setattr(bindings, "ENOUGH", enough)
    monkeypatch.setattr("attnx.accel.linear_cpu.MANY", enough)
    model = decided(**composition)

    def found() -> Any:
        return search(model, SOURCE, PRESENT, TAG, need_weights=True)

    plain = unfolded(monkeypatch, found)
    assert not folds
    mine = found()
    assert folds
    assert all(folds)
    assert len(set(plain.lengths.flatten().tolist())) > 1
    assert mine.written.tolist() == plain.written.tolist()
    torch.testing.assert_close(mine.log_probability, plain.log_probability, rtol=1e-5, atol=1e-5)
    assert (mine.weights is None) == (plain.weights is None)
    if plain.weights is not None:
        torch.testing.assert_close(mine.weights, plain.weights, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("composition", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_what_cannot_be_folded_is_left_alone(decided: Build, folds: list[bool], composition: Any) -> None:
    Beam(5)(decided(**composition), SOURCE, PRESENT, TAG)
    assert not any(folds)


def state_of(model: Any, rows: int, positions: int, copies: int) -> Any:
    source = torch.full((rows, positions), 7)
    return model.reorder_beams(model.init_state(source, source > 0), torch.arange(rows).repeat_interleave(copies))


@torch.no_grad()
def test_a_memory_is_carried_through_where_that_pays(decided: Build) -> None:
    """A memory that is wide beside its length, and either few rows, several hypotheses of each, or narrower maps."""
    wide, narrow, longest = decided(decoder={"hidden_size": 29}, **BEFORE), decided(), 86 // WIDE

    def once(*shape: int, model: Any = wide) -> bool:
        carried: bool = state_of(model, *shape).folded.carried
        return carried

    assert once(FEW, 3, 1)
    assert not once(FEW + 1, 3, 1)
    assert once(FEW + 1, 3, 1, model=narrow)
    assert once(FEW + 1, 3, 2)
    assert once(3, longest, 2)
    assert not once(3, longest + 1, 2)
    assert not once(3, longest + 1, 2, model=narrow)


def test_it_is_not_folded_where_it_is_trained(decided: Build) -> None:
    """Nor where gradients may be wanted; what is predicted has them then."""
    model = decided(**BEFORE)
    state = state_of(model, 3, 5, 2)
    assert state.folded is None
    model.decode_step(torch.full((6,), 5), state)[0].sum().backward()
    assert model.decoder.recurrent.layers[0].weight_ih_l0.grad.abs().sum() > 0
    with torch.no_grad():
        assert state_of(model.train(), 3, 5, 2).folded is None


@torch.no_grad()
def test_the_weights_are_those_of_the_moment(decided: Build) -> None:
    """Nothing is kept from one batch to the next: a model that was trained further is another one."""
    model, told = decided(**BEFORE), torch.full((6,), 5)
    before = model.decode_step(told, state_of(model, 3, 5, 2))[0]
    for part in (model.embedding, model.decoder, model.readout):
        for weight in part.parameters():
            weight.data.mul_(1.5)  # which leaves no trace
    after = model.decode_step(told, state_of(model, 3, 5, 2))[0]
    plain = model.decode_step(
        told, model.select_rows(model.init_state(*both(3, 5)), torch.arange(3).repeat_interleave(2))
    )[0]
    assert (after - before).abs().max() > 0.01
    torch.testing.assert_close(after, plain, rtol=1e-5, atol=1e-5)


def both(rows: int, positions: int) -> tuple[Tensor, Tensor]:
    source = torch.full((rows, positions), 7)
    return source, source > 0


@pytest.mark.parametrize("target_features", [0, 5])
def test_without_a_table(
    built: Build, folds: list[bool], monkeypatch: pytest.MonkeyPatch, target_features: int
) -> None:
    """Of many symbols, or of numbers, which have none: each step's token is carried through the map by itself."""
    monkeypatch.setattr("attnx.models.seq2seq.folded.TABLE", 13)
    assert TABLE > 17
    model = built(target_features=target_features, encoder={"hidden_size": 43}, **BEFORE).eval()
    with torch.no_grad():
        assert state_of(model, 3, 5, 1).folded.table is None

    def found() -> Any:
        return Greedy()(model, SOURCE, PRESENT)

    plain, mine = unfolded(monkeypatch, found), found()
    assert folds[-1]
    torch.testing.assert_close(mine.written, plain.written, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(mine.log_probability, plain.log_probability, rtol=1e-5, atol=1e-5)


def test_members_of_an_ensemble_are_folded(decided: Build, folds: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each that can be."""
    models = Ensemble([decided(**BEFORE), decided(decoder={"cell": "gru"})])

    def found() -> Any:
        return Beam(3)(models, SOURCE, PRESENT)

    plain, mine = unfolded(monkeypatch, found), found()
    assert set(folds) == {True, False}
    assert mine.written.tolist() == plain.written.tolist()
    torch.testing.assert_close(mine.log_probability, plain.log_probability, rtol=1e-5, atol=1e-5)
