"""Searches by hand: beams, scores, stopping, ensembles, sampling, and refused options."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnx.attention import AttentionOutput
from attnx.data.vocabulary import BOS, EOS, PAD
from attnx.decoding.beam import Beam, length_penalty, score_coverage
from attnx.decoding.constraints import MAX_STEPS, DecodingConstraints
from attnx.decoding.ensemble import Ensemble
from attnx.decoding.greedy import Greedy
from attnx.decoding.sampling import Sampling, row_seeds, uniform
from attnx.decoding.search import FIRST_ROOM
from attnx.errors import UserError
from attnx.nn.targets.symbols import Symbols

A, B = 3, 4
Shares = dict[tuple[int, ...], tuple[float, float, float]]  # what was written -> the chances of EOS, A and B


class Tree(nn.Module):
    """A model whose probabilities depend on the complete output; it records the number of rows per call."""

    sources, is_distribution = ("encoder",), True

    def __init__(self, *rows: Shares, weights: Sequence[float] = (0.5, 0.5)) -> None:
        super().__init__()
        self.rows, self.target, self.read = rows, Symbols(5), weights
        self.num_calls: list[int] = []

    def init_state(self, source: Tensor, source_mask: Tensor, tag: Tensor | None = None) -> Tensor:
        return torch.arange(len(source))[:, None]  # the row, and then what it wrote

    def decode_step(
        self, inputs: Tensor, state: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, Tensor, AttentionOutput]:
        self.num_calls.append(len(inputs))
        state = torch.cat([state, inputs[:, None]], 1)
        log_probs = [(0.0, 0.0, *self.rows[row].get(tuple(written), (1, 0, 0))) for row, _, *written in state.tolist()]
        weights = torch.tensor(self.read).expand(len(state), 1, -1) if need_weights else None
        return torch.tensor(log_probs).log(), state, AttentionOutput(torch.zeros(len(state), 1, 1), weights)

    def select_rows(self, state: Tensor, rows: Tensor) -> Tensor:
        return state[rows]

    reorder_beams = select_rows

    def source_shares(self, state: Tensor) -> None:
        """Every step is a position."""


def search(searching: Any, model: nn.Module, rows: int = 1, length: int = 2, **options: Any) -> Any:
    source = torch.full((rows, length), 7)
    return searching(model, source, source > 0, **options)


# Greedy takes A (0.5) and ends with 0.5 * 0.3 = 0.15; B (0.4) ends with 0.4 * 0.9 = 0.36.
GARDEN: Shares = {(): (0.1, 0.5, 0.4), (A,): (0.3, 0.38, 0.32), (B,): (0.9, 0.05, 0.05), (A, A): (1, 0, 0)}


def test_length_penalties_by_hand():
    """((5 + 1) / 6)^a = 1 and ((5 + 7) / 6)^3 = 8; the average divides by the length; none by one."""
    steps = torch.tensor([1, 7])
    assert length_penalty("gnmt", 3.0, steps).tolist() == [1, 8]
    assert length_penalty("gnmt", 0.0, steps).tolist() == [1, 1]
    assert length_penalty("average", 3.0, steps).tolist() == [1, 7]
    assert length_penalty("none", 3.0, steps).tolist() == [1, 1]


def test_the_coverage_penalty_by_hand():
    """ln 1/2 + ln 1/4 where a third position was read twice over, and a fourth is none."""
    covered, source_mask = torch.tensor([0.5, 0.25, 2.0, 0.0]), torch.tensor([True, True, True, False])
    assert score_coverage(covered, source_mask).item() == pytest.approx(-3 * math.log(2))
    assert score_coverage(torch.zeros(1), source_mask[:1]).item() == pytest.approx(-9 * math.log(10))  # no infinity


def test_the_coverage_of_positions_with_shares_by_hand():
    """States of 3, 1 and 2 steps, read once, by a half, and never: 0, ln 1/2 and the least, each once; then padding."""
    shares = torch.tensor([1 / 2, 1 / 4, 1 / 4, 1, 0.3, 0.7, 0])
    covered = shares * torch.tensor([1, 1, 1, 1 / 2, 0, 0, 0])
    expected = -math.log(2) - 9 * math.log(10)
    assert score_coverage(covered, shares > 0, shares).item() == pytest.approx(expected)


def test_a_beam_finds_what_greedy_misses():
    """B EOS with 0.36; next are A A EOS, 0.5 * 0.38, A B EOS, 0.5 * 0.32, A EOS, 0.15, and the end at once, 0.1."""
    assert search(Greedy(), Tree(GARDEN)).sequences.tolist() == [[[A, A, EOS]]]
    decoded = search(Beam(5, nbest=3), Tree(GARDEN))
    assert decoded.sequences.tolist() == [[[B, EOS, PAD], [A, A, EOS], [A, B, EOS]]]
    assert decoded.lengths.tolist() == [[2, 3, 3]]
    assert decoded.log_probability.exp().tolist() == [pytest.approx([0.36, 0.19, 0.16])]
    assert decoded.score.tolist() == decoded.log_probability.tolist()


def test_a_score_by_hand():
    """B EOS: ln 0.36 / (7 / 6)^2, and each position was read 2 * 1/4 and 2 * 3/4 in two steps: 0.3 ln 1/2."""
    decoded = search(
        Beam(5, length_penalty="gnmt", length_penalty_alpha=2.0, coverage_penalty=0.3),
        Tree(GARDEN, weights=(0.25, 0.75)),
    )
    by_hand = {
        (B, EOS): math.log(0.36) / (7 / 6) ** 2 + 0.3 * math.log(1 / 2),
        (A, A, EOS): math.log(0.19) / (8 / 6) ** 2 + 0.3 * math.log(3 / 4),
        (EOS,): math.log(0.1) + 0.3 * (math.log(1 / 4) + math.log(3 / 4)),
    }
    best = max(by_hand, key=lambda item: by_hand[item])
    assert [x for x in decoded.sequences[0, 0].tolist() if x] == list(best)
    assert decoded.score.item() == pytest.approx(by_hand[best])
    assert decoded.weights is None  # need_weights=False


LONG: Shares = {(): (0.55, 0.45, 0), (A,): (0, 1, 0), (A, A): (0, 1, 0), (A, A, A): (1, 0, 0)}


@pytest.mark.parametrize(
    ("length", "best", "steps"),
    [
        ("none", [EOS], 1),  # 0.55 against 0.45: nothing can outdo it
        ("average", [A, A, A, EOS], 4),  # ln 0.55 = -0.60 against ln 0.45 / 4 = -0.20
        ("gnmt", [EOS], 4),  # at best ln 0.45 / (13 / 6)^0.6 = -0.50, so it continues; at its end / (9 / 6)^0.6: -0.63
    ],
)
def test_a_row_stops_when_no_hypothesis_can_improve(length, best, steps):
    """The limit is 8 steps. The search stops neither too late nor too early."""
    model = Tree(LONG)
    decoded = search(Beam(3, length_penalty=length, max_length_ratio=1.0, max_length_extra=6), model)
    assert [x for x in decoded.sequences[0, 0].tolist() if x] == best
    assert len(model.num_calls) == steps


class Noting(Tree):
    """Records the outputs at each call."""

    def decode_step(
        self, inputs: Tensor, state: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, Tensor, AttentionOutput]:
        result = super().decode_step(inputs, state, need_weights)
        self.noted = [*getattr(self, "noted", []), {tuple(written) for _, _, *written in result[1].tolist()}]
        return result


def test_hopeless_hypotheses_are_dropped():
    """EOS has 0.25, and then B, 0.15, is hopeless: B A with as much takes no place of A EOS, 0.06."""
    model = Noting(
        {(): (0.25, 0.6, 0.15), (A,): (0.1, 0.5, 0.4), (B,): (0, 1, 0), (A, A): (1, 0, 0), (A, B): (1, 0, 0)}
    )
    assert search(Beam(3), model).sequences.tolist() == [[[A, A, EOS]]]
    assert model.noted == [{()}, {(EOS,), (A,), (B,)}, {(A, A), (A, B), (A, EOS)}]


def test_finished_rows_are_not_decoded_again():
    """Row 1 ends at once, the others with their fourth step; a beam has one hypothesis at first, then three."""
    sure: Shares = {(): (1, 0, 0)}
    model = Tree(LONG, sure)
    decoded = search(Beam(3, length_penalty="average"), model, rows=2)
    assert decoded.lengths.tolist() == [[4], [1]]
    assert model.num_calls == [2, 3, 3, 3]
    model = Tree(LONG, sure, LONG)
    search(Greedy(min_length=1), model, rows=3)
    assert model.num_calls == [3, 2, 2, 2]  # where nothing else is possible a row ends, whatever its length


def test_each_row_has_its_own_limit():
    """Ratio 1, none besides: of sources of 2 and 3 the first is cut off, and counts as it is."""
    source = torch.tensor([[7, 7, 0], [7, 7, 7]])
    for searching in (
        Greedy(max_length_ratio=1.0, max_length_extra=0),
        Beam(2, max_length_ratio=1.0, max_length_extra=0, length_penalty="average"),
    ):
        forever: Shares = {(A,) * n: (0, 1, 0) for n in range(5)}
        result = searching(Tree(forever, forever), source, source > 0)
        assert result.sequences[:, 0].tolist() == [[A, A, PAD], [A, A, A]]
        assert result.lengths[:, 0].tolist() == [2, 3]


def test_a_limit_by_hand():
    """2 * 3 + 5 steps; 7 symbols and EOS if there are to be 7; 5 of a prefix and one more; and never none."""
    source_mask = torch.ones(1, 3, dtype=torch.bool)
    assert DecodingConstraints(2.0, 5).limit(source_mask).tolist() == [11]
    assert DecodingConstraints(0.5, 1, min_length=7).limit(source_mask).tolist() == [8]
    assert DecodingConstraints(0.5, 1, prefix=torch.tensor([[3, 4, 3, 4, 3, PAD]])).limit(source_mask).tolist() == [6]
    assert DecodingConstraints(0.1, 0).limit(source_mask).tolist() == [1]
    assert DecodingConstraints(1e19, 0).limit(source_mask).tolist() == [MAX_STEPS]

    # Whole products, which rounding may leave below themselves: of 2.1 in single precision, of 0.58 in double.
    for ratio, steps, product in [(2.1, 30, 63), (0.58, 50, 29), (1.16, 25, 29)]:
        assert DecodingConstraints(ratio, 0).limit(torch.ones(1, steps, dtype=torch.bool)).tolist() == [product]

    torch.set_default_dtype(torch.bfloat16)  # which does not hold 299
    try:
        assert DecodingConstraints(1.0, 0).limit(torch.ones(1, 299, dtype=torch.bool)).tolist() == [299]
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_forbidden_symbols_of_a_prefix_have_finite_scores(dtype):
    """In a row, too: a beam would drop a sum of -inf, and with it the row."""
    constraints = DecodingConstraints(1.0, 0, prefix=torch.tensor([[A, A]]))
    total = torch.zeros(1)
    for step in range(2):
        scores = torch.zeros(1, A + 2, dtype=dtype)
        scores[:, A] = -torch.inf
        constraints.apply_(scores, torch.full((1, step), A), torch.tensor([0]))
        assert scores.argmax(-1).tolist() == [A]
        total += scores[:, A].float()
    assert total.isfinite().all()


def test_outputs_take_the_room_that_they_need():
    """A limit of a trillion steps costs nothing; outputs may be longer than the room that there is at first."""
    long = 2 * FIRST_ROOM + 1
    model = Tree({(A,) * n: (0, 1, 0) if n < long else (1, 0, 0) for n in range(long + 1)})
    result = search(Greedy(max_length_ratio=1e12), model)
    assert result.sequences[0, 0].tolist() == [A] * long + [EOS]


def test_an_ensemble_by_hand():
    """(0.6 + 0.2) / 2 for EOS, less than for A, (0.4 + 0.8) / 2; weights are averaged."""
    first, second = Tree({(): (0.6, 0.4, 0)}, weights=(1, 0)), Tree({(): (0.2, 0.8, 0)}, weights=(0.5, 0.5))
    decoded = search(Greedy(), Ensemble([first, second]), need_weights=True)
    assert decoded.sequences.tolist() == [[[A, EOS]]]
    assert decoded.log_probability.exp().item() == pytest.approx(0.6)
    assert decoded.weights[0, 0].tolist() == [[0.75, 0.25]] * 2


def test_an_ensemble_averages_heads(build_model):
    """Heads of two models have no order in common; what each model's read together can be averaged."""
    models = [build_model(attention=("standard", {"heads": heads})).eval() for heads in (1, 2)]
    source, written = torch.tensor([[3, 5, 7]]), torch.tensor([[11, 13, 2]])
    options = {"need_weights": True, "prefix": written}
    own_weights = [Greedy()(model, source, source > 0, **options).weights for model in models]
    decoded = Greedy()(Ensemble(models), source, source > 0, **options).weights
    assert own_weights[1].shape == (1, 1, 2, 3, 3)
    torch.testing.assert_close(decoded, (own_weights[0] + own_weights[1].mean(2)) / 2)
    covering = Beam(coverage_penalty=0.2)(Ensemble(models), source, source > 0, need_weights=True)
    read = score_coverage(covering.weights.sum(-2), source > 0)
    torch.testing.assert_close(covering.score, covering.log_probability + 0.2 * read)


