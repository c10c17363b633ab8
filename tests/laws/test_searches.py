"""Laws of searches: outputs depend on the row only, and scores are those of the model."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx.data.vocabulary import BOS, EOS, PAD
from attnx.decoding.beam import Beam
from attnx.decoding.contracts import DecodeResult
from attnx.decoding.ensemble import Ensemble
from attnx.decoding.greedy import Greedy
from attnx.decoding.sampling import Sampling
from attnx.models.resolve import DataSizes, resolve_model

pytestmark = pytest.mark.usefixtures("float64")

SOURCE = torch.tensor(
    [[3, 19, 7, 2, 11, 17, 5], [5, 13, 22, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0], [7, 7, 3, 19, 5, 0, 0]]
)
SOURCE_MASK = SOURCE != 0
TAG = torch.tensor([2, 0, 1, 2])
PREVIOUS_STATE = ["previous_state"]
# What a state can be made of: each grows, or is reordered, in its own way. That steps with selected rows equal a pass
# is a law of models in any composition.
COMPOSITIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "next": {"model": {"feed": "next"}, "decoder": {"cell": "gru", "layers": 2}},
    "last_context": {"query": ["current_state", "last_context"]},
    "encoder_decoder_now": {"scope": "encoder_decoder", "query": PREVIOUS_STATE, "model": {"feed": "now"}},
    "history": {"scope": ("history", {"include_self": True})},
    "location": {"scorer": "location", "query": PREVIOUS_STATE, "model": {"feed": "now"}},
    "coverage_of_both": {"scorer": "coverage", "scope": "encoder_decoder"},
    "heads_of_both": {"attention": ("standard", {"heads": 2}), "scope": "encoder_decoder", "scorer": "location"},
    "tags": {"query": ["current_state", "language_tag"], "model": {"tag_inputs": ["encoder", "decoder"]}},
    "none": {"attention": "none"},
    "copy": {"output": "copy", "attention": ("standard", {"heads": 2}), "scope": "encoder_decoder"},
}
each_composition = pytest.mark.parametrize("composition", COMPOSITIONS.values(), ids=COMPOSITIONS)


def in_every_composition(*searches: Any, plain: Sequence[Any] = ()) -> pytest.MarkDecorator:
    """Searches that meet every composition, and some that meet the plain one."""
    pairs = [*itertools.product(COMPOSITIONS, searches), *itertools.product(["plain"], plain)]
    ids = [f"{name}-{type(search).__name__}{number}" for number, (name, search) in enumerate(pairs)]
    values = [(COMPOSITIONS[name], search) for name, search in pairs]
    return pytest.mark.parametrize(("composition", "search"), values, ids=ids)


@pytest.fixture
def build_decided_model(build_model):
    """Build a model that has opinions: its choices are not all about as likely as each other."""

    def build(**choices: Any) -> Any:
        model = build_model(**choices).eval()
        with torch.no_grad():
            getattr(model.output, "vocabulary", model.output).weight *= 11
        return model

    return build


def force_hypotheses(
    model: Any, actual: DecodeResult, source: Tensor = SOURCE, tag: Tensor = TAG
) -> tuple[Tensor, Any]:
    """What a pass over each hypothesis gives: log-probabilities (b, n), of none -inf, and weights of its steps."""
    rows = torch.arange(len(source)).repeat_interleave(actual.sequences.shape[1])
    written = actual.sequences.flatten(0, 1)
    inputs = torch.cat([torch.full_like(written[:, :1], BOS), written[:, :-1]], 1)
    real = torch.arange(inputs.shape[1]) < actual.lengths.flatten()[:, None]
    output = model(source[rows], source[rows] != 0, inputs, tag[rows], need_weights=True)
    log_probs = (output.logits.log_softmax(-1).gather(-1, written[..., None])[..., 0] * real).sum(-1)
    log_probs = log_probs.masked_fill(~real[:, 0], float("-inf")).view(actual.score.shape)
    if output.weights is None:
        return log_probs, None
    weights = output.weights * real[(slice(None), *[None] * (output.weights.dim() - 3), slice(None), None)]
    return log_probs, weights.unflatten(0, actual.score.shape)


# A beam of one is greedy, in every composition.
@in_every_composition(Beam(5, nbest=3), Sampling(nbest=3), plain=[Greedy()])
def test_scores_match_teacher_forcing(build_decided_model, composition, search):
    """Log-probability and weights of each hypothesis are those of a pass over it: every state followed its own."""
    model = build_decided_model(**composition)
    decoded = search(model, SOURCE, SOURCE_MASK, TAG, need_weights=True)
    assert len(set(decoded.lengths.flatten().tolist())) > 1, "hypotheses of one length show little"
    assert not (decoded.sequences == BOS).any()
    steps = torch.arange(decoded.sequences.shape[2])
    assert ((decoded.sequences == PAD) == (steps >= decoded.lengths[..., None])).all()
    assert decoded.sequences.shape[2] == decoded.lengths.max()
    log_probs, weights = force_hypotheses(model, decoded)
    torch.testing.assert_close(decoded.log_probability, log_probs)
    if weights is None:
        assert decoded.weights is None
        return
    real = steps < decoded.lengths[..., None]
    read = decoded.weights * real[(slice(None), slice(None), *[None] * (weights.dim() - 4), slice(None), None)]
    columns = read.shape[-1]
    torch.testing.assert_close(read, weights[..., :columns])
    assert (weights[..., columns:] == 0).all()


@each_composition
def test_greedy_chooses_the_likeliest_symbol(build_decided_model, composition):
    """At each step of a pass over what was written; EOS is the last, or as many are written as may be."""
    model = build_decided_model(**composition)
    decoded = Greedy(max_length_ratio=1.0, max_length_extra=3)(model, SOURCE, SOURCE_MASK, TAG)
    written = decoded.sequences[:, 0]
    inputs = torch.cat([torch.full_like(written[:, :1], BOS), written[:, :-1]], 1)
    likeliest = model(SOURCE, SOURCE_MASK, inputs, TAG).logits[..., EOS:].argmax(-1) + EOS
    for row, steps in enumerate(decoded.lengths[:, 0].tolist()):
        assert written[row, :steps].tolist() == likeliest[row, :steps].tolist()
        assert written[row, steps - 1] == EOS or steps == SOURCE_MASK[row].sum() + 3
        assert EOS not in written[row, : steps - 1]


PENALTIES: list[dict[str, Any]] = [
    {"length_penalty": "none"},
    {"length_penalty": "gnmt", "length_penalty_alpha": 0.7},
    {"length_penalty": "average"},
    {"length_penalty": "gnmt", "length_penalty_alpha": 1.3, "coverage_penalty": 0.4},
]


@each_composition
def test_a_beam_of_one_is_greedy(build_decided_model, composition):
    """Whatever the penalty: it has nothing to choose."""
    model = build_decided_model(**composition)
    penalty = PENALTIES[3] if model.is_distribution and "encoder" in model.sources else PENALTIES[0]
    same(Beam(1, **penalty)(model, SOURCE, SOURCE_MASK, TAG, True), Greedy()(model, SOURCE, SOURCE_MASK, TAG, True))


def same(first: DecodeResult, second: DecodeResult) -> None:
    """Find two searches alike, in all but their scores."""
    assert first.sequences.tolist() == second.sequences.tolist()
    assert first.lengths.tolist() == second.lengths.tolist()
    torch.testing.assert_close(first.log_probability, second.log_probability)
    if second.weights is not None:
        real = torch.arange(first.sequences.shape[2]) < first.lengths[..., None]
        real = real[(slice(None), slice(None), *[None] * (second.weights.dim() - 4), slice(None), None)]
        torch.testing.assert_close(first.weights * real, second.weights * real)


@in_every_composition(
    Beam(5, nbest=3),
    Sampling(nbest=3, top_p=0.9),
    plain=[Greedy(), Beam(3, nbest=2, length_penalty="average")],
)
def test_the_batch_changes_nothing(build_decided_model, composition, search):
    """Nor padding, nor when others end: each row is written as it would be alone."""
    model = build_decided_model(**composition)
    together = search(model, SOURCE, SOURCE_MASK, TAG, need_weights=True)
    for row, length in enumerate(SOURCE_MASK.sum(-1).tolist()):
        row_slice, tag = slice(row, row + 1), TAG[row : row + 1]
        alone = search(model, SOURCE[row_slice, :length], SOURCE_MASK[row_slice, :length], tag, need_weights=True)
        steps = int(alone.lengths.max())
        assert alone.lengths.tolist() == together.lengths[row_slice].tolist()
        assert alone.sequences.tolist() == together.sequences[row_slice, :, :steps].tolist()
        assert (together.sequences[row, :, steps:] == PAD).all()
        torch.testing.assert_close(alone.log_probability, together.log_probability[row_slice])
        torch.testing.assert_close(alone.score, together.score[row_slice])
        if alone.weights is None:
            continue
        first = length if "encoder" in model.sources else 0
        num_own_states = alone.weights.shape[-1] - first
        columns = [
            *range(first),
            *range(SOURCE.shape[1] if first else 0, (SOURCE.shape[1] if first else 0) + num_own_states),
        ]
        real = torch.arange(steps) < alone.lengths[..., None]
        real = real[(slice(None), slice(None), *[None] * (alone.weights.dim() - 4), slice(None), None)]
        read = together.weights[row_slice][..., :steps, :][..., columns]
        torch.testing.assert_close(alone.weights * real, read * real)


def test_rows_of_numbers_do_not_depend_on_the_batch(build_model):
    model = build_model(target_features=5).eval()
    with torch.no_grad():
        model.output.weight[-1] *= 29  # it ends now and then
    together = Greedy()(model, SOURCE, SOURCE_MASK, need_weights=True)
    assert len(set(together.lengths.flatten().tolist())) > 1
    for row, length in enumerate(SOURCE_MASK.sum(-1).tolist()):
        alone = Greedy()(model, SOURCE[row : row + 1, :length], SOURCE_MASK[row : row + 1, :length])
        steps = int(alone.lengths.max())
        assert together.lengths[row].tolist() == [steps]
        torch.testing.assert_close(alone.sequences[0], together.sequences[row, :, :steps])
        assert (together.sequences[row, :, steps:] == 0).all()
        torch.testing.assert_close(alone.log_probability[0], together.log_probability[row])


def test_decoded_numbers_match_a_parallel_pass(build_model):
    """What was written, given back as what to read, is written again; only the last row says that it is the last."""
    model = build_model(target_features=5).eval()
    with torch.no_grad():
        model.output.weight[-1] *= 29  # it ends now and then
    decoded = Greedy()(model, SOURCE, SOURCE_MASK)
    written = decoded.sequences[:, 0]
    inputs = torch.cat([torch.zeros(len(written), 1, 5), written[:, :-1]], 1)
    outputs = model(SOURCE, SOURCE_MASK, inputs).logits
    real = torch.arange(inputs.shape[1]) < decoded.lengths
    torch.testing.assert_close(written, outputs[..., :-1] * real[..., None])
    limits = 2 * SOURCE_MASK.sum(-1) + 5
    for row, steps in enumerate(decoded.lengths[:, 0].tolist()):
        ends = (outputs[row, :steps, -1] > 0).tolist()
        assert not any(ends[:-1])
        assert ends[-1] or steps == limits[row]


# Seven symbols, of which five can be written: all there is to write can be listed.
FEW = [EOS, 3, 4, 5, 6]
TWO = torch.tensor([[3, 5, 7], [11, 13, 0]])
LIMITS = [5, 4]  # ratio 1 and 2 more


@pytest.fixture
def small(compose_config):
    def build(**choices: Any) -> Any:
        sizes = DataSizes(source_symbols=23, target_symbols=7, tags=3)
        model: Any = resolve_model(compose_config(**choices)).build(sizes).eval()
        with torch.no_grad():
            model.output.weight *= 53
        return model

    return build


def everything(limit: int) -> Iterator[tuple[int, ...]]:
    """Every sequence that may be written: to its EOS, or to the limit."""
    for steps in range(1, limit + 1):
        for prefix in itertools.product(FEW[1:], repeat=steps - 1):
            yield (*prefix, EOS)
            if steps == limit:
                yield from ((*prefix, last) for last in FEW[1:])


def list_hypotheses(model: Any, row: int, allowed: Callable[[tuple[int, ...]], bool], **penalty: Any) -> list[Any]:
    """All that is allowed, (score, sequence, log-probability), the best first."""
    sequences = [sequence for sequence in everything(LIMITS[row]) if allowed(sequence)]
    length = torch.tensor([[len(sequence)] for sequence in sequences])
    written = torch.tensor([(*sequence, *[PAD] * (5 - len(sequence))) for sequence in sequences])[:, None]
    score = torch.zeros(len(sequences), 1)
    source = TWO[row : row + 1].expand(len(sequences), -1)
    log_probs, weights = force_hypotheses(
        model, DecodeResult(written, length, score, score, None), source, torch.zeros(len(source)).long()
    )
    by = {"none": 1, "gnmt": ((5 + length) / 6) ** penalty.get("length_penalty_alpha", 0.6), "average": length}
    score = log_probs / by[penalty.get("length_penalty", "none")]
    if "coverage_penalty" in penalty:
        covered = weights[:, 0].sum(-2)[:, : LIMITS[row] - 2].clamp(1e-9, 1)
        score = score + penalty["coverage_penalty"] * covered.log().sum(-1, keepdim=True)
    result = zip(score[:, 0].tolist(), sequences, log_probs[:, 0].tolist(), strict=True)
    return sorted(result, reverse=True)


def no_repeat(size: int) -> Callable[[tuple[int, ...]], bool]:
    def holds(sequence: tuple[int, ...]) -> bool:
        grams = [sequence[start : start + size] for start in range(len(sequence) - size + 1)]
        return len(set(grams)) == len(grams)

    return holds


RULES: dict[str, tuple[dict[str, Any], Callable[[tuple[int, ...]], bool]]] = {
    "no rule": ({}, lambda item: True),
    "min_length": ({"min_length": 3}, lambda item: EOS not in item[:3]),
    "no symbol twice": ({"no_repeat_ngram_size": 1}, no_repeat(1)),
    "no pair twice": ({"no_repeat_ngram_size": 2}, no_repeat(2)),
}


@pytest.mark.parametrize(
    ("composition", "penalty", "rule"),
    [
        *itertools.product(["plain", "encoder_decoder_now", "coverage_of_both"], PENALTIES, ["no rule"]),
        *itertools.product(["plain"], [PENALTIES[0], PENALTIES[2]], [rule for rule in RULES if rule != "no rule"]),
    ],
    ids=str,
)
def test_a_wide_beam_finds_the_best_of_all_that_is_allowed(small, composition, penalty, rule):
    """That it stops early loses none: the seven best of 1365 outputs and of 341, in order."""
    model = small(**COMPOSITIONS[composition])
    options, allowed = RULES[rule]
    decoded = Beam(1301, nbest=7, max_length_ratio=1.0, max_length_extra=2, **penalty, **options)(model, TWO, TWO != 0)
    for row in range(2):
        best = list_hypotheses(model, row, allowed, **penalty)[:7]
        written = [tuple(x for x in result if x != PAD) for result in decoded.sequences[row].tolist()]
        assert written == [sequence for _, sequence, _ in best]
        assert decoded.score[row].tolist() == pytest.approx([score for score, _, _ in best])
        assert decoded.log_probability[row].tolist() == pytest.approx([value for _, _, value in best])


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("heads", [1, 2])
def test_coverage_is_that_of_the_states_that_attention_reads(build_decided_model, size, heads):
    """Of a pyramid one for two steps, alone and as an ensemble's: a state has the sum of its steps' weights."""
    choices = {"encoder": {"name": "pyramid", "layers": 2}, "attention": ("standard", {"heads": heads})}
    models = [build_decided_model(**choices) for _ in range(size)]
    model = models[0] if size == 1 else Ensemble(models)
    search = Beam(3, nbest=3, coverage_penalty=0.4, max_length_ratio=0.0, max_length_extra=3)
    result = search(model, SOURCE, SOURCE_MASK, TAG, need_weights=True)
    covered = result.weights.sum(-2)  # (b, n, s), or (b, n, h, s)
    covered = covered.mean(2) if covered.dim() == 4 else covered
    states = torch.nn.functional.pad(covered, (0, 1)).unflatten(-1, (-1, 2)).sum(-1)  # (b, n, s / 2)
    terms = states.clamp(1e-9, 1).log().masked_fill(~SOURCE_MASK[:, None, ::2], 0.0)
    torch.testing.assert_close(result.score, result.log_probability + 0.4 * terms.sum(-1))


def test_a_beam_returns_every_possible_sequence(small):
    """Where fewer can be written than are wanted, the rest is empty; together they have all the probability there is.

    Of two symbols, none twice: EOS; 3 EOS, 5 EOS; and both in either order, EOS behind.
    """
    model = small()

    def few(written: Tensor, rows: Tensor) -> Tensor:
        return torch.tensor([0, 0, 1, 1, 0, 1, 0]).bool().expand(len(rows), -1)

    decoded = Beam(13, nbest=11, no_repeat_ngram_size=1)(model, TWO, TWO != 0, token_filter=few)
    for row in range(2):
        written = {tuple(x for x in sequence if x != PAD) for sequence in decoded.sequences[row, :5].tolist()}
        assert written == {(EOS,), (3, EOS), (5, EOS), (3, 5, EOS), (5, 3, EOS)}
        assert decoded.lengths[row, 5:].tolist() == [0] * 6
        assert decoded.score[row, 5:].tolist() == decoded.log_probability[row, 5:].tolist() == [float("-inf")] * 6
    complete = Beam(1301, nbest=1301, max_length_ratio=1.0, max_length_extra=2)(model, TWO, TWO != 0)
    assert (complete.lengths > 0).sum(1).tolist()[1] == 1 + 4 + 16 + 64 * 5
    probability = complete.log_probability[1].exp().sum()
    shares = model(TWO[1:], TWO[1:] != 0, torch.tensor([[BOS]])).logits.softmax(-1)[0, 0, EOS:].sum()
    assert 0 < probability < shares < 1  # PAD and BOS have some, which is never written


SEARCHES = [Greedy, Beam, Sampling]


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("composition", ["plain", "encoder_decoder_now"])
def test_a_prefix_is_kept(build_decided_model, search, composition):
    """Each row's own, longer than its limit if need be; behind it the model is free, before it nothing counts."""
    model = build_decided_model(**COMPOSITIONS[composition])
    prefix = torch.tensor([[11, 3, 3], [7, 0, 0], [13, 5, EOS], [0, 0, 0]])
    decoded = search(max_length_ratio=0.001, max_length_extra=2, min_length=1, no_repeat_ngram_size=1)(
        model, SOURCE, SOURCE_MASK, prefix=prefix
    )
    assert decoded.sequences[0, 0, :3].tolist() == [11, 3, 3]
    assert decoded.lengths[0, 0] == 4
    assert decoded.sequences[1, 0, 0] == 7
    assert decoded.sequences[2, 0].tolist() == [13, 5, EOS, PAD]
    torch.testing.assert_close(decoded.log_probability, force_hypotheses(model, decoded, tag=torch.zeros(4).long())[0])
    free = search(max_length_ratio=0.001, max_length_extra=2, min_length=1, no_repeat_ngram_size=1)(
        model, SOURCE[3:], SOURCE_MASK[3:]
    )
    assert decoded.sequences[3, 0, :2].tolist() == free.sequences[0, 0].tolist()


