"""Decoder states in the memory: masks, weights, and widths next to encoder states."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx.data.vocabulary import BOS
from attnx.decoding.greedy import Greedy
from attnx.nn.recurrent import top_hidden

pytestmark = pytest.mark.usefixtures("float64")

LN2, LN3 = math.log(2), math.log(3)  # tanh(ln 2) = 3/5, tanh(ln 3) = 4/5
SOURCE = torch.tensor([[3, 5, 7, 11, 2]])
SOURCE_MASK = torch.ones(1, 5, dtype=torch.bool)
INPUTS = torch.tensor([[1, 5, 3, 8]])
BOTH = ["encoder", "decoder"]


@pytest.mark.parametrize("schedule", ["run_then_attend", "step_by_step"])
def test_one_row_of_weights_covers_both_sources(build_model, schedule):
    """Source 0 and ln 3; every token queries with 1, and every state is tanh(ln 2) = 3/5; symbol k scores k contexts.

    Step 0: scores (0, ln 3), weights (1/4, 3/4). Step 1: (0, ln 3, 3/5), so 1 : 3 : e^(3/5).
    """
    model = build_model(
        scorer="dot",
        scope="encoder_decoder",
        query=["token"],
        model={"embedding_dim": 1, "keys_from": "inputs", "bridge": "zeros", "feed": "none"},
        decoder={"cell": "rnn", "hidden_size": 1},
        readout={"inputs": ["context"], "tanh": False},
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.source_encoder.embedding.weight[7] = LN3
        model.embedding.weight[3] = 1.0
        model.decoder.layers[0].weight_ih_l0.fill_(LN2)
        model.output.weight[:, 0] = torch.arange(17.0)
    output = model(
        torch.tensor([[5, 7]]), SOURCE_MASK[:, :2], torch.tensor([[3, 3]]), need_weights=True, schedule=schedule
    )
    e = math.exp(3 / 5)
    shares = torch.tensor([[1 / 4, 3 / 4, 0, 0], [1 / (4 + e), 3 / (4 + e), e / (4 + e), 0]])
    torch.testing.assert_close(output.weights[0], shares)
    contexts = shares @ torch.tensor([0, LN3, 3 / 5, 3 / 5])
    torch.testing.assert_close(output.logits[0], contexts[:, None] * torch.arange(17.0))


def weights(model: Any) -> Tensor:
    """(steps, positions), the source's five first; a growing memory may lack a column for the last state."""
    return model(SOURCE, SOURCE_MASK, INPUTS, need_weights=True).weights[0]


@pytest.mark.parametrize(
    ("query", "include_self", "readable"),
    [
        (["current_state"], False, [0, 1, 2, 3]),
        (["current_state"], True, [1, 2, 3, 4]),
        (["previous_state"], False, [0, 0, 1, 2]),  # h_{t-1} is the query: earlier states are read
        (["previous_state"], True, [0, 1, 2, 3]),
        (["previous_state", "current_state"], False, [0, 0, 1, 2]),
        (["previous_state", "current_state"], True, [1, 2, 3, 4]),
        (["token", "current_state"], False, [0, 1, 2, 3]),
        (["token"], False, [0, 1, 2, 3]),
        (["language_tag"], False, [0, 1, 2, 3]),
        (["last_context"], False, [0, 1, 2, 3]),
    ],
)
def test_include_self_decides_the_readable_states(build_model, query, include_self, readable):
    """The first so many at each step, all of them with some weight, beside the whole source, whatever is fed when."""
    for feed in ("next", "none") if "current_state" in query else ("now", "next", "none"):
        model = build_model(
            scope=("encoder_decoder", {"include_self": include_self}), query=query, model={"feed": feed}
        )
        read = weights(model) > 0
        assert read[:, :5].all()
        assert [row.nonzero().flatten().tolist() for row in read[:, 5:]] == [list(range(count)) for count in readable]


