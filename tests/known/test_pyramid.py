"""Chan et al. 2016, the pyramid encoder: by hand, padding, and displayed weights."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from attnx.config.compose import compose
from attnx.nn.encoders.pyramid import Pyramid

pytestmark = pytest.mark.usefixtures("float64")
BuildModel = Callable[..., Any]

LN2, LN3 = math.log(2), math.log(3)  # tanh(ln 2) = 3/5, tanh(ln 3) = 4/5


def test_a_state_reads_a_pair():
    """One direction, nothing recurs, h^1 = tanh(x) and h^2 = tanh(a h^1_2i + b h^1_2i+1), a = 5/3 ln 2, b = 5/4 ln 3.

    Of 0, ln 2, ln 3 the first layer makes 0, 3/5, 4/5. The second reads (0, 3/5) and, with zeros behind, (4/5, 0).
    """
    encoder = Pyramid(input_size=1, cell="rnn", hidden_size=1, layers=2, bidirectional=False)
    first, second = (layer.layers[0] for layer in encoder.layers)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.zero_()
        first.weight_ih_l0.fill_(1.0)
        second.weight_ih_l0.copy_(torch.tensor([[5 / 4 * LN2, 5 / 3 * LN3]]))
    encoded = encoder(torch.tensor([[[0.0], [LN2], [LN3]]]), torch.ones(1, 3, dtype=torch.bool))
    below, top = encoded.layers
    torch.testing.assert_close(below[0, :, 0], torch.tensor([0.0, 3 / 5, 4 / 5]))
    torch.testing.assert_close(top[0, :, 0], torch.tensor([4 / 5, 3 / 5]))
    torch.testing.assert_close([layer[0] for layer in encoded.final], [below[:, 2], top[:, 1]])


@pytest.mark.parametrize(("steps", "states"), [(1, 1), (7, 1), (8, 1), (9, 2), (17, 3)])
def test_four_layers_leave_one_state_per_eight_steps(steps, states):
    encoder = Pyramid(input_size=3, hidden_size=5)
    encoded = encoder(torch.randn(2, steps, 3), torch.ones(2, steps, dtype=torch.bool))
    assert encoded.spans.mask.shape == (2, states)
    assert encoded.spans.state_index.tolist() == [[step // 8 for step in range(steps)]] * 2
    assert encoded.layers[-1].shape == (2, states, 10)
    assert [len(layer[0]) for layer in encoded.final] == [2] * 4


@pytest.mark.parametrize("length", range(8))
def test_padding_changes_nothing(length):
    """Whatever stands there, and however much of it; a row without any step is one step of zeros."""
    encoder = Pyramid(input_size=3, hidden_size=5, layers=3)
    alone = torch.randn(1, length, 3)
    source_mask = torch.arange(11) < torch.tensor([[length], [11]])
    among = encoder(torch.cat([alone, torch.full((1, 11 - length, 3), 97.0)], 1).expand(2, -1, -1), source_mask)
    tight = alone if length else torch.zeros(1, 1, 3)
    separate = encoder(tight, torch.full((1, len(tight[0])), length > 0))
    states = separate.layers[-1].shape[1]
    torch.testing.assert_close(among.layers[-1][:1, :states], separate.layers[-1])
    assert (among.layers[-1][0, states:] == 0).all()
    for first, second in zip(among.final, separate.final, strict=True):
        torch.testing.assert_close([part[:1] for part in first], list(second))


def test_shares_and_weights_over_steps():
    """States of 4 steps: of 6 steps the second stands for 2, of 3 the first for 3; two states of the decoder follow."""
    source_mask = torch.arange(6) < torch.tensor([[6], [3]])
    spans = Pyramid(input_size=3, hidden_size=5, layers=3)(torch.randn(2, 6, 3), source_mask).spans
    quarter, third = [1 / 4] * 4, [1 / 3] * 3
    torch.testing.assert_close(spans.shares, torch.tensor([[*quarter, 1 / 2, 1 / 2], [*third, 0.0, 0.0, 0.0]]))
    weights = torch.tensor([[0.5, 0.3, 0.1, 0.1], [0.9, 0.0, 0.1, 0.0]])
    expected = torch.tensor([[*[0.125] * 4, 0.15, 0.15, 0.1, 0.1], [*[0.3] * 3, 0.0, 0.0, 0.0, 0.1, 0.0]])
    torch.testing.assert_close(spans.upsample(weights[:, None]), expected[:, None])
    several = weights[:, None, None].expand(-1, 3, 1, -1)
    torch.testing.assert_close(spans.upsample(several), expected[:, None, None].expand(-1, 3, 1, -1))


def las(build_model: BuildModel) -> Any:
    """The parts of ``recipe=las_location``, so that each can be seen; every parameter is 0."""
    selected = compose(["recipe=las_location"])
    assert (selected["encoder"]["name"], selected["encoder"]["layers"], selected["scorer"]["name"]) == (
        "pyramid",
        4,
        "location",
    )
    assert (list(selected["query"]), selected["model"]["feed"]) == (["current_state"], "next")
    model = build_model(
        scorer=("location", {"hidden_size": 1, "filters": 1, "kernel_radius": 1}),
        encoder={"name": "pyramid", "cell": "rnn", "hidden_size": 1, "layers": 2, "bidirectional": False},
        decoder={"cell": "rnn", "hidden_size": 1},
        readout={"inputs": ["state", "context"], "tanh": False},
        model={"embedding_dim": 1, "feed": "next", "bridge": "zeros"},
    )
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    return model


def test_the_recipe_las_location_uses_a_pyramid(build_model):
    """Sources 0, ln 2 | ln 3, nothing: states (4/5, 3/5), as above; the second weighs three times the first at step 0.

    Chan et al.: s_i = RNN(s_{i-1}, y_{i-1}, c_{i-1}); Chorowski et al.: e = v tanh(W s + U h + L f), f = F * a_{i-1}.
    Step 0: s = 0, f = 0, e = v tanh(U h) with U = 5 ln 2: e_0 = v tanh(4 ln 2), e_1 = v tanh(3 ln 2).
    """
    model = las(build_model)
    first, second = (layer.layers[0] for layer in model.source_encoder.encoder.layers)
    scorer = model.attention.scorer
    up, near, far = 5 * LN2, (256 - 1) / (256 + 1), (64 - 1) / (64 + 1)  # tanh(4 ln 2), tanh(3 ln 2)
    v = LN3 / (far - near)
    with torch.no_grad():
        for symbol, number in ((5, LN2), (7, LN3)):
            model.source_encoder.embedding.weight[symbol] = number
        first.weight_ih_l0.fill_(1.0)
        second.weight_ih_l0.copy_(torch.tensor([[5 / 4 * LN2, 5 / 3 * LN3]]))
        scorer.additive.memory.weight.fill_(up)
        scorer.additive.v.fill_(v)
        scorer.near.weight.copy_(torch.tensor([[[1.0, 0.0, 0.0]]]))  # of the position before
        scorer.location.weight.fill_(4.0 * LN2)
        # The cell reads the token, and of what is fed (state, context) the context.
        model.decoder.layers[0].weight_ih_l0.copy_(torch.tensor([[0.0, 0.0, 1.0]]))
        model.output.weight[:, 0] = torch.arange(17.0)
    source = torch.tensor([[3, 5, 7]])
    output = model(source, source > 0, torch.tensor([[1, 5]]), need_weights=True)
    # Step 0 weighs 1 : 3. Each of the first two steps has half of the first state's weight.
    context = 1 / 4 * 4 / 5 + 3 / 4 * 3 / 5
    # Step 1: position 1 also knows that its neighbor had 1/4: 3 ln 2 + 4 ln 2 / 4 = 4 ln 2, as position 0 has.
    torch.testing.assert_close(output.weights[0], torch.tensor([[1 / 8, 1 / 8, 3 / 4], [1 / 4, 1 / 4, 1 / 2]]))
    states = torch.tensor([0.0, math.tanh(context)])
    torch.testing.assert_close(output.logits[0], states[:, None] * torch.arange(17.0))