def test_a_greedy_prefix_changes_nothing(build_decided_model):
    model = build_decided_model(scope="encoder_decoder")
    free = Greedy()(model, SOURCE, SOURCE_MASK)
    same(Greedy()(model, SOURCE, SOURCE_MASK, prefix=free.sequences[:, 0, :3]), free)


@pytest.mark.parametrize("search", SEARCHES)
def test_choices_are_obeyed(build_decided_model, search):
    """A tour: each of the row's own symbols once, and only then an end."""
    model, calls = build_decided_model(scope="encoder_decoder"), []
    allowed_symbols = torch.zeros(4, 17, dtype=torch.bool)
    for row, symbols in enumerate([[3, 5, 7, 11, 13], [4], [6, 8, 10], [16, 3]]):
        allowed_symbols[row, symbols] = True

    def remaining_choices(written: Tensor, rows: Tensor) -> Tensor:
        calls.append(rows.unique().tolist())
        open_ = allowed_symbols[rows].scatter(1, written, False)
        open_[:, EOS] = ~open_.any(-1)
        return open_

    decoded = search()(model, SOURCE, SOURCE_MASK, token_filter=remaining_choices)
    for row, (written, steps) in enumerate(
        zip(decoded.sequences[:, 0].tolist(), decoded.lengths[:, 0].tolist(), strict=True)
    ):
        assert sorted(written[: steps - 1]) == allowed_symbols[row].nonzero()[:, 0].tolist()
        assert written[steps - 1] == EOS
    assert calls[0] == [0, 1, 2, 3]
    assert calls[-1] == [0]  # the others have ended before
    torch.testing.assert_close(decoded.log_probability, force_hypotheses(model, decoded, tag=torch.zeros(4).long())[0])


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_ngram_repeats(build_decided_model, search, size):
    """Where without the rule some do; and each has at least its symbols."""
    model = build_decided_model()
    with torch.no_grad():
        model.output.bias[5] += 23  # it would write nothing else
        model.output.bias[7] += 19
    free = search(min_length=11)(model, SOURCE, SOURCE_MASK)
    bound = search(min_length=11, no_repeat_ngram_size=size)(model, SOURCE, SOURCE_MASK)
    for result, is_bound in ((free, False), (bound, True)):
        for written, steps in zip(result.sequences[:, 0].tolist(), result.lengths[:, 0].tolist(), strict=True):
            assert steps >= 12
            assert no_repeat(size)(tuple(written[:steps])) == is_bound
            assert EOS not in written[:11]


