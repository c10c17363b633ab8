"""The encoder ``hierarchical``: weights by hand, and sentences apart from each other."""

from typing import Any

import pytest
import torch
from torch import nn

from attnx import registry
from attnx.data.vocabulary import STOP
from attnx.errors import UserError
from attnx.laws.small import small_config, small_model
from attnx.models.resolve import resolve_model

ENDS = torch.tensor([[False, False, True, True, False], [False, True, False, False, False]])
MASK = torch.tensor([[True] * 4 + [False], [True] * 5])


def build_encoder(**options: Any) -> Any:
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
    encoder, inputs = build_encoder(), torch.randn(2, 5, 2)
    encoded = encoder(inputs, MASK, sentence_ends=ENDS)
    assert encoded.spans.state_index.tolist() == [[0, 0, 0, 1, 0], [0, 0, 1, 1, 1]]
    assert encoded.spans.mask.tolist() == [[True, True]] * 2
    torch.testing.assert_close(encoded.spans.shares.sum(1), torch.tensor([2.0, 2.0]))
    for row, part in ((0, slice(0, 3)), (0, slice(3, 4)), (1, slice(0, 2)), (1, slice(2, 5))):
        alone = encoder(inputs[row : row + 1, part], MASK[1:, : part.stop - part.start])
        torch.testing.assert_close(encoded.spans.shares[row, part], alone.spans.shares[0])


@pytest.mark.usefixtures("float64")
def test_the_order_of_sentences_is_read_by_the_second_encoder():
    encoder, inputs = build_encoder(scorer="additive", normalizer="sparsemax"), torch.randn(1, 4, 2)
    ends = torch.tensor([[False, True, False, True]])
    first = encoder(inputs, MASK[:1, :4], sentence_ends=ends).layers[-1]
    changed = encoder(inputs[:, [2, 3, 0, 1]], MASK[:1, :4], sentence_ends=ends).layers[-1]
    assert not torch.allclose(first, changed.flip(1))


def test_sources_without_sentences_are_refused():
    config = small_config(model={"name": "classifier"}, encoder={"name": "hierarchical"}, task={"name": "g2p"})
    config["encoder"] |= {"scorer": "dot", "normalizer": "softmax"}
    with pytest.raises(UserError, match="task=g2p"):
        resolve_model(config)