def test_coverage_of_an_ensemble_without_mean_weights_is_refused(build_model):
    """One model reads its own past, too."""
    models = [build_model(scope=scope).eval() for scope in ("global", "encoder_decoder")]
    source = torch.tensor([[3, 5, 7]])
    with pytest.raises(UserError, match=r"decoding\.coverage_penalty .* the models of this ensemble"):
        Beam(coverage_penalty=0.2)(Ensemble(models), source, source > 0)


def test_a_beam_adds_up_in_more_than_16_bits():
    """The sums of two steps, -128.25 and -128.5, are both -128 in 16 bits."""

    class Halved(Tree):
        def decode_step(self, *arguments: Any) -> Any:
            predicted, *state = super().decode_step(*arguments)
            first = arguments[1].shape[1] == 1
            sure = torch.full_like(predicted, -1000.0)
            sure[:, A], sure[:, B] = (-128.0, -1000.0) if first else (-0.5, -0.25)
            return sure.bfloat16(), *state

    source = torch.tensor([[3]])
    result = Beam(2, nbest=2, max_length_ratio=0, max_length_extra=2)(Halved({}), source, source > 0)
    assert result.sequences.tolist() == [[[A, B], [A, A]]]
    assert result.log_probability.flatten().tolist() == [-128.25, -128.5]


