"""See et al. 2017, equations 8 and 9, by hand: generation and copying, and what has no symbols to copy."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx.data.examples import Pair
from attnx.data.splits import Splits
from attnx.errors import UserError
from attnx.inference.load import new_model
from attnx.models.resolve import resolve_model
from attnx.nn.contracts import OutputInputs
from attnx.nn.outputs.copying import Copying
from attnx.tasks.contract import SequenceData

pytestmark = pytest.mark.usefixtures("float64")

LN3 = math.log(3)
WEIGHTS = [1 / 2, 1 / 3, 1 / 6]


# Readout, state, context and token are one number each; of 11 symbols all are generated alike.
def copying(context: float = 0.0, state: float = 0.0, token: float = 0.0, bias: float = 0.0) -> Copying:
    output = Copying(size=1, width=11, tied=None, state_size=1, context_size=1, token_size=1)
    with torch.no_grad():
        for parameter in output.vocabulary.parameters():
            parameter.zero_()
        output.gate.weight.copy_(torch.tensor([[context, state, token]]))
        output.gate.bias.fill_(bias)
    return output


def output_inputs(symbols: list[int], weights: list[float] = WEIGHTS) -> OutputInputs:
    state, context, token = (torch.tensor([[number]]) for number in (2.0, 3.0, 5.0))
    return OutputInputs(state, context, token, torch.tensor([weights]), torch.tensor([symbols]))


def probabilities(output: Copying, value: OutputInputs) -> Tensor:
    result = output(torch.ones(1, 1), value).exp()
    torch.testing.assert_close(result.sum(), torch.tensor(1.0))
    return result[0]


def test_equations_8_and_9():
    """g = sigmoid(ln 3 (2 * 3 - 3 * 2 + 5 * 1 - 4)) = 3/4; symbol 5 stands at two positions, 7 at one.

    P(5) = 3/4 * 1/11 + 1/4 (1/2 + 1/6), P(7) = 3/4 * 1/11 + 1/4 * 1/3, all others 3/44.
    """
    output = copying(context=2 * LN3, state=-3 * LN3, token=LN3, bias=-4 * LN3)
    expected = torch.full((11,), 3 / 44)
    expected[5] += 1 / 4 * 2 / 3
    expected[7] += 1 / 4 * 1 / 3
    torch.testing.assert_close(probabilities(output, output_inputs([5, 7, 5])), expected)


def test_a_symbol_outside_the_source_is_generated():
    """g = 3/4, and the last position, of weight 1/6, holds nothing of the target: 3/4 + 1/4 * 1/6 = 19/24 remain."""
    expected = torch.full((11,), 19 / 24 / 11)
    expected[5] += 1 / 4 * 1 / 2
    expected[7] += 1 / 4 * 1 / 3
    torch.testing.assert_close(probabilities(copying(bias=LN3), output_inputs([5, 7, 0])), expected)


@pytest.mark.parametrize("value", [([0, 0, 0], WEIGHTS), ([5, 7, 5], [0.0, 0.0, 0.0])], ids=["none", "unread"])
def test_a_source_without_copyable_symbols_generates_all(value):
    torch.testing.assert_close(probabilities(copying(bias=-LN3), output_inputs(*value)), torch.full((11,), 1 / 11))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("gate", [-1e4, 1e4])
def test_a_closed_gate_keeps_finite_log_probs(gate, dtype):
    """Every symbol has a finite log-probability, and every parameter a finite gradient."""
    output = copying(bias=gate).to(dtype)
    *floats, symbols = output_inputs([5, 7, 5])
    log_probs = output(torch.ones(1, 1, dtype=dtype), OutputInputs(*(part.to(dtype) for part in floats), symbols))
    log_probs.sum().backward()
    assert log_probs.isfinite().all()
    assert log_probs[0, 5].exp().item() == pytest.approx(2 / 3 if gate < 0 else 1 / 11, rel=1e-5)
    assert all(value.grad.isfinite().all() for value in output.parameters() if value.grad is not None)


@pytest.mark.parametrize("heads", [1, 2])
def test_copying_works_in_a_model(build_model, heads):
    """All parameters 0: weights 1/2 each on 5 and 7, gate 1/2, every symbol 1/17, so P(5) = P(7) = 1/34 + 1/4.

    With 3, which the target has not (see the fixture), in the place of 7, that half goes to what is generated: 3/4.
    """
    model = build_model(output="copy", attention=("standard", {"heads": heads}))
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    source, inputs = torch.tensor([[5, 7, 0], [5, 3, 0]]), torch.tensor([[1, 5], [1, 5]])
    expected = torch.full((2, 17), 1 / 34)
    expected[1] = 3 / 4 / 17
    expected[:, 5] += 1 / 4
    expected[0, 7] += 1 / 4
    output = model(source, source > 0, inputs, torch.zeros(2, dtype=torch.int64))
    torch.testing.assert_close(output.logits.exp(), expected[:, None].expand(-1, 2, -1))
    assert output.weights is None, "nobody asked for them"
    mask = torch.tensor([[False, True], [True, False]])
    marked = model(source, source > 0, inputs, torch.zeros(2, dtype=torch.int64), output_mask=mask)
    torch.testing.assert_close(marked.logits, output.logits[mask])
    actual, state, _ = model.decode_step(inputs[:, 0], model.init_state(source, source > 0))
    torch.testing.assert_close(actual.exp(), expected)
    assert state.copy_ids.tolist() == [[5, 7, 0], [5, 0, 0]]


def test_a_tied_output_layer_is_the_embedding(build_model):
    model = build_model(output="copy", model={"tie_embeddings": True})
    assert model.output.vocabulary.weight is model.embedding.weight
    assert model.output.vocabulary.bias is None


def data(source: str, target: str) -> SequenceData:
    pairs = [Pair(tuple(source), (tuple(target),))]
    return SequenceData.of(Splits(pairs, pairs, pairs))


def test_symbols_are_matched_by_name(compose_config):
    """Sources of a, b, d (4, 5, 6), targets of b, c, d (4, 5, 6): b is 4 there, d is 6, and a is not there."""
    model: Any = new_model(resolve_model(compose_config(output="copy")), data("abd", "bcd"))
    assert model.output.target_ids.tolist() == [0, 0, 0, 0, 0, 4, 6]
    assert not any("same" in name for name in model.state_dict()), "it follows from the vocabularies"


def test_vocabularies_without_common_symbols_are_refused(compose_config):
    with pytest.raises(UserError, match="these have none in common; use output=linear"):
        new_model(resolve_model(compose_config(output="copy")), data("ab", "cd"))


@pytest.mark.parametrize(("sizes", "side"), [({"features": 5}, "source"), ({"target_features": 5}, "target")])
def test_features_cannot_be_copied(build_model, sizes, side):
    with pytest.raises(UserError, match=f"copies symbols, but the {side} is made of features; use output=linear"):
        build_model(output="copy", **sizes)
