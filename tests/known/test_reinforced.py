"""Xu et al. 2015, equations 11 and 12: sampled positions, their REINFORCE gradient, and where it joins the loss."""

import copy
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx import accel
from attnx.attention import Hops, build
from attnx.attention.normalizers.reinforced import Reinforced
from attnx.data.batches import Batch
from attnx.data.output_limit import OutputLimit
from attnx.laws.small import small_config, small_model
from attnx.ops import reinforce_loss, sample_one_hot
from attnx.tasks.loss import token_loss
from attnx.training.callbacks.step_plan import Revision, StepPlan
from attnx.training.lightning_module import TrainingModule

LOGS = torch.tensor([math.log(1), math.log(5), math.log(2)])  # a softmax of 1/8, 5/8, 2/8
ALL = torch.ones(3, dtype=torch.bool)
SOURCE = torch.tensor([[3, 5, 7, 9], [11, 13, 0, 0], [6, 8, 2, 0]])
TARGET = torch.tensor([[5, 7, 3], [8, 3, 0], [9, 4, 3]])
BATCH = Batch(SOURCE, SOURCE > 0, TARGET, TARGET > 0, torch.arange(3), torch.zeros(3).long())
SAMPLED = ("reinforced", {"expected": 0.0, "entropy": 0.0})


@pytest.fixture
def uniform(monkeypatch):
    """Let torch's uniform random numbers be a constant."""

    def fix(value: float) -> None:
        monkeypatch.setattr(torch, "rand", lambda *shape, device=None: torch.full(*as_size(shape), value))

    return fix


def as_size(shape: tuple[Any, ...]) -> tuple[torch.Size]:
    return (torch.Size(shape if not shape or isinstance(shape[0], int) else shape[0]),)


@pytest.mark.parametrize(("number", "position"), [(0.0, 0), (0.12, 0), (0.13, 1), (0.74, 1), (0.76, 2), (0.9999, 2)])
def test_a_position_is_sampled_by_its_probability(number, position, uniform):
    """Sums are 1/8, 6/8 and 1. The log-probability is that of the position, times the weight of the reward."""
    uniform(number)
    weights, log_prob, penalty = Reinforced(reward=3.0, entropy=0.5, expected=0.0).sample(LOGS, ALL)
    assert weights.tolist() == [float(index == position) for index in range(3)]
    torch.testing.assert_close(log_prob, 3 * torch.tensor([1 / 8, 5 / 8, 2 / 8])[position].log())
    entropy = 1 / 8 * math.log(8) + 5 / 8 * math.log(8 / 5) + 2 / 8 * math.log(4)
    torch.testing.assert_close(penalty, torch.tensor(-0.5 * entropy))


def test_evaluation_reads_the_highest_score():
    assert Reinforced(temperature=7.0)(LOGS, ALL).tolist() == [0.0, 1.0, 0.0]
    attention: Any = build(normalizer="reinforced", query_size=3, memory_size=3).eval()
    output = attention(torch.randn(2, 5, 3), attention.make_memory(torch.randn(2, 7, 3)), need_weights=True)
    assert output.log_prob is None
    assert output.penalty is None
    assert ((output.weights == 0) | (output.weights == 1)).all()


def test_a_row_of_zeros_has_no_sample():
    """And of 97 equal probabilities each is sampled, with a share that is within five deviations of 1/97."""
    assert sample_one_hot(torch.zeros(2, 3)).tolist() == [[0.0] * 3] * 2
    torch.manual_seed(3)
    shares = sample_one_hot(torch.full((20_000, 97), 0.1)).mean(0)
    assert (shares - 1 / 97).abs().max() < 5 * (1 / 97 / 20_000) ** 0.5


def test_the_reward_is_the_loss_from_a_step_on_less_that_of_others():
    """Losses (1, 3) and (5): the mean of the others is 5 for the first row, 2 for the second.

    The first row's advantages are 1 - 5 + 3 - 5 = -6 and -2, the second's 5 - 2 = 3; of independent steps -4, -2 and 3.
    """
    losses, mask = torch.tensor([[1.0, 3.0], [5.0, torch.nan]]), torch.tensor([[True, True], [True, False]])
    log_probs = torch.tensor([[0.1, 0.01], [0.001, 97.0]], requires_grad=True)
    loss = reinforce_loss(log_probs, losses.requires_grad_(), mask)
    loss.backward()
    torch.testing.assert_close(loss, torch.tensor(-0.6 - 0.02 + 0.003))
    torch.testing.assert_close(log_probs.grad, torch.tensor([[-6.0, -2.0], [3.0, 0.0]]))
    assert losses.grad is None
    alone = reinforce_loss(log_probs, losses, mask, steps_are_independent=True)
    torch.testing.assert_close(alone, torch.tensor(-0.4 - 0.02 + 0.003))


def test_a_single_row_has_no_baseline():
    loss = reinforce_loss(torch.tensor([[0.5, 1.0]]), torch.tensor([[2.0, 3.0]]), torch.ones(1, 2, dtype=torch.bool))
    assert loss.item() == 0.5 * (2 + 3) + 3


