"""Targets by hand: losses, chosen outputs, feedback; and a search step by step."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx.attention import AttentionOutput
from attnx.data.batches import Batch
from attnx.data.vocabulary import BOS, EOS, PAD
from attnx.decoding.greedy import Greedy
from attnx.errors import UserError
from attnx.nn.contracts import TargetSpec
from attnx.nn.targets.numbers import Numbers
from attnx.nn.targets.symbols import Symbols
from attnx.tasks.loss import token_loss

CPU = torch.device("cpu")
SYMBOLS = Symbols(7)  # the four that every vocabulary has, and 4, 5, 6
NUMBERS = Numbers(2)
LN3 = math.log(3)  # sigmoid(ln 3) = 3/4


def shares(*parts: list[float]) -> Tensor:
    """Log-probabilities from shares of one."""
    return torch.tensor(parts).log()


class Scripted:
    """A model with given predictions, step by step, that records its inputs."""

    sources = ("encoder",)

    def __init__(self, target: TargetSpec, script: list[Tensor]) -> None:
        self.target, self.script = target, script
        self.inputs: list[Any] = []

    def init_state(self, source: Tensor, source_mask: Tensor, tag: Tensor | None = None) -> tuple[int, Tensor]:
        return 0, torch.arange(len(source))

    def decode_step(
        self, inputs: Tensor, state: tuple[int, Tensor], need_weights: bool = False
    ) -> tuple[Tensor, tuple[int, Tensor], AttentionOutput]:
        self.inputs.append(inputs.tolist())
        number, rows = state
        return self.script[number][rows], (number + 1, rows), AttentionOutput(torch.zeros(len(inputs), 1, 1))

    def select_rows(self, state: tuple[int, Tensor], rows: Tensor) -> tuple[int, Tensor]:
        return state[0], state[1][rows]

    reorder_beams = select_rows


def decode(model: Scripted, lengths: list[int], **options: Any) -> Any:
    """A greedy search over sources of these lengths."""
    source_mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return Greedy(**options)(model, source_mask.long(), source_mask)


def test_symbols_have_cross_entropy_loss():
    """Two of three steps are real: ln 2 and ln 4. Smoothing by 1/5 takes a fifth of each from all symbols alike."""
    outputs = shares([0, 0, 1 / 4, 0, 1 / 2, 1 / 8, 1 / 8], [0, 0, 1 / 4, 0, 1 / 4, 1 / 4, 1 / 4], [1.0] * 7)[None]
    outputs = outputs.clamp(min=-math.log(1024))  # 0 is as good as 2^-10, and adds little to what follows
    target = torch.tensor([[4, EOS, PAD]])
    normal = [math.log(1 + 3 / 1024), math.log(1 + 3 / 1024)]  # the shares now add up to more than one
    steps = [math.log(2) + normal[0], math.log(4) + normal[1]]
    assert SYMBOLS.step_losses(outputs, target, target != PAD).sum().item() == pytest.approx(sum(steps))
    all_of_first = (3 * 10 + 2 + 1 + 3 + 3) * math.log(2) / 7 + normal[0]
    all_of_second = (3 * 10 + 4 * 2) * math.log(2) / 7 + normal[1]
    smooth = 4 / 5 * sum(steps) + 1 / 5 * (all_of_first + all_of_second)
    assert SYMBOLS.step_losses(outputs, target, target != PAD, 1 / 5).sum().item() == pytest.approx(smooth)


def test_padding_and_bos_are_never_chosen():
    """However likely; of equals the first."""
    result = SYMBOLS.greedy(shares([0.5, 0.25, 0.05, 0, 0.1, 0.1, 0], [0.3, 0.3, 0.2, 0.05, 0.05, 0.05, 0.05]))
    assert result.output.tolist() == [4, EOS]
    assert result.score.exp().tolist() == pytest.approx([0.1, 0.2])
    assert result.is_last.tolist() == [False, True]


def test_sampled_symbols_follow_their_probabilities():
    """Of two symbols one three times as often: of 1024 draws 768, give or take five deviations of 13.9."""
    torch.manual_seed(3)
    drawn = SYMBOLS.sample(shares([0, 0, 0, 0, 3 / 4, 1 / 4, 0]).expand(1024, -1))
    counts = drawn.bincount(minlength=7)
    assert counts[4] + counts[5] == 1024
    assert abs(counts[4].item() - 768) < 70
    assert SYMBOLS.sample(torch.zeros(1024, 7)).min() == EOS  # not PAD, and not BOS


def test_symbols_are_embedded():
    """One each, that of PAD zeros; the first that is read is BOS."""
    layer = SYMBOLS.embedding(5)
    assert layer.weight.shape == (7, 5)
    assert (layer.weight[PAD] == 0).all()
    assert SYMBOLS.start_input(3, CPU).tolist() == [BOS] * 3


def test_greedy_by_hand():
    """Row 0 ends at once; row 1 has a source of 1 and goes no further than 3 steps; row 2 ends at its fourth."""
    ends, goes = [0, 0, 0.5, 0, 0.25, 0.25, 0], [0, 0, 0.25, 0, 0, 0.125, 0.625]
    script = [shares(ends, goes, goes), *[shares(goes, goes, goes)] * 2, shares(goes, goes, ends)]
    model = Scripted(SYMBOLS, script)
    decoded = decode(model, [2, 1, 3], max_length_ratio=2.0, max_length_extra=1)
    assert decoded.lengths.tolist() == [[1], [3], [4]]
    assert decoded.sequences[:, 0].tolist() == [[EOS, 0, 0, 0], [6, 6, 6, 0], [6, 6, 6, EOS]]
    assert model.inputs == [[BOS] * 3, [6, 6], [6, 6], [6]]  # ended rows are not decoded again
    assert decoded.log_probability[:, 0].exp().tolist() == pytest.approx([0.5, 0.625**3, 0.625**3 * 0.5])


def test_numbers_have_squared_and_stop_loss():
    """Row 0 has two steps, row 1 one and padding, whatever stands there; the last of each should say that it is.

    Squares: (1 + 9) / 2, 0 and (4 + 0) / 2. Ends: goes on with 1/4, ends with 3/4, ends with 1/4.
    """
    outputs = torch.tensor([[[1.0, 3.0, LN3], [2.0, 2.0, LN3]], [[2.0, 5.0, -LN3], [97.0, 97.0, 97.0]]])
    target = torch.tensor([[[0.0, 0.0], [2.0, 2.0]], [[0.0, 5.0], [0.0, 0.0]]])
    target_mask = torch.tensor([[True, True], [True, False]])
    ends = -math.log(1 / 4) - math.log(3 / 4) - math.log(1 / 4)
    assert NUMBERS.step_losses(outputs, target, target_mask).sum().item() == pytest.approx(5 + 0 + 2 + ends)
    assert NUMBERS.step_losses(outputs, target, target_mask.new_ones(2, 2)).sum().item() > 97


def test_padding_gives_no_gradient():
    """Not even where it is no number."""
    outputs = torch.full((1, 3, 3), 7.0, requires_grad=True)
    target_mask = torch.tensor([[True, True, False]])
    target = torch.zeros(1, 3, 2).masked_fill(~target_mask[..., None], torch.nan)
    NUMBERS.step_losses(outputs, target, target_mask).sum().backward()
    assert (outputs.grad[0, :2] != 0).all()
    assert (outputs.grad[0, 2] == 0).all()


def test_greedy_numbers_are_the_predictions():
    """A row ends where that is likelier than not; one half is not. Nothing is left to chance, and zeros come first."""
    outputs = torch.tensor([[5.0, -7.0, LN3], [0.5, 11.0, -LN3], [3.0, 2.0, 0.0]])
    predictions = NUMBERS.greedy(NUMBERS.predict(outputs))
    assert predictions.output.tolist() == [[5, -7], [0.5, 11], [3, 2]]
    assert predictions.score.exp().tolist() == pytest.approx([3 / 4, 3 / 4, 1 / 2])
    assert predictions.is_last.tolist() == [True, False, False]
    assert NUMBERS.sample(outputs).tolist() == predictions.output.tolist()
    assert NUMBERS.start_input(2, CPU).tolist() == [[0, 0], [0, 0]]
    assert NUMBERS.width == 3


def test_greedy_numbers_by_hand():
    """Row 0 ends with its second, row 1 is cut off at its third; each reads what it wrote before."""
    script = [torch.tensor([[n + 0.5, -n, stop], [n, 0.0, -LN3]]) for n, stop in ((1.0, -LN3), (2.0, LN3), (3.0, LN3))]
    model = Scripted(NUMBERS, script)
    decoded = decode(model, [3, 1], max_length_ratio=2.0, max_length_extra=1)
    assert decoded.lengths.tolist() == [[2], [3]]
    assert decoded.sequences[:, 0].tolist() == [[[1.5, -1], [2.5, -2], [0, 0]], [[1, 0], [2, 0], [3, 0]]]
    assert model.inputs == [[[0, 0], [0, 0]], [[1.5, -1], [1, 0]], [[2, 0]]]  # ended rows are not decoded again
    assert decoded.log_probability[:, 0].exp().tolist() == pytest.approx([(3 / 4) ** 2, (3 / 4) ** 3])


def test_a_model_of_numbers(build_model):
    """Layers of two features and an end; teacher forcing reads zeros, then the rows themselves."""
    model = build_model(target_features=2)
    assert model.embedding.weight.shape == (7, 2)
    assert model.output.weight.shape == (3, 13)
    source = torch.tensor([[3, 5, 7]])
    predicted, _, _ = model.decode_step(NUMBERS.start_input(1, CPU), model.init_state(source, source > 0))
    rows = torch.tensor([[[0.0, 0.0], [5.0, -7.0]]])
    torch.testing.assert_close(model(source, source > 0, rows).logits[:, 0], predicted)
    with pytest.raises(
        UserError, match=r"model\.tie_embeddings=true needs target symbols to embed, but the target is made of"
    ):
        build_model(target_features=2, model={"tie_embeddings": True})


def test_the_loss_of_a_batch_of_numbers(build_model):
    """What comes out is zeros, so a step loses the mean of its squares and ln 2; the mean is over three real steps."""
    model = build_model(target_features=2)
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    source, number = torch.tensor([[3, 5], [7, 0]]), torch.arange(2)
    target = torch.tensor([[[1.0, 3.0], [2.0, 0.0]], [[0.0, 4.0], [0.0, 0.0]]])
    target_mask = torch.tensor([[True, True], [True, False]])
    loss = token_loss(model, Batch(source, source > 0, target, target_mask, number, number))
    assert loss.tokens == 3
    assert loss.mean.item() == pytest.approx((10 / 2 + 4 / 2 + 16 / 2) / 3 + math.log(2))


# The weights of a run folder of format 1, written before targets were classes of their own.
OLD = {
    "source_encoder.embedding.weight": (23, 7),
    **{
        f"source_encoder.encoder.recurrent.layers.0.{name}_l0{way}": shape
        for way in ("", "_reverse")
        for name, shape in {"weight_ih": (44, 7), "weight_hh": (44, 11), "bias_ih": (44,), "bias_hh": (44,)}.items()
    },
    "embedding.weight": (17, 7),
    "tag_embedding.weight": (3, 20),
    **{f"bridge.maps.0.{n}.{name}": shape for n in (0, 1) for name, shape in (("weight", (13, 22)), ("bias", (13,)))},
    "attention.scorer.v": (19,),
    "attention.scorer.query.weight": (19, 13),
    "attention.scorer.memory.weight": (19, 22),
    "decoder.layers.0.weight_ih_l0": (52, 27),
    "decoder.layers.0.weight_hh_l0": (52, 13),
    "decoder.layers.0.bias_ih_l0": (52,),
    "decoder.layers.0.bias_hh_l0": (52,),
    "readout.join.0.weight": (13, 35),
    "output.weight": (17, 13),
    "output.bias": (17,),
}


def test_old_checkpoints_load(build_model):
    """By the names and shapes that they had, all of them; and they are what is computed with."""
    model = build_model(model={"tag_inputs": ["decoder"]})
    torch.manual_seed(3)
    old = {name: torch.randn(shape) for name, shape in OLD.items()}
    model.load_state_dict(old)
    assert torch.equal(model.embedding(torch.tensor([5])), old["embedding.weight"][5:6])
    assert torch.equal(model.output(torch.zeros(1, 13)), old["output.bias"][None])
