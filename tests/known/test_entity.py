"""Henaff et al. 2017, equations 1 to 7, by hand under ``recipe=entnet``."""

import math
from functools import cache
from typing import Any

import torch

from attnx.config.compose import compose
from attnx.data.vocabulary import PAD, STOP
from attnx.models.resolve import DataSizes, resolve_model

LN3 = math.log(3)
A, B, Q, Z, C, YES, NO = 5, 6, 7, 8, 9, 4, 5


@cache
def compose_config(*overrides: str) -> dict[str, Any]:
    return compose(overrides)


def build_model(*overrides: str) -> Any:
    config = compose_config("recipe=entnet", *overrides)
    return resolve_model(config).build(DataSizes(source_symbols=11, target_symbols=7))


def by_hand() -> Any:
    """Two slots of width 2.

    Places 0 and 1 of a sentence have the masks (1/2, 0) and (0, 1), so "a b" is s = (ln 3 / 2, 0). Both slots start
    with their keys, w1 = h1 = (1, 0) and w2 = h2 = (0, 1): s . h + s . w is ln 3 and 0, the gates are 3/4 and 1/2.

    U exchanges, so U h1 = (0, 1); V w1 is V's first column (2/3, -20/3), W s = (2, -5). Their sum (8/3, -32/3) becomes
    (8/3, -16/3) by slopes of 1/2, and h1 + 3/4 of it is (3, -4): at length 1, (0.6, -0.8). Likewise (1, 0) + (5, 9) +
    (2, -5) = (8, 4), and h2 + 1/2 of it is (4, 3): (0.8, 0.6).
    """
    model = build_model("model.hidden_size=2", "model.num_slots=2", "model.max_words=2")
    with torch.no_grad():
        model.stories.masks.copy_(torch.tensor([[[0.5, 0.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]]))
        model.stories.embedding.weight.zero_()
        for word, vector in {A: (LN3, 11.0), B: (13.0, 0.0), Q: (-5 * LN3, 0.0), C: (17.0, -LN3 / 0.8)}.items():
            model.stories.embedding.weight[word] = torch.tensor(vector)
        model.memory.keys.copy_(torch.eye(2))
        model.memory.map_content.weight.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
        model.memory.map_key.weight.copy_(torch.tensor([[2 / 3, 5.0], [-20 / 3, 9.0]]))
        model.memory.map_sentence.weight.copy_(torch.tensor([[4 / LN3, 0.0], [-10 / LN3, 0.0]]))
        model.memory.activation.weight.fill_(0.5)
        model.context.weight.copy_(20 * torch.eye(2))
        model.output.weight.zero_()
        model.output.weight[YES], model.output.weight[NO] = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    return model.eval()


def test_a_story_by_hand():
    """The question reads q . h = -3 ln 3 and -4 ln 3, so 3/4 and 1/4, u = (0.65, -0.45), and H u = (13, -9).

    phi(q + H u) = (13 - 5 ln 3, -4.5), of which R gives an answer each.
    """
    source = torch.tensor([[A, B, STOP, Q]])
    output = by_hand()(source, source != PAD, source[:, :2], need_weights=True)
    torch.testing.assert_close(output.logits[0, 0, [YES, NO]], torch.tensor([13 - 5 * LN3, -4.5]))
    # Gates where the sentence ends, readings where the question does.
    expected = torch.tensor([[[0, 0, 3 / 4, 3 / 4]], [[0, 0, 1 / 2, 1 / 4]]])
    torch.testing.assert_close(output.weights[0], expected)


def test_a_gate_reads_the_current_slot():
    """The second sentence is s = (0, -ln 3 / 0.8); h + w is (1.6, -0.8) and (0.8, 1.6), so scores ln 3 and -2 ln 3."""
    source = torch.tensor([[A, B, STOP, Z, C, STOP, Q], [A, B, STOP, Q, PAD, PAD, PAD]])
    model = by_hand()
    weights = model.init_state(source, source != PAD).weights[:, :, 0]
    torch.testing.assert_close(weights[0, :, 2], torch.tensor([3 / 4, 1 / 2]))
    torch.testing.assert_close(weights[0, :, 5], torch.tensor([3 / 4, 1 / 10]))
    torch.testing.assert_close(weights[1, :, 3], torch.tensor([3 / 4, 1 / 4]))
    assert (weights[1, :, 4:] == 0).all()


def test_the_answer_is_followed_by_the_end_symbol():
    source = torch.tensor([[A, B, STOP, Q]])
    model = by_hand()
    first, state, read = model.decode_step(
        torch.tensor([1]), model.init_state(source, source != PAD), need_weights=True
    )
    # Of the seven symbols PAD, BOS, EOS and UNK are no answers; the seventh has a score of 0.
    total = math.log(math.exp(13 - 5 * LN3) + math.exp(-4.5) + 1)
    assert first[0, :4].tolist() == [-math.inf] * 4
    torch.testing.assert_close(first[0, 4:], torch.tensor([13 - 5 * LN3, -4.5, 0]) - total)
    second, _, next_state = model.decode_step(first.argmax(-1), state, need_weights=True)
    assert second.exp().tolist() == [[0, 0, 1, 0, 0, 0, 0]]
    assert read.weights.sum() > 0
    assert next_state.weights.sum() == 0


def test_words_beyond_the_last_mask_share_it():
    """Of "z a a a" only the masks (0, 1), then (0, 1) again: the sum is (0, 33)."""
    model = by_hand()
    source = torch.tensor([[Z, A, A, A, STOP, Q]])
    stories = model.stories(source, source != PAD)
    torch.testing.assert_close(stories.sentences, torch.tensor([[[0.0, 33.0]]]))
    torch.testing.assert_close(stories.question, torch.tensor([[-5 * LN3, 0.0]]))


def test_a_question_without_a_story_reads_the_initial_slots():
    """Their keys: q . w is -5 ln 3 and 0, so 1/244 and 243/244."""
    source = torch.tensor([[Q]])
    weights = by_hand().init_state(source, source != PAD).weights[0, :, 0, 0]
    torch.testing.assert_close(weights, torch.tensor([1 / 244, 243 / 244]))


def test_keys_can_be_words():
    model = build_model("task.entities=[mary,john,sandra]", "model.keys=tied", "model.hidden_size=2")
    rows = model.stories.embedding.weight[STOP + 1 : STOP + 4]
    source = torch.tensor([[Q]])
    question = model.stories(source, source != PAD).question[0]
    weights = model.init_state(source, source != PAD).weights[0, :, 0, 0]
    torch.testing.assert_close(weights, torch.softmax(rows @ question, 0))
    model(source, source != PAD, source).logits.sum().backward()
    assert rows.shape == (3, 2)
    assert model.stories.embedding.weight.grad[STOP + 1 : STOP + 4].abs().sum() > 0
