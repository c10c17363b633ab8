"""See et al. 2017, equations 10 to 13: coverage, its score, and its loss."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attnx.attention import AttentionHistory, build
from attnx.attention.memory import update_history
from attnx.attention.scorers.coverage import Coverage
from attnx.data.batches import Batch
from attnx.data.output_limit import OutputLimit
from attnx.data.vocabulary import Vocabulary
from attnx.decoding.greedy import Greedy
from attnx.inference.predictor import Predictor
from attnx.tasks.loss import token_loss
from attnx.training.callbacks.step_plan import Revision, StepPlan
from attnx.training.lightning_module import TrainingModule

BuildModel = Callable[..., Any]
LN2, LN3 = math.log(2), math.log(3)  # tanh(ln 2) = 3/5, tanh(ln 3) = 4/5

# Two targets of 3 and 2 symbols, their ends included, over sources of 3 and 2.
SOURCE = torch.tensor([[3, 5, 7], [11, 13, 0]])
TARGET = torch.tensor([[5, 7, 3], [8, 3, 0]])
BATCH = Batch(SOURCE, SOURCE > 0, TARGET, TARGET > 0, torch.arange(2), torch.zeros(2).long())
TOKENS = 5


def past(total: list[float]) -> AttentionHistory:
    return AttentionHistory(torch.full((1, len(total)), 97.0), torch.tensor([total]))


def test_equation_11():
    """5 tanh(W s + U h + w c) with W = U = 1 and w = ln 2: the more a position was read, the more it is moved."""
    scorer = Coverage(query_size=1, memory_size=1, hidden_size=1)
    torch.nn.init.constant_(scorer.additive.query.weight, 1.0)
    torch.nn.init.constant_(scorer.additive.memory.weight, 1.0)
    torch.nn.init.constant_(scorer.covered, LN2)
    torch.nn.init.constant_(scorer.additive.v, 5.0)
    queries, keys = (
        scorer.project_queries(torch.tensor([[[LN3]]])),
        scorer.project_keys(torch.tensor([[[0.0], [-LN3], [-LN2]]])),
    )
    scores = scorer.score(queries, keys, past([0.0, 1.0, 1.0]))
    torch.testing.assert_close(scores, torch.tensor([[[5 * 4 / 5, 5 * 3 / 5, 5 * 4 / 5]]]))


@pytest.mark.parametrize("factor", [0.0, 1.0, 3.0])
def test_equation_12(factor):
    """min(1/2, 1/4) + min(1/3, 1) + min(1/6, 0) = 1/4 + 1/3 = 7/12, times the factor."""
    penalty = Coverage(5, 11, penalty=factor).penalty(torch.tensor([[[1 / 2, 1 / 3, 1 / 6]]]), past([1 / 4, 1.0, 0.0]))
    torch.testing.assert_close(penalty, torch.tensor([[factor * 7 / 12]]))


def covering(build_model: BuildModel, penalty: float, **choices: Any) -> Any:
    """A model that reads every position alike, always: all scores are 0."""
    model = build_model(**{"scorer": ("coverage", {"penalty": penalty}), **choices})
    for name, parameter in model.named_parameters():
        if name.endswith("scorer.additive.v"):
            torch.nn.init.zeros_(parameter)
    return model.eval()


@pytest.mark.parametrize("heads", [1, 2])
def test_equation_10(build_model, heads):
    """The sum of all weights before: t / 3 of each of 3 positions, t / 2 of each of 2; several heads count for one.

    So at the first step nothing is read again, and afterwards everything is: penalties 0, 1, 1.
    """
    model = covering(build_model, 3.0, attention=("standard", {"heads": heads}))
    state = model.init_state(SOURCE, SOURCE > 0)
    for step in range(3):
        expected = step * torch.tensor([[1 / 3, 1 / 3, 1 / 3], [1 / 2, 1 / 2, 0.0]])
        torch.testing.assert_close(
            state.history.cumulative, expected if heads == 1 else expected[:, None].expand(2, 2, 3)
        )
        _, state, read = model.decode_step(torch.tensor([1, 5]), state, need_weights=True)
        torch.testing.assert_close(read.penalty, torch.full((2, 1), 3.0 if step else 0.0))


def test_decoder_states_are_covered_once_they_exist(build_model):
    """At step t there are t states: weights are 1 / t, sums 1/t' from when a state came; the last was never read.

    Step 2 reads states 0 and 1 by 1/2; before, state 0 was read by 1: min(1/2, 1) + min(1/2, 0). Step 3 reads thirds;
    sums were 3/2, 1/2 and 0: 1/3 + 1/3 + 0.
    """
    model = covering(build_model, 1.0, scope="history")
    output = model(SOURCE, SOURCE > 0, torch.tensor([[1, 5, 3, 8]] * 2))
    torch.testing.assert_close(output.penalty, torch.tensor([[0, 0, 1 / 2, 2 / 3]] * 2))


@pytest.mark.parametrize("factor", [0.0, 1.0, 3.0])
def test_equation_13(build_model, factor):
    """It joins what training lowers: 1 at the 2nd and 3rd step of the first row, 1 at the 2nd of the other, no PAD."""
    model = covering(build_model, factor)
    loss = token_loss(model, BATCH)
    assert loss.tokens == TOKENS
    torch.testing.assert_close(loss.penalty, torch.tensor(factor * (2 + 1)))
    torch.testing.assert_close(loss.mean, (loss.total + 3 * factor) / TOKENS)


class Unmeasured:
    """A task of which the loss alone matters."""

    label_smoothing = 0.0
    has_step_labels = False

    def metrics(self, tags: Any) -> dict[str, Any]:
        return {}


def test_validation_adds_no_coverage_loss(build_model, monkeypatch):
    """The loss that is trained holds the penalty; the loss and the perplexity that validation logs do not."""
    data = SimpleNamespace(
        tags=(), output_limit=OutputLimit(), target=Vocabulary.of([]), pairs=SimpleNamespace(valid=[])
    )
    predictor = Predictor(covering(build_model, 3.0), Unmeasured(), data, Greedy())
    experiment = TrainingModule(predictor, None, None, 0.0)
    experiment.step_plan = StepPlan([Revision(0, 1, 1)])
    experiment._trainer = SimpleNamespace(accumulate_grad_batches=1, world_size=1, global_step=0)
    logged: dict[str, Any] = {}
    for name, stand_in in (
        ("log_dict", logged.update),
        ("all_gather", torch.clone),
        ("_update_metrics", lambda *_: []),
    ):
        monkeypatch.setattr(experiment, name, stand_in)
    plain = token_loss(experiment.model, BATCH).total / TOKENS
    experiment.on_validation_epoch_start()
    experiment.validation_step(BATCH, 0)
    experiment.on_validation_epoch_end()
    torch.testing.assert_close(logged["valid_loss"], plain, check_dtype=False)
    torch.testing.assert_close(logged["valid_perplexity"], plain.exp(), check_dtype=False)
    torch.testing.assert_close(experiment.training_step(BATCH, 0), plain + 9 / TOKENS)


def test_the_sum_of_weights_is_not_in_16_bits():
    """1,200 steps add 1,200 to it, where sums of 16 bits stop at 256 or 512."""
    attention = build(scorer="coverage", query_size=3, memory_size=2)
    with torch.autocast("cpu", torch.bfloat16):
        memory = attention.make_memory(torch.randn(1, 400, 2).bfloat16())
        history = attention.init_history(memory)
        for _ in range(1200):
            output = attention(torch.zeros(1, 1, 3).bfloat16(), memory, history=history, need_weights=True)
            history = update_history(history, output)
    assert history.cumulative.sum().item() == pytest.approx(1200, rel=0.02)