def test_an_ensemble_scores_a_known_target_as_it_decodes(build_model):
    """The teacher-forced pass gives the log of the mean probabilities, and the mean weights."""
    models = [build_model().eval() for _ in range(2)]
    source = torch.tensor([[3, 5, 7]])
    decoded = Greedy()(Ensemble(models), source, source > 0)
    written = decoded.sequences[0]
    inputs = torch.cat([torch.tensor([[BOS]]), written[:, :-1]], dim=1)
    output = Ensemble(models)(source, source > 0, inputs, need_weights=True)
    separate = [model(source, source > 0, inputs, need_weights=True) for model in models]
    mean = torch.stack([part.logits.softmax(-1) for part in separate]).mean(0)
    torch.testing.assert_close(output.logits.exp(), mean)
    torch.testing.assert_close(output.weights, torch.stack([part.weights for part in separate]).mean(0))
    assert output.penalty is None
    score = output.logits.gather(-1, written[..., None]).sum().item()
    assert score == pytest.approx(decoded.log_probability.item(), abs=1e-5)


def test_an_ensemble_of_different_memories_has_no_weights(build_model):
    """It writes; but what was read cannot be averaged."""
    models = [
        build_model().eval(),
        build_model(scope="history").eval(),
        build_model(attention=("standard", {"heads": 2})).eval(),
    ]
    source = torch.tensor([[3, 5, 7]])
    for members in (models[:2], models[1:]):
        assert Greedy()(Ensemble(members), source, source > 0, need_weights=True).weights is None


