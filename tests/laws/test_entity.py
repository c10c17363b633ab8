"""Laws of the model ``entity``: padding and other rows change nothing, gates are causal, gradients are right."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnx.data.batches import Batch
from attnx.data.vocabulary import BOS, EOS, PAD, STOP
from attnx.decoding.beam import Beam
from attnx.decoding.ensemble import Ensemble
from attnx.decoding.greedy import Greedy
from attnx.decoding.sampling import Sampling
from attnx.laws.small import small_config
from attnx.models.resolve import DataSizes, resolve_model
from tests.conftest import declares

SYMBOLS, ANSWERS = 23, 11
# Sentences of unlike numbers of words, stories of unlike numbers of sentences, one of none.
STORIES = [[[7, 8, 9], [10, 11]], [[12]], [[7, 13, 14, 15, 9], [16, 8], [10, 11, 17], [18, 9]], []]
QUESTIONS = [[19, 7], [20, 12, 5], [19, 8, 6, 5], [21]]
ALIKE = ("scorer", "normalizer")
FACTORS = {
    "scorer": "plain",
    "normalizer": "plain",
    "gate_scorer": ["dot", "additive", "cosine"],
    "gate_normalizer": ["sigmoid", "softmax", "entmax"],
    "initial_state": ["keys", "learned"],
    "activation": ["prelu", "identity"],
    "normalize": [True, False],
    "heads": [1, 2],
}


def possible(choices: dict[str, Any]) -> bool:
    return not declares(choices, "needs_history", "is_recurrent", "is_sampled")


def build_model(**choices: Any) -> Any:
    parts = {kind: choices.pop(kind) for kind in ("scorer", "normalizer") if kind in choices}
    attention = ("standard", {"heads": choices.pop("heads", 1)})
    model = {"name": "entity", "hidden_size": 6, "num_slots": 3, **choices}
    config = small_config(**{"scorer": "dot", **parts}, attention=attention, model=model)
    return resolve_model(config).build(DataSizes(source_symbols=SYMBOLS, target_symbols=ANSWERS)).eval()


def batch(rows: list[int], extra: int = 0) -> tuple[Tensor, Tensor]:
    """Stories and their questions, and behind them ``extra`` columns of padding more than they need."""
    sources = [[word for value in STORIES[row] for word in (*value, STOP)] + QUESTIONS[row] for row in rows]
    source = torch.full((len(rows), max(map(len, sources)) + extra), PAD)
    for row, symbols in enumerate(sources):
        source[row, : len(symbols)] = torch.tensor(symbols)
    return source, source != PAD


@pytest.mark.usefixtures("float64")
def test_other_rows_and_padding_change_nothing(combination):
    model = build_model(**combination)
    inputs = torch.tensor([[BOS, 5]]).expand(len(STORIES), -1)
    together = model(*batch([0, 1, 2, 3], extra=3), inputs, need_weights=True)
    for row in range(len(STORIES)):
        source, source_mask = batch([row])
        alone = model(source, source_mask, inputs[:1], need_weights=True)
        torch.testing.assert_close(together.logits[row : row + 1], alone.logits)
        length = source.shape[1]
        torch.testing.assert_close(together.weights[row : row + 1, ..., :length], alone.weights)
        assert (together.weights[row, ..., length:] == 0).all()


@pytest.mark.usefixtures("float64")
def test_a_gpu_computes_the_same(sample_combination, assert_same_on_gpu):
    source, source_mask = batch([0, 1, 2, 3])
    target, index = torch.tensor([[5, EOS], [6, EOS], [7, EOS], [8, EOS]]), torch.arange(4)
    learned = Batch(source, source_mask, target, target != PAD, index, torch.zeros_like(index))
    assert_same_on_gpu(build_model(**sample_combination), learned)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("scorer", ["dot", "additive", "cosine"])
@pytest.mark.parametrize("normalizer", ["sigmoid", "softmax", "entmax"])
def test_no_gate_reads_later_sentences(scorer, normalizer):
    """What a later sentence says, and the question, leaves every gate before it as it was."""
    model = build_model(gate_scorer=scorer, gate_normalizer=normalizer)
    source, source_mask = batch([2])
    ends = (source[0] == STOP).nonzero()[:, 0].tolist()
    original = model.init_state(source, source_mask).weights[0, :, 0].detach()
    for end in ends:
        changed = source.clone()
        later = torch.arange(source.shape[1]) > end
        changed[:, later & (source[0] != STOP)] = 22
        result = model.init_state(changed, source_mask).weights[0, :, 0]
        assert torch.equal(result[:, : end + 1], original[:, : end + 1])
        if end != ends[-1]:
            assert not torch.equal(result[:, end + 1 : ends[-1] + 1], original[:, end + 1 : ends[-1] + 1])


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("activation", ["prelu", "identity"])
def test_gradients(activation):
    model = build_model(activation=activation, initial_state="learned", hidden_size=2, max_words=5)
    source, source_mask = batch([0, 1, 2])
    target = torch.tensor([[5, EOS], [6, EOS], [7, EOS]])
    weights = [weight.detach().clone().requires_grad_() for weight in model.parameters()]
    names = [name for name, _ in model.named_parameters()]
    with torch.no_grad():  # away from the bend, where there is no gradient
        for name, weight in zip(names, weights, strict=True):
            if name == "memory.activation.weight":
                weight.fill_(0.3)

    def loss(*args: Tensor) -> Tensor:
        result = torch.func.functional_call(model, dict(zip(names, args, strict=True)), (source, source_mask, target))
        return model.target.step_losses(result.logits, target, target != PAD).sum()

    assert torch.autograd.gradcheck(loss, weights, fast_mode=True)
    gradients = torch.autograd.grad(loss(*weights), weights)
    assert all(gradient.abs().sum() > 0 for gradient in gradients)


@pytest.mark.usefixtures("float64")
def test_searches_agree():
    """Greedy and every beam write the same answer, as likely, and then the end; a beam finds the answers in order."""
    model = build_model()
    source, source_mask = batch([0, 1, 2, 3])
    output = model.init_state(source, source_mask).log_probs
    greedy, beam = (
        Greedy()(model, source, source_mask, need_weights=True),
        Beam(beam_size=5, nbest=5)(model, source, source_mask),
    )
    assert greedy.sequences[:, 0, 0].tolist() == output.argmax(-1).tolist()
    assert greedy.lengths.tolist() == [[1]] * 4
    torch.testing.assert_close(greedy.log_probability[:, 0], output.max(-1).values.to(greedy.log_probability.dtype))
    assert beam.sequences[:, :, 0].tolist() == output.topk(5).indices.tolist()
    assert (beam.sequences[:, :, 1] == EOS).all()
    torch.testing.assert_close(beam.log_probability, output.topk(5).values.to(beam.log_probability.dtype))
    together = Greedy()(Ensemble([model, model]), source, source_mask, need_weights=True)
    assert together.weights is None, "slots of two models have no order in common"
    drawn = Sampling(top_k=1)(model, source, source_mask)
    assert drawn.sequences[:, 0, 0].tolist() == greedy.sequences[:, 0, 0].tolist()


def test_dropout_applies_in_training_only():
    model = build_model()
    model.stories.dropout = 0.5
    source, source_mask = batch([2])
    inputs = torch.tensor([[BOS, 5]])
    assert torch.equal(model(source, source_mask, inputs).logits, model(source, source_mask, inputs).logits)
    model.train()
    assert not torch.equal(model(source, source_mask, inputs).logits, model(source, source_mask, inputs).logits)