@pytest.mark.parametrize("search", SEARCHES)
def test_a_search_ends_even_if_the_end_is_forbidden(build_decided_model, search):
    """By the choices, its least length, or by the model too, which then says that what it wrote is impossible."""
    model = build_decided_model()

    def allow_none(written: Tensor, rows: Tensor) -> Tensor:
        return torch.full((len(rows), 17), written.shape[1] < 2) & (torch.arange(17) != EOS)

    for bias, least in ((0.0, 0), (0.0, 5), (-torch.inf, 5)):
        with torch.no_grad():
            model.output.bias[EOS] = bias
        decoded = search(min_length=least)(model, SOURCE, SOURCE_MASK, token_filter=allow_none)
        assert decoded.lengths[:, 0].tolist() == [3] * 4
        assert (decoded.sequences[:, 0, 2] == EOS).all()


def p_value(counts: dict[Any, int], shares: dict[Any, float]) -> float:
    """How likely counts as far from the shares as these, or farther: Pearson's chi-square, cells of 5 or more."""
    total = sum(counts.values())
    cells = {cell: share for cell, share in shares.items() if share * total >= 5}
    remaining = 1 - sum(cells.values())
    observed = [
        *(counts.get(cell, 0) for cell in cells),
        sum(count for cell, count in counts.items() if cell not in cells),
    ]
    expected = [*(share * total for share in cells.values()), remaining * total]
    if expected[-1] < 5:
        assert observed[-1] < 23
        observed, expected = observed[:-1], expected[:-1]
    squares = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
    freedom = torch.tensor((len(expected) - 1) / 2)
    return float(torch.special.gammaincc(freedom, torch.tensor(squares / 2)))


