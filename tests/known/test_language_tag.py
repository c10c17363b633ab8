"""The tag of a row: as a query, alone or with others, and as an input of encoder and decoder."""

import math

import pytest
import torch

from attnx.models.resolve import resolve_model
from attnx.nn.recurrent import top_hidden

pytestmark = pytest.mark.usefixtures("float64")

LN2, LN3 = math.log(2), math.log(3)  # tanh(ln 2) = 3/5, tanh(ln 3) = 4/5
SOURCE, INPUTS = torch.tensor([[3, 5, 7]] * 3), torch.tensor([[1, 5, 3, 8]] * 3)
SOURCE_MASK, TAG = SOURCE > 0, torch.tensor([0, 2, 0])
HEARD = {
    "query": {"query": ["language_tag"]},
    "query of two": {"query": ["previous_state", "language_tag"]},
    "encoder": {"model": {"tag_inputs": ["encoder"]}},
    "decoder": {"model": {"tag_inputs": ["decoder"]}},
    "both": {"model": {"tag_inputs": ["encoder", "decoder"]}},
    "history": {"model": {"tag_inputs": ["decoder"], "bridge": "zeros"}, "scope": "history"},
    "baseline": {"model": {"tag_inputs": ["encoder", "decoder"]}, "attention": "none"},
}


@pytest.mark.parametrize("choices", HEARD.values(), ids=HEARD)
def test_different_tags_give_different_queries(build_model, compose_config, choices):
    """One source in three rows: those of one tag are alike, that of another is not."""
    assert resolve_model(compose_config(**choices)).needs_tags
    model = build_model(**choices).eval()
    logits = model(SOURCE, SOURCE_MASK, INPUTS, TAG).logits
    torch.testing.assert_close(logits[0], logits[2])
    assert not torch.allclose(logits[0], logits[1])


def test_a_model_without_tag_inputs_ignores_the_tag(build_model, compose_config):
    assert not resolve_model(compose_config()).needs_tags
    model = build_model().eval()
    assert model.tag_embedding is None
    logits = model(SOURCE, SOURCE_MASK, INPUTS, TAG).logits
    torch.testing.assert_close(logits[0], logits[1])


def test_a_missing_tag_is_tag_0(build_model):
    model = build_model(query=["language_tag"]).eval()
    left_out, first = model(SOURCE, SOURCE_MASK, INPUTS), model(SOURCE, SOURCE_MASK, INPUTS, torch.zeros_like(TAG))
    assert torch.equal(left_out.logits, first.logits)


def test_a_query_of_the_tag_alone_permits_attending_first(compose_config):
    """It is known for every step before the decoder runs; the context can enter at once."""
    plan = resolve_model(compose_config(query=["language_tag"])).plan
    assert (plan.schedule, plan.feed) == ("attend_then_run", "now")
    assert plan.reason == "the query is language_tag alone, known at the start"


def test_a_query_by_hand(build_model):
    """Embeddings 0 and 1 of two tags over a memory of 0 and ln 3: weights (1/2, 1/2), and (1/4, 3/4), at every step."""
    model = build_model(
        scorer="multiplicative", query=["language_tag"], model={"embedding_dim": 1, "keys_from": "inputs"}
    )
    with torch.no_grad():
        model.source_encoder.embedding.weight[5:8, 0] = torch.tensor([0.0, 0.0, LN3])
        model.query.inputs[0].embedding.weight[:2] = torch.tensor([[0.0], [1.0]]).expand(2, 5)
        model.attention.scorer.memory.weight.fill_(1 / 5)
    source = torch.tensor([[5, 7]] * 2)
    weights = model(source, source > 0, INPUTS[:2], torch.tensor([0, 1]), need_weights=True).weights
    torch.testing.assert_close(weights, torch.tensor([[[1 / 2, 1 / 2]] * 4, [[1 / 4, 3 / 4]] * 4]))


def test_a_model_with_tags_by_hand(build_model):
    """Beside each input stands the tag's number: h = tanh(ln 2) = 3/5 or tanh(ln 3) = 4/5, in encoder and decoder."""
    cell_config = {"cell": "rnn", "hidden_size": 1}
    model = build_model(
        model={"embedding_dim": 1, "tag_inputs": ["encoder", "decoder"], "tag_dim": 1, "bridge": "zeros"},
        encoder={**cell_config, "bidirectional": False},
        decoder=cell_config,
    )
    layers = [model.source_encoder.encoder.recurrent.layers[0], model.decoder.layers[0]]
    with torch.no_grad():
        model.tag_embedding.weight.copy_(torch.tensor([[LN2], [0.0], [LN3]]))
        for layer in layers:
            for parameter in layer.parameters():
                parameter.zero_()
            layer.weight_ih_l0.copy_(torch.tensor([[0.0, 1.0]]))
    state = model.init_state(SOURCE, SOURCE_MASK, TAG)
    assert state.tag_embedding.flatten().tolist() == [LN2, LN3, LN2]
    expected = torch.tensor([3 / 5, 4 / 5, 3 / 5])[:, None]
    torch.testing.assert_close(state.memory.values[..., 0], expected.expand(3, 3))
    _, state, _ = model.decode_step(INPUTS[:, 0], state)
    torch.testing.assert_close(top_hidden(state.rnn_state), expected)


@pytest.mark.parametrize("listeners", [["encoder"], ["decoder"], ["encoder", "decoder"]], ids="+".join)
def test_only_listed_inputs_receive_the_tag(build_model, listeners):
    """By an embedding of width 11 beside the inputs of width 7."""
    model = build_model(model={"tag_inputs": listeners, "tag_dim": 11, "feed": "none"})
    for name, reader in (("encoder", model.source_encoder.encoder.recurrent), ("decoder", model.decoder)):
        assert reader.layers[0].input_size == 7 + 11 * (name in listeners)
