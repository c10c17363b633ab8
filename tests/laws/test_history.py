"""Laws of the model ``history``: other rows change nothing, it is causal, and steps equal the parallel pass."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnx import registry
from attnx.attention import Query, QueryContext
from attnx.data.batches import Batch
from attnx.decoding.greedy import Greedy
from attnx.errors import UserError
from attnx.laws.small import small_config
from attnx.models.resolve import DataSizes, resolve_model

pytestmark = pytest.mark.usefixtures("float64")
ROWS, PAST, AHEAD, TARGETS, NUM_KNOWN = 3, 5, 4, 2, 1
FACTORS = {
    "scorer": [("additive", {"hidden_size": 19}), ("dot", {}), ("coverage", {"hidden_size": 19})],
    "scope": ["history", "global", "local"],
    "asks": [
        *(("previous_state", "now"), ("current_state", "none"), ("last_context", "next"), ("token", "now")),
        ("mean_state", "none"),
    ],
    "include_self": [False, True],
    "known": [0, NUM_KNOWN],
    "forecast": ["direct", "recursive"],
    "quantiles": [None, [0.1, 0.5]],
}


def possible(choices: dict[str, Any]) -> bool:
    return not (choices.get("include_self") and choices.get("asks", "p")[0] in ("last_context", "token"))


def build_model(**choices: Any) -> Any:
    asks, feed = choices.get("asks", ("previous_state", "now"))
    config = small_config(
        scorer=choices.get("scorer", "additive"),
        scope=(
            choices.get("scope", "history"),
            {"sources": ["decoder"], "include_self": choices.get("include_self", False)},
        ),
        query=[asks],
        attention=("standard", {"heads": choices.get("heads", 2)}),
        model={"name": "history", "embedding_dim": 7, "feed": feed},
        decoder={"hidden_size": 6, "cell": choices.get("cell", "lstm")},
    )
    options = {"quantiles": choices.get("quantiles"), "forecast": choices.get("forecast", "direct")}
    config["task"] = {"name": "forecasting", "horizon": AHEAD, "subtract_last_value": False, **options}
    sizes = DataSizes(source_features=TARGETS + choices.get("known", 0), target_features=TARGETS)
    return resolve_model(config).build(sizes).eval()


def draw_batch(num_known: int) -> tuple[Tensor, Tensor, Tensor]:
    """A source, which of it is there, and what is right."""
    source = torch.randn(ROWS, PAST + (AHEAD if num_known else 0), TARGETS + num_known)
    source[:, PAST:, :TARGETS] = 0
    return source, torch.ones(source.shape[:2], dtype=torch.bool), torch.randn(ROWS, AHEAD, TARGETS)


def shift_right(target: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(target[:, :1]), target[:, :-1]], 1)


def test_steps_match_the_parallel_pass_for_any_batch(combination):
    require_steps_of_the_parallel_pass(build_model(**combination), combination["known"])


@pytest.mark.parametrize("feed", ["none", "next", "now"])
@pytest.mark.parametrize("query", sorted({*registry.names("query")} - {"language_tag"}))  # a series has no tags
def test_steps_match_the_parallel_pass_for_every_query_input(query, feed):
    try:
        model = build_model(asks=(query, feed), forecast="recursive")
    except UserError:  # what these two cannot be together
        assert (query, feed) in {("current_state", "now"), ("mean_state", "now"), ("last_context", "none")}
        return
    require_steps_of_the_parallel_pass(model, 0)


class Earlier(nn.Module):
    """The sum of a field over this step and all earlier ones."""

    is_recurrent = True

    def __init__(self, field: str, size: int) -> None:
        super().__init__()
        self.needs, self.size = field, size

    def init_carry(self, rows: Tensor) -> Tensor:
        return rows.new_zeros(rows.shape[0], self.size)

    def forward(self, step: QueryContext, carry: Tensor) -> tuple[Tensor, Tensor]:
        totals = torch.cat([carry[:, None], getattr(step, self.needs)], 1).cumsum(1)  # (b, 1 + q, size)
        return totals[:, 1:], totals[:, -1]


@pytest.mark.parametrize(("field", "name"), [("prev_state", "previous_state"), ("state", "current_state")])
def test_a_query_input_carries_what_it_read_of_the_window(field, name):
    model = build_model(asks=(name, "none"))
    model.network.query = Query([Earlier(field, model.network.query.size)])
    require_steps_of_the_parallel_pass(model, 0)


def require_steps_of_the_parallel_pass(model: Any, num_known: int) -> None:
    source, source_mask, target = draw_batch(num_known)
    for schedule in model.plan.valid_schedules:
        complete = model(source, source_mask, shift_right(target), need_weights=True, schedule=schedule)
        state, columns = model.init_state(source, source_mask), 0
        for step in range(AHEAD):
            output, state, read = model.decode_step(shift_right(target)[:, step], state, need_weights=True)
            torch.testing.assert_close(output, complete.logits[:, step])
            columns = read.weights.shape[-1]
            torch.testing.assert_close(read.weights, complete.weights[..., step : step + 1, :columns])
            assert not complete.weights[..., step, columns:].any()
        assert columns >= PAST + AHEAD - 1
        alone = model(source[1:2], source_mask[:1], shift_right(target)[1:2], schedule=schedule)
        torch.testing.assert_close(alone.logits, complete.logits[1:2])


def test_no_step_reads_later_inputs(combination):
    """What is right later leaves a forecast as it was; of a direct one, all of it; the past and the known matter."""
    num_known = combination["known"]
    model = build_model(**combination)
    source, source_mask, target = draw_batch(num_known)
    original = model(source, source_mask, shift_right(target)).logits
    changed = target.clone()
    changed[:, 1] += 1.0  # read at the third step
    later_logits = model(source, source_mask, shift_right(changed)).logits
    assert torch.equal(later_logits[:, :2], original[:, :2])
    assert torch.equal(later_logits[:, 2], original[:, 2]) == (combination["forecast"] == "direct")
    past = source.clone()
    past[:, PAST - 1] += 1.0
    assert not torch.equal(model(past, source_mask, shift_right(target)).logits[:, 0], original[:, 0])
    if num_known:
        later = source.clone()
        later[:, PAST + 2, TARGETS:] += 1.0
        output = model(later, source_mask, shift_right(target)).logits
        assert torch.equal(output[:, :2], original[:, :2])
        assert not torch.equal(output[:, 2], original[:, 2])


def test_decoding_matches_the_parallel_forecast():
    """As many rows as there are to be; a recursive one reads what was written, of quantiles the first."""
    model = build_model(forecast="recursive", quantiles=[0.1, 0.5], known=NUM_KNOWN)
    source, source_mask, _ = draw_batch(NUM_KNOWN)
    decoded = Greedy()(model, source, source_mask, need_weights=True)
    assert decoded.lengths.tolist() == [[AHEAD]] * ROWS
    assert decoded.sequences.shape == (ROWS, 1, AHEAD, 2 * TARGETS)
    complete = model(source, source_mask, shift_right(decoded.sequences[:, 0]))
    torch.testing.assert_close(complete.logits, decoded.sequences[:, 0])
    assert decoded.weights.shape == (ROWS, 1, 2, AHEAD, PAST + AHEAD)
    torch.testing.assert_close(decoded.weights.sum(-1), torch.ones(ROWS, 1, 2, AHEAD))


@pytest.mark.parametrize("quantiles", [None, [0.1, 0.5]])
@pytest.mark.parametrize("asks", [("previous_state", "now"), ("current_state", "none")], ids="-".join)
def test_a_training_step_waits_for_no_device(asks, quantiles, take_training_step):
    take_training_step(build_model(asks=asks, quantiles=quantiles, known=NUM_KNOWN), training_batch(NUM_KNOWN))


def training_batch(num_known: int) -> Batch:
    """What the model learns, with lengths on the CPU."""
    source, source_mask, target = draw_batch(num_known)
    target_mask, index = torch.ones(target.shape[:2], dtype=torch.bool), torch.arange(ROWS)
    lengths = source_mask.sum(-1)
    return Batch(source, source_mask, target, target_mask, index, torch.zeros_like(index), source_lengths=lengths)


def test_a_gpu_computes_the_same(sample_combination, assert_same_on_gpu):
    model = build_model(**sample_combination)
    assert_same_on_gpu(model, training_batch(sample_combination["known"]))


@pytest.mark.parametrize("has_lengths", [False, True])
def test_padding_is_refused(has_lengths):
    model = build_model()
    source, source_mask, target = draw_batch(0)
    source_mask[1, -1] = False
    lengths = source_mask.sum(-1) if has_lengths else None
    with pytest.raises(ValueError, match="windows of one length"):
        model(source, source_mask, shift_right(target), source_lengths=lengths)


@pytest.mark.parametrize("quantiles", [None, [0.1, 0.5, 0.9]])
def test_gradients(quantiles):
    model = build_model(quantiles=quantiles, known=NUM_KNOWN, cell="gru")
    source, source_mask, target = draw_batch(NUM_KNOWN)
    names = [name for name, _ in model.named_parameters()]
    weights = [weight.detach().clone().requires_grad_() for weight in model.parameters()]
    exists = torch.ones(target.shape[:2], dtype=torch.bool)

    def loss(*args: Tensor) -> Tensor:
        result = torch.func.functional_call(
            model, dict(zip(names, args, strict=True)), (source[:1], source_mask[:1], shift_right(target)[:1])
        )
        return model.target.step_losses(result.logits, target[:1], exists[:1]).sum()

    assert torch.autograd.gradcheck(loss, tuple(weights), fast_mode=True)
    assert all(gradient.abs().sum() > 0 for gradient in torch.autograd.grad(loss(*weights), weights))