def change_shares(shares: Tensor, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> list[float]:
    """The chances of five symbols, one by one."""
    powers = [share ** (1 / temperature) for share in shares.tolist()]
    order = sorted(range(5), key=lambda place: -powers[place])[: top_k or 5]
    kept_symbols, reached = set(), 0.0
    for place in order:
        if reached < top_p * sum(powers[item] for item in order):
            kept_symbols.add(place)
        reached += powers[place]
    total = sum(powers[place] for place in kept_symbols)
    return [powers[place] / total if place in kept_symbols else 0.0 for place in range(5)]


@pytest.mark.parametrize(
    "options",
    [{}, {"temperature": 2.0}, {"temperature": 0.5}, {"top_k": 2}, {"top_p": 0.8}, {"top_k": 3, "top_p": 0.7}],
    ids=str,
)
def test_samples_follow_the_distribution(small, options):
    """Of 4001 outputs of two steps; and another temperature's distribution they do not follow."""
    model = small()
    decoded = Sampling(nbest=4001, max_length_ratio=0.001, max_length_extra=2, seed=13, **options)(
        model, TWO[:1], TWO[:1] != 0
    )
    written = [tuple(x for x in sequence if x != PAD) for sequence in decoded.sequences[0].tolist()]
    counts = {item: written.count(item) for item in set(written)}

    def shares(**options: Any) -> dict[tuple[int, ...], float]:
        inputs = torch.tensor([[BOS, symbol] for symbol in FEW])
        logits = model(TWO[:1].expand(5, -1), TWO[:1].expand(5, -1) != 0, inputs).logits[..., EOS:].softmax(-1)
        first, then = change_shares(logits[0, 0], **options), [change_shares(row, **options) for row in logits[:, 1]]
        pairs = {
            (first_symbol, second_symbol): first[m] * then[m][n]
            for m, first_symbol in enumerate(FEW)
            for n, second_symbol in enumerate(FEW)
            if m
        }
        return {(EOS,): first[0], **pairs}

    expected = shares(**options)
    assert p_value(counts, expected) > 0.001
    assert p_value(counts, shares(temperature=5.0)) < 1e-9
    assert all(expected[sequence] > 0 for sequence in counts)


def test_samples_depend_on_the_seed_and_the_source(build_decided_model):
    model = build_decided_model()
    first, again, second = (Sampling(nbest=5, seed=seed)(model, SOURCE, SOURCE_MASK) for seed in (7, 7, 11))
    same(first, again)
    assert first.sequences.tolist() != second.sequences.tolist()
    twice = Sampling(nbest=5, seed=7)(model, SOURCE[[1, 1]], SOURCE_MASK[[1, 1]])
    assert twice.sequences[0].tolist() == twice.sequences[1].tolist()
    assert len(set(map(tuple, twice.sequences[0].tolist()))) > 1
    assert first.log_probability.tolist() == first.score.tolist()


@in_every_composition(Beam(3, nbest=2, length_penalty="gnmt"), plain=[Greedy(), Sampling()])
def test_an_ensemble_of_a_model_with_itself_is_that_model(build_decided_model, composition, search):
    model = build_decided_model(**composition)
    both = Ensemble([model, model])
    alone = search(model, SOURCE, SOURCE_MASK, TAG, True)
    if alone.weights is not None and alone.weights.dim() == 5:  # of heads, which two models order each in its own way
        alone = alone._replace(weights=alone.weights.mean(2))
    same(search(both, SOURCE, SOURCE_MASK, TAG, True), alone)
