"""Laws of the fused decoder: it equals the model in every search and leaves unsupported models unchanged."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx import accel
from attnx.accel.fused_decode import MAX_ROWS_TO_PROJECT, MAX_SYMBOLS_IN_TABLE, MIN_WIDTH_PER_POSITION, FusedDecoder
from attnx.accel.lstm import bindings
from attnx.decoding.beam import Beam
from attnx.decoding.ensemble import Ensemble
from attnx.decoding.greedy import Greedy
from attnx.nn.contracts import OutputInputs

SOURCE = torch.tensor([[3, 19, 7, 2, 11], [5, 13, 22, 0, 0], [2, 0, 0, 0, 0]])
SOURCE_MASK = SOURCE != 0
TAG = torch.tensor([2, 0, 1])
PREVIOUS_STATE: dict[str, Any] = {"query": ["previous_state"], "model": {"feed": "now"}}
SUPPORTED: dict[str, dict[str, Any]] = {
    "none": {},
    "now": PREVIOUS_STATE,
    "token": {**PREVIOUS_STATE, "readout": {"inputs": ["token", "context", "state"], "hidden_size": 17}},
    "tags": {
        "query": ["previous_state", "language_tag"],
        "model": {"feed": "now", "tag_inputs": ["encoder", "decoder"]},
    },
    "told": {"query": ["token"], "model": {"feed": "none", "tag_inputs": ["decoder"]}},
    "local": {**PREVIOUS_STATE, "scope": ("local", {"center": "predictive"})},
    "sdpa": {**PREVIOUS_STATE, "scorer": "dot", "normalizer": "softmax"},
    "sparsemax": {**PREVIOUS_STATE, "normalizer": "sparsemax"},
    "values": {**PREVIOUS_STATE, "model": {"feed": "now", "keys_from": "one_hot"}},
    "no attention": {"attention": "none", "model": {"feed": "now"}},
    "state alone": {**PREVIOUS_STATE, "readout": {"inputs": ["state"], "tanh": False}},
    "state mapped": {**PREVIOUS_STATE, "readout": {"inputs": ["state"]}},
    "pyramid": {**PREVIOUS_STATE, "encoder": {"name": "pyramid", "layers": 2, "hidden_size": 43}},
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
    "no state": {**PREVIOUS_STATE, "readout": {"inputs": ["context"]}},
    "state and token": {**PREVIOUS_STATE, "readout": {"inputs": ["state", "token"], "tanh": False}},
    "copying": {"output": "copy"},
}
Build = Callable[..., Any]


@pytest.fixture
def build_decided_model(build_model):
    """Build an enabled model with opinions, whose memory is wide beside its length."""

    def build(**choices: Any) -> Any:
        torch.manual_seed(3)
        model = build_model(**{"encoder": {"hidden_size": 43}, **choices}).eval()
        with torch.no_grad():
            getattr(model.output, "vocabulary", model.output).weight *= 11
        accel.enable(model)
        return model

    return build


@pytest.mark.parametrize(
    ("wide", "enough"),
    [(MIN_WIDTH_PER_POSITION, 1), (1000, 10**9)],
    ids=["memory projected, products in C", "each context, products by torch"],
)
@pytest.mark.parametrize("search", [Greedy(), Beam(5, nbest=3)], ids=["greedy", "beam"])
@pytest.mark.parametrize("composition", SUPPORTED.values(), ids=SUPPORTED)
def test_fused_decoding_matches_plain_decoding(build_decided_model, monkeypatch, composition, search, wide, enough):
    """The same outputs, log-probabilities and weights, whether the memory or each context is projected."""
    monkeypatch.setattr("attnx.accel.fused_decode.MIN_WIDTH_PER_POSITION", wide)
    monkeypatch.setattr(bindings, "MIN_ROWS_TO_PACK", enough)
    monkeypatch.setattr("attnx.accel.modules.MIN_ROWS_FOR_C", enough)
    model = build_decided_model(**composition)
    fused = accel.fused_decoder(model)
    assert isinstance(fused, FusedDecoder)
    plain, decoded = (search(decoder, SOURCE, SOURCE_MASK, TAG, need_weights=True) for decoder in (model, fused))
    assert len(set(plain.lengths.flatten().tolist())) > 1
    assert decoded.sequences.tolist() == plain.sequences.tolist()
    torch.testing.assert_close(decoded.log_probability, plain.log_probability, rtol=1e-5, atol=1e-5)
    assert (decoded.weights is None) == (plain.weights is None)
    if plain.weights is not None:
        torch.testing.assert_close(decoded.weights, plain.weights, rtol=1e-5, atol=1e-5)


def test_the_coverage_of_a_pyramid_is_the_same(build_decided_model):
    model = build_decided_model(**SUPPORTED["pyramid"])
    search = Beam(5, nbest=3, coverage_penalty=0.3, max_length_ratio=0.0, max_length_extra=3)
    plain, decoded = (search(decoder, SOURCE, SOURCE_MASK, TAG) for decoder in (model, accel.fused_decoder(model)))
    torch.testing.assert_close(decoded.score, plain.score, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("composition", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_unsupported_compositions_are_not_fused(build_decided_model, composition):
    model = build_decided_model(**composition)
    assert accel.fused_decoder(model) is model


def double(*call: Any) -> Any:
    """A hook."""
    return 2 * call[-1]


CHANGES: dict[str, Callable[[Any], object]] = {
    "embedding with a hook": lambda model: model.embedding.register_forward_hook(double),
    "embedding of bounded norm": lambda model: setattr(model.embedding, "max_norm", 0.1),
    "other embedding": lambda model: setattr(model, "embedding", torch.nn.Sequential(model.embedding, torch.nn.Tanh())),
    "readout with a hook": lambda model: model.readout.register_forward_hook(double),
    "map with a hook": lambda model: model.readout.join[0].register_forward_hook(double),
    "map with a bias": lambda model: setattr(model.readout.join[0], "bias", torch.nn.Parameter(torch.ones(1))),
    "no tanh": lambda model: model.readout.join.pop(1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_layers_decode_as_the_model(build_decided_model, change):
    """What is read of a layer are its weights, where these are all that it computes with."""
    model = build_decided_model(**PREVIOUS_STATE)
    change(model)
    fused, plain = (Beam(5)(decoder, SOURCE, SOURCE_MASK) for decoder in (accel.fused_decoder(model), model))
    torch.testing.assert_close(fused.log_probability, plain.log_probability, rtol=1e-5, atol=1e-5)


def test_an_output_layer_of_its_own_is_not_fused(build_decided_model):
    """It may read more than the readout."""

    class TwoLayers(torch.nn.Sequential):
        needs_weights = False

        def forward(self, vectors: Tensor, inputs: OutputInputs) -> Tensor:
            return super().forward(vectors)

        def copy_ids(self, source: Tensor, source_mask: Tensor) -> None:
            pass

    model = build_decided_model(**PREVIOUS_STATE)
    model.output = TwoLayers(model.output, torch.nn.Linear(17, 17))
    assert accel.fused_decoder(model) is model
    assert Greedy()(model, SOURCE, SOURCE_MASK).sequences.shape[:2] == (3, 1)


def test_an_unsupported_model_is_not_fused(build_decided_model):
    """So is one that trains."""
    model = build_decided_model(**PREVIOUS_STATE)
    assert accel.fused_decoder(model.train()) is model
    assert isinstance(accel.fused_decoder(model.eval()), FusedDecoder)
    accel.disable(model)
    assert accel.fused_decoder(model) is model


def state_of(model: Any, rows: int, positions: int, copies: int) -> Any:
    source = torch.full((rows, positions), 7)
    decoder: Any = accel.fused_decoder(model)
    return decoder.select_rows(decoder.init_state(source, source > 0), torch.arange(rows).repeat_interleave(copies))


@torch.no_grad()
def test_a_memory_is_projected_where_that_is_faster(build_decided_model):
    """A memory that is wide beside its length, and either few rows, several hypotheses of each, or narrower maps."""
    wide, narrow, longest = (
        build_decided_model(decoder={"hidden_size": 29}, **PREVIOUS_STATE),
        build_decided_model(),
        86 // MIN_WIDTH_PER_POSITION,
    )

    def once(*shape: int, model: Any = wide) -> bool:
        return state_of(model, *shape).weights.is_projected

    assert once(MAX_ROWS_TO_PROJECT, 3, 1)
    assert not once(MAX_ROWS_TO_PROJECT + 1, 3, 1)
    assert once(MAX_ROWS_TO_PROJECT + 1, 3, 1, model=narrow)
    assert once(MAX_ROWS_TO_PROJECT + 1, 3, 2)
    assert once(3, longest, 2)
    assert not once(3, longest + 1, 2)
    assert not once(3, longest + 1, 2, model=narrow)


@torch.no_grad()
def test_rows_of_a_source_share_its_memory(build_decided_model):
    """As long as they lie together, as many of each source."""
    decoder: Any = accel.fused_decoder(build_decided_model(**PREVIOUS_STATE))
    source = torch.full((3, 5), 7)
    state = decoder.select_rows(decoder.init_state(source, source > 0), torch.tensor([0, 0, 1, 1, 2, 2]))
    for rows, sources, beams in (([0, 1, 4, 5], 2, 2), ([0, 1, 4], 3, 1), ([0, 2, 4], 3, 1), ([3, 2], 1, 2)):
        selected = decoder.select_rows(state, torch.tensor(rows))
        assert (len(selected.memory.keys), selected.beams_per_source) == (sources, beams)
        assert torch.equal(selected.hidden, state.hidden[rows])


@torch.no_grad()
def test_fused_decoding_uses_current_weights(build_decided_model):
    """Nothing is kept from one batch to the next: a model that was trained further is another one."""
    model, symbols = build_decided_model(**PREVIOUS_STATE), torch.full((6,), 5)
    fused: Any = accel.fused_decoder(model)
    original = fused.decode_step(symbols, state_of(model, 3, 5, 2))[0]
    for part in (model.embedding, model.decoder, model.readout):
        for weight in part.parameters():
            weight.data.mul_(1.5)  # which leaves no trace
    changed = fused.decode_step(symbols, state_of(model, 3, 5, 2))[0]
    source = torch.full((3, 5), 7)
    rows = torch.arange(3).repeat_interleave(2)
    plain = model.decode_step(symbols, model.select_rows(model.init_state(source, source > 0), rows))[0]
    assert (changed - original).abs().max() > 0.01
    torch.testing.assert_close(changed, plain, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_symbols_may_be_of_32_bits(build_decided_model):
    """As torch's embedding takes them; the C code reads 64 bits."""
    model, symbols = build_decided_model(**PREVIOUS_STATE), torch.tensor([5, 6, 7, 8, 9, 5])
    fused: Any = accel.fused_decoder(model)
    expected = fused.decode_step(symbols, state_of(model, 3, 5, 2))[0]
    torch.testing.assert_close(fused.decode_step(symbols.int(), state_of(model, 3, 5, 2))[0], expected)