def test_random_draws_are_uniform_and_independent():
    """Of 2^11 numbers 1/8 in every eighth, 256 give or take five deviations of 15; padding is not looked at."""
    source = torch.tensor([[7, 3, 0], [7, 3, 5], [3, 7, 0]])
    key = row_seeds(source, source > 0, 13)
    assert key[0] == row_seeds(source[:1, :2], source[:1, :2] > 0, 13)[0]
    assert len(set(key.tolist())) == 3
    assert not set(key.tolist()) & set(row_seeds(source, source > 0, 14).tolist())
    for drawn in (
        uniform(key[:1].expand(2**11), torch.arange(2**11), 0),
        torch.stack([uniform(key[:1], torch.zeros(1).long(), step) for step in range(2**11)]).flatten(),
    ):
        counts = (drawn * 8).long().bincount(minlength=8)
        assert len(counts) == 8
        assert (counts - 256).abs().max() < 75
        pairs = ((drawn[1:] * 2).long() * 2 + (drawn[:-1] * 2).long()).bincount(minlength=4)
        assert (pairs - 512).abs().max() < 5 * math.sqrt(2**11 * 3 / 16)
    features = torch.tensor([[[1.5, -2.0], [0.0, 3.0]], [[1.5, 3.0], [0.0, -2.0]]])
    assert len(set(row_seeds(features, torch.ones(2, 2).bool(), 13).tolist())) == 2


