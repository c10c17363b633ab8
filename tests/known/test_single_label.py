"""The target of one answer, by hand: loss, probabilities and choice."""

import math

import torch

from attnx.data.vocabulary import EOS, PAD, UNK
from attnx.nn.targets.single_label import SingleLabelTarget

INF = math.inf
# PAD, BOS, EOS and UNK have the largest scores, and are no answers; three answers weigh 1, 2 and 5.
SCORES = torch.tensor([[9.0, 9.0, 9.0, 9.0, 0.0, math.log(2), math.log(5)]])


def test_the_loss_counts_the_answer_alone():
    """-log 5/8, whatever comes after it; smoothed by 0.3 the three answers share that much: log 8 - 0.7 log 5 - ..."""
    target = torch.tensor([[6, EOS, PAD]])
    loss = SingleLabelTarget(7).step_losses(SCORES[:, None], target, target != PAD)
    torch.testing.assert_close(loss, torch.tensor([[math.log(8 / 5), 0.0, 0.0]]))
    smooth = SingleLabelTarget(7).step_losses(SCORES[:, None], target, target != PAD, label_smoothing=0.3).sum()
    torch.testing.assert_close(smooth, torch.tensor(math.log(8) - 0.7 * math.log(5) - 0.1 * math.log(10)))


def test_an_unknown_answer_adds_nothing():
    target = torch.tensor([[6, EOS], [UNK, EOS]])
    loss = SingleLabelTarget(7).step_losses(SCORES.expand(2, -1)[:, None], target, target != PAD).sum()
    torch.testing.assert_close(loss, torch.tensor(math.log(8 / 5)))


def test_a_search_reads_the_answer_probabilities():
    predicted = SingleLabelTarget(7).predict(SCORES)
    torch.testing.assert_close(predicted.exp(), torch.tensor([[0.0, 0.0, 0.0, 0.0, 1 / 8, 2 / 8, 5 / 8]]))
    assert SingleLabelTarget(7).end_log_probs(predicted).tolist() == [[-INF, -INF, 0.0, -INF, -INF, -INF, -INF]]


def test_an_answer_has_one_symbol():
    picked = SingleLabelTarget(7).greedy(SingleLabelTarget(7).predict(SCORES))
    assert picked.output.tolist() == [6]
    assert picked.is_last.tolist() == [True]
    torch.testing.assert_close(picked.score, torch.tensor([math.log(5 / 8)]))
