"""Laws of the model ``classifier``: padding and other rows change nothing, searches agree, all parameters learn."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnx.data.batches import Batch
from attnx.data.vocabulary import BOS, EOS, UNK
from attnx.decoding.beam import Beam
from attnx.decoding.greedy import Greedy
from attnx.decoding.sampling import Sampling
from attnx.laws.small import small_config, small_model
from attnx.tasks.loss import token_loss
from tests.conftest import declares

pytestmark = pytest.mark.usefixtures("float64")
SOURCE = torch.tensor([[7, 19, 4, 11, 17, 5, 4], [5, 13, 4, 0, 0, 0, 0], [6, 0, 0, 0, 0, 0, 0]])
INPUTS, TAG = torch.full((3, 1), BOS), torch.tensor([2, 0, 1])
ALIKE = ("scorer", "normalizer")
FACTORS: dict[str, Any] = {
    "scorer": "plain",
    "normalizer": "plain",
    "scope": [("global", {}), ("local", {"center": "predictive", "window": 1})],
    "query": [
        ["current_state"],
        {"self_attentive": {"size": 5}},
        {"self_attentive": {"size": 5, "rows": 3, "penalty": 0.5}},
        {"current_state": {}, "self_attentive": {"size": 3, "rows": 2}, "language_tag": {"embedding_dim": 5}},
    ],
    "readout": [["context"], ["state", "context"]],
    "heads": [1, 2],
    "encoder": ["recurrent", "pyramid", "hierarchical", "co_attention"],
}


def possible(choices: dict[str, Any]) -> bool:
    return not declares(choices, "needs_history", "is_recurrent")


def build_model(**choices: Any) -> Any:
    heads = {"attention": ("standard", {"heads": choices.get("heads", 1)})}
    parts = {kind: choices[kind] for kind in ("scorer", "normalizer", "scope", "query") if kind in choices}
    layers = {"readout": {"inputs": choices.get("readout", ["context"])}}
    encoder = choices.get("encoder", "recurrent")
    has_layers = encoder in ("recurrent", "pyramid")
    layers["encoder"] = {"name": encoder, "hidden_size": 6, **({"layers": 2} if has_layers else {})}
    return small_model(small_config(model={"name": "classifier"}, **layers, **parts, **heads)).eval()


def outputs(model: Any, rows: slice, extra: int = 0) -> tuple[Tensor, Tensor]:
    source = SOURCE[rows]
    source = torch.cat([source[:, : int((source > 0).sum(1).max())], source.new_zeros(len(source), extra)], 1)
    output = model(source, source > 0, INPUTS[rows], TAG[rows], need_weights=True)
    return output.logits, output.weights


def test_other_rows_and_padding_change_nothing(combination):
    model = build_model(**combination)
    logits, weights = outputs(model, slice(None), extra=3)
    for row in range(len(SOURCE)):
        row_logits, row_weights = outputs(model, slice(row, row + 1))
        torch.testing.assert_close(logits[row : row + 1], row_logits)
        length = row_weights.shape[-1]
        torch.testing.assert_close(weights[row : row + 1, ..., :length], row_weights)
        assert (weights[row, ..., length:] == 0).all()


@pytest.mark.parametrize("search", [Beam(), Greedy(), Sampling()], ids=lambda search: type(search).__name__)
def test_a_prefix_that_the_model_forbids_is_written(search):
    """No label is unknown: its probability is 0."""
    prefix = torch.full((len(SOURCE), 1), UNK)
    result = search(build_model().eval(), SOURCE, SOURCE > 0, prefix=prefix)
    assert (result.sequences[:, 0, 0] == UNK).all()
    assert (result.lengths[:, 0] > 0).all()


def training_batch() -> Batch:
    target = torch.tensor([[5, EOS], [6, EOS], [7, EOS]])
    return Batch(SOURCE, SOURCE > 0, target, target > 0, torch.arange(3), TAG)


def test_a_gpu_computes_the_same(sample_combination, assert_same_on_gpu):
    """But for samples: a GPU draws other ones."""
    model = build_model(**sample_combination)
    if any(getattr(module, "is_sampled", False) for module in model.modules()):
        pytest.skip("it samples positions")
    assert_same_on_gpu(model, training_batch())


def test_every_parameter_has_a_gradient(sample_combination):
    model = build_model(**sample_combination).train()
    batch: Any = training_batch()
    token_loss(model, batch).mean.backward()
    assert not [name for name, weight in model.named_parameters() if weight.grad is None]


def test_searches_agree():
    model = build_model(query=["current_state"])
    expected = model.init_state(SOURCE, SOURCE > 0, TAG).log_probs
    torch.testing.assert_close(model.target.predict(model(SOURCE, SOURCE > 0, INPUTS, TAG).logits[:, 0]), expected)
    greedy = Greedy()(model, SOURCE, SOURCE > 0, TAG, need_weights=True)
    beam = Beam(beam_size=5, nbest=5)(model, SOURCE, SOURCE > 0, TAG)
    assert greedy.lengths.tolist() == [[1]] * 3
    assert greedy.sequences[:, 0, 0].tolist() == expected.argmax(-1).tolist()
    assert beam.sequences[:, :, 0].tolist() == expected.topk(5).indices.tolist()
