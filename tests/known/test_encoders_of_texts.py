"""Encoders of sentences and of two texts: weights by hand, what is read by itself, and how texts are compared."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnx import registry
from attnx.data.vocabulary import SEP, STOP
from attnx.errors import UserError
from attnx.laws.small import small_config, small_model
from attnx.models.resolve import resolve_model

ENDS = torch.tensor([[False, False, True, True, False], [False, True, False, False, False]])
MASK = torch.tensor([[True] * 4 + [False], [True] * 5])


def build_hierarchical(**options: Any) -> Any:
    torch.manual_seed(3)
    return registry.build("encoder", ("hierarchical", {"hidden_size": 3, "query_size": 4, **options}), input_size=2)


def test_equal_scores_by_hand():
    """Yang et al. 2016, equations 6 and 9: without learned vectors all words of a sentence weigh the same, and all
    sentences: 1/3 x 1/2 for each of three words, 1 x 1/2 for one word that is a sentence.
    """
    parts = {"scorer": "tanh_dot", "query": {"self_attentive": {"size": 5}}, "readout": {"inputs": ["context"]}}
    model = small_model(small_config(model={"name": "classifier"}, encoder={"name": "hierarchical"}, **parts))
    for query in (model.query.inputs[0], model.source_encoder.encoder.query):
        nn.init.zeros_(query.vectors)
    source = torch.tensor([[7, 8, STOP, STOP, 0]])
    weights = model(source, source > 0, source[:, :1], need_weights=True).weights
    torch.testing.assert_close(weights, torch.tensor([[[1 / 6, 1 / 6, 1 / 6, 1 / 2, 0.0]]]))


@pytest.mark.usefixtures("float64")
def test_a_sentence_is_read_by_itself():
    """Its vector and its words' shares are those of the sentence alone (equations 1 to 7)."""
    encoder, inputs = build_hierarchical(), torch.randn(2, 5, 2)
    encoded = encoder(inputs, MASK, sentence_ends=ENDS)
    assert encoded.spans.state_index.tolist() == [[0, 0, 0, 1, 0], [0, 0, 1, 1, 1]]
    assert encoded.spans.mask.tolist() == [[True, True]] * 2
    torch.testing.assert_close(encoded.spans.shares.sum(1), torch.tensor([2.0, 2.0]))
    for row, part in ((0, slice(0, 3)), (0, slice(3, 4)), (1, slice(0, 2)), (1, slice(2, 5))):
        alone = encoder(inputs[row : row + 1, part], MASK[1:, : part.stop - part.start])
        torch.testing.assert_close(encoded.spans.shares[row, part], alone.spans.shares[0])


@pytest.mark.usefixtures("float64")
def test_the_order_of_sentences_is_read_by_the_second_encoder():
    encoder, inputs = build_hierarchical(scorer="additive", normalizer="sparsemax"), torch.randn(1, 4, 2)
    ends = torch.tensor([[False, True, False, True]])
    first = encoder(inputs, MASK[:1, :4], sentence_ends=ends).layers[-1]
    changed = encoder(inputs[:, [2, 3, 0, 1]], MASK[:1, :4], sentence_ends=ends).layers[-1]
    assert not torch.allclose(first, changed.flip(1))


# With C^2 = ln 2: one word and the separator, then two words. Their states are set, as they are.
C = math.sqrt(math.log(2))
STATES = torch.tensor([[C, 0.0], [0.0, 0.0], [0.0, C], [C, 0.0]])
SEPARATORS = torch.tensor([[False, True, False, False]])
BLOCKS = {"state": 0, "context": 1, "difference": 2, "product": 3}
THIRD, HALF, ROOT = C / 3, C / 2, C / (1 + math.sqrt(2))
EXPECTED = {
    # Of the word scores 0 and ln 2, so weights 1/3 and 2/3; of the separator 0 and 0; of the last word ln 2 and 0.
    ("fine", "state"): STATES.tolist(),
    ("fine", "context"): [[2 * THIRD, THIRD], [HALF, HALF], [HALF, 0], [2 * THIRD, 0]],
    ("fine", "difference"): [[THIRD, 0], [0, 0], [0, C], [THIRD, 0]],
    ("fine", "product"): [[2 * C * THIRD, 0], [0, 0], [0, 0], [2 * C * THIRD, 0]],
    # Means (C / 2, 0) and (C / 2, C / 2): scores 0 and ln 2 / 2, so weights 1 and 2^(1/2) to one of 1 + 2^(1/2).
    ("coarse", "context"): [[math.sqrt(2) * ROOT, ROOT]] * 2 + [[math.sqrt(2) * ROOT, 0]] * 2,
}