@pytest.mark.parametrize("target_features", [0, 5])
def test_models_without_an_embedding_table_are_fused(build_model, monkeypatch, target_features):
    """Of many symbols, or of numbers, which have none: each step's token is projected."""
    monkeypatch.setattr("attnx.accel.fused_decode.MAX_SYMBOLS_IN_TABLE", 13)
    assert MAX_SYMBOLS_IN_TABLE > 17
    model = build_model(target_features=target_features, encoder={"hidden_size": 43}, **PREVIOUS_STATE).eval()
    accel.enable(model)
    assert state_of(model, 3, 5, 1).weights.table is None
    plain, result = (Greedy()(decoder, SOURCE, SOURCE_MASK) for decoder in (model, accel.fused_decoder(model)))
    torch.testing.assert_close(result.sequences, plain.sequences, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(result.log_probability, plain.log_probability, rtol=1e-5, atol=1e-5)


def test_members_of_an_ensemble_are_fused(build_decided_model):
    """Each that can be."""
    model = Ensemble([build_decided_model(**PREVIOUS_STATE), build_decided_model(decoder={"cell": "gru"})])
    fused: Any = accel.fused_decoder(model)
    assert [isinstance(member, FusedDecoder) for member in fused.members] == [True, False]
    assert not any(isinstance(member, FusedDecoder) for member in model.members)
    plain, result = (Beam(3)(decoder, SOURCE, SOURCE_MASK) for decoder in (model, fused))
    assert result.sequences.tolist() == plain.sequences.tolist()
    torch.testing.assert_close(result.log_probability, plain.log_probability, rtol=1e-5, atol=1e-5)