@pytest.mark.parametrize(
    ("query", "include_self", "own_window"),
    [
        # Of n states that are there, those within 1 of min(t, n - 1).
        (["current_state"], False, [[], [0], [0, 1], [1, 2]]),
        (["current_state"], True, [[0], [0, 1], [1, 2], [2, 3]]),
        (["previous_state"], False, [[], [], [0], [0, 1]]),
    ],
)
def test_a_window_in_each_source(build_model, query, include_self, own_window):
    """``local`` over both: around position t in the source, around the latest among its own states."""
    scope = ("local", {"window": 1, "sources": BOTH, "include_self": include_self})
    read = weights(build_model(scope=scope, query=query)) > 0
    assert [row.nonzero().flatten().tolist() for row in read[:, :5]] == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert [row.nonzero().flatten().tolist() for row in read[:, 5:]] == own_window


def test_a_predicted_window_in_each_source(build_model):
    """sigmoid(0) = 1/2 puts the center in the middle of each: of 5 at 5/2, of n states at n / 2; window 0, sigma 1/2.

    What is shared is one softmax over one position of each source, or of the source alone at the first step.
    """
    model = build_model(scorer="dot", scope=("local", {"center": "predictive", "window": 0, "sources": BOTH}))
    torch.nn.init.zeros_(model.attention.scope.center_predictor[2].weight)
    torch.nn.init.zeros_(model.attention.project.weight)  # every score is 0
    g = math.exp(-1 / 2)  # exp(-(1/2)^2 / (2 / 4)), half a position from the center
    # Of its own states the centers are 1/2, 1 and 3/2, nearest to 0, 1 and 2: halves go to the even one.
    expected = torch.zeros(4, 9)
    expected[0, 2] = g
    expected[1, [2, 5]] = torch.tensor([g, g]) / 2
    expected[2, [2, 6]] = torch.tensor([g, 1.0]) / 2
    expected[3, [2, 7]] = torch.tensor([g, g]) / 2
    torch.testing.assert_close(weights(model), expected)


def test_states_of_different_width_are_projected(build_model):
    """The decoder's 13 become the encoder's 22: one map for keys and values, as the encoder's states are both."""
    model = build_model(scope="encoder_decoder")
    assert model.state_projection.values.weight.shape == (22, 13)
    _, state, _ = model.decode_step(torch.tensor([1]), model.init_state(SOURCE, SOURCE_MASK))
    assert state.memory.source_sizes == (5, 1)
    torch.testing.assert_close(state.memory.values[:, 5], model.state_projection.values(top_hidden(state.rnn_state)))


def test_equal_widths_need_no_map(build_model):
    model = build_model(scope="encoder_decoder", encoder={"hidden_size": 13, "bidirectional": False})
    assert not list(model.state_projection.parameters())


@pytest.mark.parametrize("name", ["global", "local", "history", "encoder_decoder"])
def test_every_scope_reads_every_source(build_model, name):
    """``scope.sources`` says what a memory holds, in whatever order it is written."""
    for sources, positions in ((["encoder"], 5), (["decoder"], 4), (BOTH, 9), (BOTH[::-1], 9)):
        assert weights(build_model(scope=(name, {"sources": sources}))).shape == (4, positions)


@pytest.mark.parametrize("feed", ["now", "none"])
def test_decoding_returns_the_weights_of_its_output(build_model, feed):
    """A search returns the weights of a pass over its output; a query before the cell runs cannot read that state."""
    model = build_model(scope="encoder_decoder", query=["previous_state"], model={"feed": feed}).eval()
    decoded = Greedy()(model, SOURCE, SOURCE_MASK, need_weights=True)
    steps = decoded.sequences.shape[2]
    inputs = torch.cat([torch.tensor([[BOS]]), decoded.sequences[:, 0, :-1]], 1)
    assert decoded.weights.shape == (1, 1, steps, 5 + (steps - 1 if feed == "now" else steps))
    torch.testing.assert_close(decoded.weights[:, 0], model(SOURCE, SOURCE_MASK, inputs, need_weights=True).weights)
