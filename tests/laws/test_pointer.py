"""Laws of pointing, for every scorer: schedules and steps agree; other rows, padding and later inputs do not matter."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnx import registry
from attnx.data.batches import Batch
from attnx.data.vocabulary import BOS, EOS, PAD
from attnx.decoding.beam import Beam
from attnx.decoding.greedy import Greedy
from attnx.decoding.sampling import Sampling
from attnx.laws.small import small_config
from attnx.models.resolve import DataSizes, resolve_model

# Rows of 5, 3 and 7 points of two numbers each; what was pointed to is a permutation, and then the end.
LENGTHS = (5, 3, 7)
ORDERS = ([3, 0, 4, 1, 2], [1, 2, 0], [6, 2, 0, 5, 1, 4, 3])
RULES = ("any", "distinct", "permutation", "ring")


def build_model(scorer: Any = "additive", symbols: int = 0, cell: str = "gru", **options: Any) -> Any:
    """A pointer of small sizes with weights of its own."""
    torch.manual_seed(3)
    declared = registry.describe("scorer", registry.parse_spec("scorer", scorer)[0]).declarations
    if declared.get("is_recurrent") or declared.get("needs_keys") is False:
        pytest.skip("a pointer refuses a recurrent scorer, and one that does not read the memory")
    config = small_config(
        scorer=scorer,
        normalizer=options.pop("normalizer", "softmax"),
        model={"name": "pointer", "embedding_dim": 5, **options},
        encoder={"cell": cell},
        decoder={"cell": cell},
    )
    return resolve_model(config).build(DataSizes(symbols, 0 if symbols else 2, target_symbols=4 + 17)).eval()


def batch(rule: str = "permutation") -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sources, what is there of them, what the decoder reads, and the target."""
    orders = [[*order, order[0]] if rule == "ring" else order for order in ORDERS]
    longest = max(map(len, orders)) + 1
    source_mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    source = torch.randn(3, max(LENGTHS), 2, generator=torch.Generator().manual_seed(5)) * source_mask[..., None]
    rows = [[*(4 + place for place in order), EOS] for order in orders]
    target = torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
    return source, source_mask, torch.cat([torch.full((3, 1), BOS), target[:, :-1]], 1), target


def same(first: Tensor, second: Tensor, **how: float) -> None:
    torch.testing.assert_close(first, second, **{"atol": 1e-5, "rtol": 1e-4, **how})


def test_a_step_matches_the_parallel_pass(each_scorer):
    model = build_model(each_scorer, constraint="permutation")
    source, source_mask, inputs, target = batch()
    output = model(source, source_mask, inputs, need_weights=True)
    state = model.init_state(source, source_mask)
    for step in range(inputs.shape[1]):
        log_probs, state, read = model.decode_step(inputs[:, step], state, need_weights=True)
        real = target[:, step] != PAD
        same(log_probs[real], torch.log_softmax(output.logits[:, step], -1)[real])
        same(read.weights[real, 0], output.weights[real, step])


def test_both_schedules_give_the_same_outputs(each_scorer):
    """And the same gradients. What needs the past is refused the schedule that has none."""
    model = build_model(each_scorer)
    if registry.describe("scorer", each_scorer[0]).declarations.get("needs_history"):
        assert model.plan.valid_schedules == ("step_by_step",)
        return
    source, source_mask, inputs, target = batch()
    result = []
    for schedule in ("run_then_attend", "step_by_step"):
        model.zero_grad()
        logits = model(source, source_mask, inputs, schedule=schedule).logits
        model.target.step_losses(logits, target, target != PAD).sum().backward()
        result.append(
            [logits.detach(), *(weight.grad.clone() for weight in model.parameters() if weight.requires_grad)]
        )
    for first, second in zip(*result, strict=True):
        same(first, second)


@pytest.mark.parametrize("rule", RULES)
def test_a_training_step_waits_for_no_device(rule, take_training_step):
    take_training_step(build_model(constraint=rule), training_batch(rule))


@pytest.mark.usefixtures("float64")
def test_a_gpu_computes_the_same(plain_scorer, assert_same_on_gpu):
    assert_same_on_gpu(build_model(plain_scorer, constraint="ring"), training_batch("ring"))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("rule", RULES)
def test_a_gpu_obeys_every_constraint(rule, assert_same_on_gpu):
    assert_same_on_gpu(build_model(constraint=rule), training_batch(rule))


def training_batch(rule: str) -> Batch:
    """What the model learns, with lengths on the CPU."""
    source, source_mask, _, target = batch(rule)
    index, lengths = torch.arange(len(LENGTHS)), torch.tensor(LENGTHS)
    return Batch(source, source_mask, target, target != PAD, index, torch.zeros_like(index), source_lengths=lengths)