def test_a_tiny_temperature_takes_the_likeliest_symbol():
    scores = torch.tensor([[-3.0, -0.5, -2.0], [-0.1, -4.0, -1.0]])
    assert Sampling(temperature=1e-310).sample(scores, torch.tensor([0.9, 0.1])).tolist() == [1, 0]


def test_an_impossible_search_is_refused(build_model):
    numbers, symbols = build_model(target_features=2), build_model()
    with pytest.raises(UserError, match=r"decoding\.nbest=7 is more than decoding\.beam_size=5; choose a wider beam"):
        Beam(nbest=7)
    with pytest.raises(UserError, match=r"decoding\.top_p=1\.5 is a share"):
        Sampling(top_p=1.5)
    for name, searching in (("beam", Beam()), ("sampling", Sampling())):
        with pytest.raises(
            UserError, match=f"decoding={name} chooses among symbols, but .* numbers; use decoding=greedy"
        ):
            searching.check(numbers)
        searching.check(symbols)
    with pytest.raises(UserError, match="min_length is a constraint on symbols"):
        Greedy(min_length=1).check(numbers)
    Greedy().check(numbers)
    with pytest.raises(UserError, match="prefix is a constraint on symbols"):
        search(Greedy(), numbers, prefix=torch.tensor([[5]]))
    for choices in ({"normalizer": "sigmoid"}, {"scope": "history"}, {"attention": "none"}):
        Beam().check(build_model(**choices))
        with pytest.raises(UserError, match=r"decoding\.coverage_penalty adds up attention weights on the source"):
            Beam(coverage_penalty=0.2).check(build_model(**choices))
    for wrong in ([[PAD, 5]], [[EOS, 5]], [[1, 5]]):
        with pytest.raises(UserError, match="a prefix holds symbols"):
            search(Greedy(), symbols, prefix=torch.tensor(wrong))