@pytest.mark.parametrize("independent", [True, False])
def test_the_mean_gradient_is_that_of_the_expected_loss(independent):
    """Two rows of two steps with two positions: 16 outcomes, all enumerated, each times its probability.

    A step's loss is a function of its position, and if steps are not independent of the one before, too.
    """
    scores = torch.tensor([[[0.3, -0.4], [1.1, 0.2]], [[-0.5, 0.9], [0.1, 0.7]]], dtype=torch.float64)
    table = torch.tensor([[[2.0, 5.0], [1.0, 7.0]], [[3.0, 4.0], [11.0, 6.0]]], dtype=torch.float64)
    mask, expected, estimates = torch.ones(2, 2, dtype=torch.bool), 0.0, 0.0
    leaf = scores.requires_grad_()
    for outcome in range(16):
        position = torch.tensor([outcome >> bit & 1 for bit in range(4)]).view(2, 2)
        log_probs = torch.log_softmax(leaf, -1).gather(-1, position[..., None])[..., 0]
        losses = table.gather(-1, position[..., None])[..., 0]
        if not independent:
            losses = losses + torch.tensor([[0.0, 1.0]]) * 4 * position[:, :1]
        probability = log_probs.sum().exp()
        expected = expected + probability * losses.sum()
        estimates = estimates + probability.detach() * reinforce_loss(log_probs, losses, mask, independent)
    gradients = [torch.autograd.grad(total, leaf, retain_graph=True)[0] for total in (expected, estimates)]
    torch.testing.assert_close(*gradients)


def test_the_estimate_reaches_the_loss(build_model):
    """Of a model: the gradient of its expected loss, from 4000 samples of a batch, within six standard errors."""
    torch.manual_seed(2)
    model = build_model(normalizer=SAMPLED, query=["token"], scorer="dot", model={"feed": "none"}).double().train()
    weight = model.attention.project.weight
    plain = copy.deepcopy(model).eval()
    gradients = []
    for _ in range(40):
        batch = Batch(*(part.repeat_interleave(100, 0) for part in BATCH[:6]))
        gradients.append(torch.autograd.grad(token_loss(model, batch).mean, weight)[0])
    mean = torch.stack(gradients).mean(0)
    error = torch.stack(gradients).std(0) / 40**0.5
    exact = torch.autograd.grad(expected_loss(plain) / (TARGET > 0).sum(), plain.attention.project.weight)[0]
    assert (exact.abs() > 6 * error).any()
    assert ((mean - exact).abs() <= 6 * error + 1e-12).all()


class ReadOne(torch.nn.Module):
    """Reads one position, and keeps the probability that it has by a softmax."""

    probabilities: Tensor

    def __init__(self, position: int) -> None:
        super().__init__()
        self.position = position

    def forward(self, scores: Tensor, allowed_mask: Tensor) -> Tensor:
        probabilities = torch.softmax(scores.masked_fill(~allowed_mask, -torch.inf), -1)
        self.probabilities = probabilities[..., self.position]
        return torch.zeros_like(scores).index_fill(-1, torch.tensor([self.position]), 1.0)


def expected_loss(model: Any) -> Tensor:
    """The sum of each step's loss over the positions it may read, each times its probability."""
    inputs = torch.cat([model.target.start_input(3, torch.device("cpu"))[:, None], TARGET[:, :-1]], 1)
    total, mask = torch.zeros((), dtype=torch.float64), TARGET > 0
    for position in range(SOURCE.shape[1]):
        normalizer = ReadOne(position)
        model.attention.normalizer = normalizer
        losses = model.target.step_losses(model(SOURCE, SOURCE > 0, inputs).logits, TARGET, mask)
        total = total + (normalizer.probabilities * losses * mask).sum()
    return total


def test_losses_of_validation_are_plain(build_model):
    """The penalty of training is -0.5 H alone: the value of the REINFORCE term, which means nothing, is left out."""
    model = build_model(normalizer=("reinforced", {"entropy": 0.5}), query=["token"])
    loss = token_loss(model.train(), BATCH)
    inputs = torch.cat([model.target.start_input(3, torch.device("cpu"))[:, None], TARGET[:, :-1]], 1)
    penalty = (model(SOURCE, SOURCE > 0, inputs).penalty * (TARGET > 0)).sum()
    torch.testing.assert_close(loss.penalty, penalty)
    assert loss.penalty < 0
    assert token_loss(model.eval(), BATCH).penalty == 0


@pytest.mark.parametrize("turns", [1, 2])
def test_the_term_is_shared_among_accumulated_batches(turns, build_model):
    """A turn has its share of the gradient, of a baseline of its own rows, as if it were the only one."""
    model = build_model(normalizer=SAMPLED, query=["token"])
    data = SimpleNamespace(tags=(), output_limit=OutputLimit(), pairs=None)
    task = SimpleNamespace(label_smoothing=0.0, metrics=lambda tags: {})
    module = TrainingModule(SimpleNamespace(model=model, task=task, data=data), None, None, 0.0)
    module.step_plan = StepPlan([Revision(0, 1, 1)])
    module._trainer = SimpleNamespace(accumulate_grad_batches=turns, world_size=1, global_step=0)
    gradients = []
    for take in (lambda: module.train().training_step(BATCH, 0), lambda: token_loss(model, BATCH).mean):
        torch.manual_seed(6)
        gradients.append(torch.autograd.grad(take(), model.attention.scorer.v)[0])
    assert gradients[0].abs().sum() > 0
    torch.testing.assert_close(gradients[0], turns * gradients[1])