def test_other_rows_and_padding_change_nothing(each_scorer):
    assert_rows_are_independent(build_model(each_scorer, constraint="ring"), "ring")


@pytest.mark.parametrize("rule", RULES)
def test_rows_are_independent_under_every_constraint(rule):
    assert_rows_are_independent(build_model(constraint=rule), rule)


def assert_rows_are_independent(model: Any, rule: str) -> None:
    source, source_mask, inputs, target = batch(rule)
    together = model(source.masked_fill(~source_mask[..., None], 7e3), source_mask, inputs).logits
    for row, length in enumerate(LENGTHS):
        steps = int((target[row] != PAD).sum())
        row_slice = slice(row, row + 1)
        alone = model(source[row_slice, :length], source_mask[row_slice, :length], inputs[row_slice, :steps]).logits
        same(together[row_slice, :steps, : 4 + length], alone)
        assert (together[row, :, 4 + length :] == -torch.inf).all()


@pytest.mark.parametrize("rule", RULES)
def test_no_step_reads_later_inputs(rule):
    model = build_model(constraint=rule)
    source, source_mask, inputs, _ = batch(rule)
    logits = model(source, source_mask, inputs).logits
    for step in range(1, inputs.shape[1]):
        later = inputs.clone()
        later[:, step:] = 4 + (later[:, step:] + 1) % 3
        assert torch.equal(model(source, source_mask, later).logits[:, :step], logits[:, :step])


@pytest.mark.parametrize(
    ("rule", "cell"), [*((rule, "gru") for rule in RULES), ("ring", "lstm"), ("permutation", "rnn")]
)
def test_gradients(rule, cell):
    """Of the loss, by the numbers read and by every weight, in double precision."""
    model = build_model(constraint=rule, cell=cell).double()
    source, source_mask, inputs, target = batch(rule)
    weights = list(model.parameters())

    def loss(points: Tensor, *_: Tensor) -> Any:
        return model.target.step_losses(model(points, source_mask, inputs).logits, target, target != PAD).sum()

    assert torch.isfinite(loss(source.double()))
    assert torch.autograd.gradcheck(loss, (source.double().requires_grad_(), *weights), fast_mode=True)


def test_half_precision_is_finite():
    model = build_model(constraint="permutation")
    source, source_mask, inputs, target = batch()
    with torch.autocast("cpu", torch.bfloat16):
        loss = model.target.step_losses(model(source, source_mask, inputs).logits, target, target != PAD).sum()
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters())


@pytest.mark.parametrize("search", [Greedy(), Beam(beam_size=7, nbest=5), Sampling(temperature=3.0, nbest=5)])
@pytest.mark.parametrize("rule", RULES)
def test_a_search_obeys_the_constraint(rule, search):
    """With weights that know nothing. Log-probabilities are those of the pass over all steps."""
    model = build_model(constraint=rule)
    source, source_mask, *_ = batch(rule)
    decoded = search(model, source, source_mask, need_weights=True)
    for row, length in enumerate(LENGTHS):
        for written, steps, value in zip(
            decoded.sequences[row].tolist(),
            decoded.lengths[row].tolist(),
            decoded.log_probability[row].tolist(),
            strict=True,
        ):
            if not steps:
                continue
            ids = written[:steps]
            places = [symbol - 4 for symbol in ids if symbol != EOS]
            assert all(0 <= place < length for place in places)
            if rule == "permutation":
                assert sorted(places) == list(range(length))
            if rule == "ring":
                assert len(places) >= 4
                assert places[0] == places[-1]
            if rule in ("distinct", "ring"):
                assert len(set(places)) == len(places) - (rule == "ring")
            row_slice = slice(row, row + 1)
            logits = model(source[row_slice], source_mask[row_slice], torch.tensor([[BOS, *ids[:-1]]])).logits
            steps_told = torch.log_softmax(logits, -1)[0].gather(1, torch.tensor(ids)[:, None])
            assert steps_told.sum().item() == pytest.approx(value, abs=1e-4)


def test_a_pointer_selects_symbols():
    model = build_model(symbols=23)
    source, source_mask = torch.randint(4, 23, (3, 7)), batch()[1]
    decoded = Greedy()(model, source, source_mask)
    assert decoded.sequences.shape[:2] == (3, 1)


def test_scores_are_divided_by_the_temperature():
    source, source_mask, inputs, _ = batch()
    first, two = (
        build_model(normalizer=("softmax", {"temperature": heat}))(source, source_mask, inputs).logits
        for heat in (1.0, 2.0)
    )
    same(first[:, :, EOS], 2 * two[:, :, EOS])


def test_a_source_longer_than_the_ids_is_refused():
    with pytest.raises(registry.UserError, match="18 positions is longer than the maximum of 17"):
        build_model().init_state(torch.zeros(1, 18, 2), torch.ones(1, 18, dtype=torch.bool))