def build_co_attention(**options: Any) -> Any:
    torch.manual_seed(3)
    return registry.build("encoder", ("co_attention", {"hidden_size": 1, **options}), input_size=2)


def set_comparison(encoder: Any, block: str, bias: float = 0.0) -> None:
    """The comparison is the identity of one of its four inputs."""
    nn.init.constant_(encoder.compare.bias, bias)
    weight = torch.zeros(2, 4, 2)
    weight[:, BLOCKS[block]] = torch.eye(2)
    encoder.compare.weight.data = weight.flatten(1)


@pytest.mark.parametrize(("grain", "block"), EXPECTED)
def test_what_is_read_by_hand(grain, block):
    """Chen et al. 2017, equations 11 to 15, of states tanh(x): the net has no recurrent weights."""
    encoder = build_co_attention(cell="rnn", grain=grain)
    for layer in encoder.recurrent.layers:
        for weights, direction in zip(layer.all_weights, torch.eye(2), strict=True):
            for weight in weights:
                nn.init.zeros_(weight)
            weights[0].data[0] = direction
    set_comparison(encoder, block)
    encoded = encoder(STATES.atanh()[None], torch.ones(1, 4, dtype=torch.bool), separator_mask=SEPARATORS)
    expected = torch.tensor(EXPECTED[grain, block], dtype=torch.float32)
    torch.testing.assert_close(encoded.layers[-1][0], expected)
    torch.testing.assert_close(encoded.final[-1][0][0], expected.mean(0))


def states_of(encoder: Any, inputs: Tensor, mask: Tensor, **kwargs: Tensor) -> Tensor:
    set_comparison(encoder, "state", bias=2.0)
    states: Tensor = encoder(inputs, mask, **kwargs).layers[-1]
    return states - 2


@pytest.mark.usefixtures("float64")
def test_a_text_is_encoded_by_itself():
    """Its states are those of the net over it alone, wherever the separator is; then they read the other text."""
    encoder, inputs = build_co_attention(), torch.randn(3, 5, 2)
    mask = torch.tensor([[True] * 5, [True] * 4 + [False], [True] * 5])
    separators = torch.tensor([1, 2, 4])[:, None] == torch.arange(5)
    states = states_of(encoder, inputs, mask, separator_mask=separators)
    for row, part in ((0, slice(0, 2)), (0, slice(2, 5)), (1, slice(0, 3)), (1, slice(3, 4)), (2, slice(0, 5))):
        alone = encoder.recurrent.run([inputs[row : row + 1, part]]).outputs[-1][0]
        torch.testing.assert_close(states[row, part], alone)


@pytest.mark.usefixtures("float64")
def test_a_text_alone_reads_zeros():
    """Nothing is the other text where no separator is, or where it is the last symbol."""
    encoder, inputs, mask = build_co_attention(), torch.randn(1, 4, 2), torch.ones(1, 4, dtype=torch.bool)
    set_comparison(encoder, "context", bias=2.0)
    for separators in (None, torch.arange(4)[None] == 3):
        assert (encoder(inputs, mask, separator_mask=separators).layers[-1] == 2).all()


@pytest.mark.usefixtures("float64")
def test_only_the_separator_of_the_vocabulary_parts_texts():
    """Texts in another order are another source, though their words are the same."""
    model = small_model(small_config(model={"name": "classifier"}, encoder={"name": "co_attention"})).eval()
    source = torch.tensor([[7, 8, SEP, 9, 0], [9, SEP, 7, 8, 0], [7, 8, 6, 9, 0]])
    logits = model(source, source > 0, source[:, :1]).logits
    assert not torch.allclose(logits[0], logits[1])
    assert not torch.allclose(logits[0], logits[2])


@pytest.mark.parametrize(
    ("encoder", "task", "message"),
    [("hierarchical", "g2p", "task=g2p"), ("co_attention", "qa", "a source of task=qa is no pair")],
)
def test_sources_without_sentences_or_of_one_text_are_refused(encoder, task, message):
    config = small_config(model={"name": "classifier"}, encoder={"name": encoder}, task={"name": task})
    config["encoder"] |= {"scorer": "dot", "normalizer": "softmax"}
    with pytest.raises(UserError, match=message):
        resolve_model(config)