CHOICES: list[dict[str, Any]] = [
    {},
    {"attention": ("standard", {"heads": 2})},
    {"attention": ("standard", {"heads": 2}), "scorer": "scaled"},
    {"attention": ("standard", {"hops": 3})},
    {"query": ["token"], "model": {"feed": "now"}},
    {"query": ["token"], "model": {"feed": "none"}},
    {"scope": "history"},
    {"scope": ("local", {"center": "predictive", "window": 1})},
]


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_schedules_agree_on_the_same_samples(choices, build_model, uniform):
    """Each position is the one in the middle of the distribution; log-probabilities and entropies are those of it."""
    uniform(0.5)
    torch.manual_seed(5)
    model = build_model(normalizer=("reinforced", {"expected": 0.25}), **choices).double().train()
    results = []
    for schedule in model.plan.valid_schedules:
        model.zero_grad()
        output = model(SOURCE, SOURCE > 0, TARGET, need_weights=True, schedule=schedule)
        (output.logits.logsumexp(-1) + output.log_prob + output.penalty).sum().backward()
        results.append((output, [weight.grad for weight in model.parameters()]))
    assert len(results) > 1
    assert all(log_prob.shape == TARGET.shape for log_prob in (output.log_prob for output, _ in results))
    for result in results[1:]:
        torch.testing.assert_close(result, results[0])


def test_terms_of_heads_and_hops(uniform):
    """Log-probabilities are summed; of penalties heads have the mean, hops the sum."""
    uniform(0.5)
    torch.manual_seed(4)
    queries, states = torch.randn(2, 3, 6), torch.randn(2, 7, 6)
    normalizer = ("reinforced", {"expected": 0.0})
    for scorer in ("dot", "additive"):
        attention: Any = build(scorer=scorer, normalizer=normalizer, query_size=6, memory_size=6, heads=2).train()
        memory = attention.make_memory(states)
        split = attention.query(queries).unflatten(-1, (2, 3)).transpose(1, 2)  # (b, h, q, width)
        output = attention(queries, memory)
        parts = [
            head(split[:, i], memory._replace(keys=memory.keys[:, i], values=memory.values[:, i]))
            for i, head in enumerate(attention.heads)
        ]
        torch.testing.assert_close(output.log_prob, parts[0].log_prob + parts[1].log_prob)
        torch.testing.assert_close(output.penalty, (parts[0].penalty + parts[1].penalty) / 2)
        hops = Hops(attention, 2, 6, 6)
        again = attention(hops.refine(queries) + output.context, memory)
        both = hops(queries, memory)
        torch.testing.assert_close(both.log_prob, output.log_prob + again.log_prob)
        torch.testing.assert_close(both.penalty, output.penalty + again.penalty)


@pytest.mark.parametrize("recurrent", ["none", "now"])
def test_the_history_model_counts_the_window(recurrent, uniform):
    """Reads of the window reach the forecast by its first step, and only if contexts are fed back."""
    uniform(0.5)
    query = ["previous_state"] if recurrent == "now" else ["current_state"]
    config = small_config(
        model={"name": "history", "feed": recurrent}, normalizer=SAMPLED, scope="history", query=query
    )
    config["task"] = {
        "name": "forecasting",
        "horizon": 2,
        "forecast": "recursive",
        "quantiles": [],
        "subtract_last_value": False,
    }
    model = small_model(config, features=1, target_features=1).train()
    source, inputs = torch.randn(3, 5, 1), torch.randn(3, 2, 1)
    mask = torch.ones(3, 5, dtype=torch.bool)
    network = model.network(source, mask, model._series(source, inputs)).log_prob
    log_prob = model(source, mask, inputs).log_prob
    window = network[:, :-2].sum(1) if recurrent == "now" else 0.0
    torch.testing.assert_close(log_prob, torch.stack([network[:, -2] + window, network[:, -1]], 1))


def test_accel_leaves_samples_to_the_definition(monkeypatch):
    """In training with one head or two, since a kernel may compute weights twice; in evaluation kernels may serve."""
    calls: list[str] = []

    def call(kernels: Any, *_: Any) -> None:
        calls.append("kernels")

    monkeypatch.setattr("attnx.accel.modules.call_kernels", call)
    for heads in (1, 2):
        attention: Any = build(normalizer="reinforced", query_size=6, memory_size=6, heads=heads)
        fast: Any = accel.enable(attention)
        queries, memory = torch.randn(2, 3, 6), fast.make_memory(torch.randn(2, 7, 6))
        assert fast.train()(queries, memory).log_prob is not None
        assert not calls
        fast.eval()(queries, memory)
        assert calls
        calls.clear()
