"""Probes by their definitions: what is drawn, which labels count, and what is measured."""

import math
import re
from typing import Any

import numpy as np
import pytest
import torch

from attnx.config.compose import compose
from attnx.data.batches import as_batch, collate
from attnx.data.buckets import collate_shard
from attnx.data.examples import Pair
from attnx.errors import UserError
from attnx.models.resolve import DataSizes, resolve_model
from attnx.problems.probes.copying import Compression, Copying, Induction, Memorization
from attnx.problems.probes.drawn import NOWHERE, Difficulty
from attnx.problems.probes.metrics import DistanceAccuracy, LabelAccuracy, ScaledAccuracy, SequenceAccuracy
from attnx.problems.probes.options import CHOICES
from attnx.problems.probes.probe import Probe
from attnx.problems.probes.recall import FuzzyRecall, Mqar, Recall
from attnx.problems.probes.sampling import draw_distinct, draw_weighted
from attnx.problems.probes.state_tracking import ModularCounting, Permutations
from attnx.problems.probes.target import PositionDecoder, StepLabels

SMALL: Any = {"length": 16, "pairs": 3, "vocabulary": 22, "examples": 211, "num_held_out": 53}


def test_distinct_numbers_are_distinct_and_equally_likely():
    for count, size in ((3, 5), (2, 5), (7, 101)):
        drawn = draw_distinct(np.random.default_rng(7), 6007, count, size)
        assert all(len(set(row)) == count for row in drawn.tolist())
        shares = np.stack([np.bincount(column, minlength=size) for column in drawn.T]) / len(drawn)
        assert np.abs(shares - 1 / size).max() < 5 * math.sqrt(1 / size / len(drawn))


def test_weighted_positions_are_drawn_one_after_another():
    """Of weights 1, 2, 5 the first is drawn with 1/8, 2/8, 5/8; position 0 follows 2 with 1/3."""
    drawn = draw_weighted(np.random.default_rng(7), 60013, 2, np.log([1.0, 2.0, 5.0]))
    first = np.bincount(drawn[:, 0]) / len(drawn)
    assert first == pytest.approx([1 / 8, 2 / 8, 5 / 8], abs=0.01)
    after = drawn[drawn[:, 0] == 2, 1]
    assert np.bincount(after, minlength=3) / len(after) == pytest.approx([1 / 3, 2 / 3, 0], abs=0.02)


@pytest.mark.parametrize("fillers", ["blank", "own", "any"])
def test_a_query_of_mqar_is_labeled_by_the_value_of_its_key(fillers):
    problem = Mqar(vocabulary=22, fillers=fillers, filler_symbols=5)
    drawn = problem.draw(np.random.default_rng(7), 101, Difficulty(16, 3))
    for inputs, labels, origins, scored in zip(*drawn, strict=True):
        keys, values = inputs[:6:2], inputs[1:6:2]
        assert len({*keys}) == len({*values}) == 3
        assert all(1 <= key < 11 for key in keys)
        assert all(11 <= value < 22 for value in values)
        queries = np.flatnonzero(scored)
        assert len(queries) == 3
        assert all(position >= 6 and position % 2 == 0 for position in queries)
        value_of = dict(zip(keys.tolist(), values.tolist(), strict=True))
        assert [value_of[key] for key in inputs[queries].tolist()] == labels[queries].tolist()
        assert inputs[origins[queries]].tolist() == labels[queries].tolist()
        assert (labels[~scored] == NOWHERE).all()
        fill = inputs[6:][~scored[6:]]
        allowed = {"blank": fill == 0, "own": (fill >= 22) & (fill < 27), "any": fill < 22}[fillers]
        assert allowed.all()


def test_queries_of_mqar_stand_near_the_pairs_by_their_power():
    """One pair among 16 steps has 7 slots with weights 1/i; 1 + 1/2 + ... + 1/7 = 363/140."""
    drawn = Mqar(vocabulary=22, power=0.0).draw(np.random.default_rng(7), 20011, Difficulty(16, 1))
    slots = (np.flatnonzero(drawn.scored.ravel()) % 16 - 2) // 2
    assert np.bincount(slots, minlength=7) / len(slots) == pytest.approx(140 / 363 / np.arange(1, 8), abs=0.012)


def rows_of(problem: Any, length: int, rows: int = 211) -> Any:
    drawn = problem.draw(np.random.default_rng(7), rows, Difficulty(length))
    assert drawn.inputs.shape == (rows, length)
    assert drawn.inputs.min() >= 0
    assert drawn.inputs.max() < len(problem.symbols)
    assert ((drawn.labels >= 0) | ~drawn.scored).all()
    has_origin = drawn.origins >= 0
    assert (np.take_along_axis(drawn.inputs, np.maximum(drawn.origins, 0), 1) == drawn.labels)[has_origin].all()
    assert (drawn.origins < np.arange(length))[has_origin].all()
    return zip(*(part.tolist() for part in drawn), strict=True)


@pytest.mark.parametrize(("noise", "length"), [(0.0, 22), (0.4, 22), (0.4, 4)])
def test_recall_asks_for_the_values_of_keys_seen_before(noise, length):
    for inputs, labels, _, scored in rows_of(Recall(vocabulary=10, noise=noise, filler_symbols=3), length):
        value_of: dict[int, int] = {}
        for position in range(0, length, 2):
            key, value = inputs[position : position + 2]
            is_noise = key >= 10
            assert is_noise == (value >= 10)
            assert is_noise or (key < 5 <= value)
            assert scored[position] == (key in value_of and not is_noise)
            assert not scored[position + 1]
            assert value_of.setdefault(key, value) == value or is_noise
        assert labels == [*inputs[1:], NOWHERE]
        assert scored[length - 2]


def test_training_counts_every_next_symbol_or_marked_ones_alone():
    """The last of 22 steps has none; marked are keys, the one at the end among them."""
    every, marked = (
        Probe(problem="recall", length=22, train_labels=labels, examples=1, num_held_out=5).load().rows[0].loss_mask
        for labels in ("all", "marked")
    )
    assert every.tolist() == [True] * 21 + [False]
    assert marked[20]
    assert not marked[1::2].any()


@pytest.mark.parametrize("has_longest_keys", [False, True])
def test_fuzzy_recall_asks_for_values_of_several_symbols(has_longest_keys):
    """A row is read from its first symbol after the blanks: symbols below 5 are of keys, others of values."""
    sizes = set()
    for inputs, labels, _, scored in rows_of(FuzzyRecall(10, 3, has_longest_keys), 31):
        start = next(position for position, symbol in enumerate(inputs) if symbol != 10)
        assert labels[:start] == [NOWHERE] * start
        assert labels[start:] == [*inputs[start + 1 :], NOWHERE]
        value_of: dict[tuple[int, ...], tuple[int, ...]] = {}
        position, seen = start, False
        while position < 31:
            motifs = []
            for is_value in (False, True):
                end = position
                while end < 31 and (inputs[end] >= 5) == is_value:
                    end += 1
                motifs.append((position, tuple(inputs[position:end])))
                position = end
            (_, key), (first, value) = motifs
            assert len({*key}) == len(key)
            sizes.add(len(key))
            assert len({*value}) == len(value) <= 3
            seen = key in value_of
            assert value_of.setdefault(key, value) == value
            assert scored[first - 1 : first - 1 + len(value)] == [seen] * len(value)
        assert seen
    assert sizes == ({3} if has_longest_keys else {1, 2, 3})


def test_keys_of_fuzzy_recall_are_longest_in_tests_alone():
    """Poli et al. 2024, section 3.1; validation is as training, so that it does not choose by the test."""
    task = Probe(problem="fuzzy_recall", vocabulary=10, length=31, examples=11, num_held_out=23)
    splits = task.load().pairs
    for pairs, expected in ((splits.valid, {1, 2, 3}), (splits.test, {3})):
        keys = [key for pair in pairs for key in re.findall("[0-4]+", "".join(pair.source))]
        assert {len(key) for key in keys} == expected


@pytest.mark.parametrize("spread", [False, True])
def test_what_is_copied_comes_again_in_its_order(spread):
    places = set()
    for inputs, labels, origins, scored in rows_of(Copying(vocabulary=7, tokens=4, spread=spread), 17):
        copied = [symbol for symbol in inputs[:12] if symbol != 5]
        assert inputs[12:] == [6, 5, 5, 5, 5]
        assert labels[13:] == copied
        assert len(copied) == 4
        assert sum(scored) == 4
        assert origins[13:] == sorted(origins[13:])
        places.update(origins[13:])
    assert places == set(range(12 if spread else 4))


def test_induction_asks_for_what_followed_the_star():
    """The first stands anywhere before the last two symbols."""
    places = set()
    for inputs, labels, _, scored in rows_of(Induction(vocabulary=5), 9):
        assert [position for position, symbol in enumerate(inputs) if symbol == 4] == [inputs.index(4), 8]
        assert labels[8] == inputs[inputs.index(4) + 1]
        assert scored == [False] * 8 + [True]
        places.add(inputs.index(4))
    assert places == set(range(7))


def test_all_symbols_are_labels_of_compression():
    for inputs, labels, _, scored in rows_of(Compression(vocabulary=5), 9):
        assert labels == inputs
        assert [symbol == 4 for symbol in inputs] == [False] * 8 + [True]
        assert all(scored)


@torch.no_grad()
def test_labels_of_compression_are_read_from_the_last_state_and_their_position():
    """The last marked steps are 1 and 2. Maps by two and by one, without norms, of sin and cos of the position."""
    decoder = PositionDecoder(2)
    for index, layer in enumerate(decoder.layers):
        if isinstance(layer, torch.nn.Linear):
            torch.nn.init.eye_(layer.weight).mul_(2.0 if index == 1 else 1.0)
            torch.nn.init.zeros_(layer.bias)
        elif not isinstance(layer, torch.nn.GELU):
            decoder.layers[index] = torch.nn.Identity()
    states = torch.tensor([[[9.0, 9.0], [0.0, 1.0], [8.0, 8.0]], [[7.0, 7.0], [6.0, 6.0], [2.0, -1.0]]])
    mask = torch.tensor([[True, True, False], [False, False, True]])
    gelu = torch.nn.functional.gelu
    inputs = torch.tensor([[0.0, 2.0], [math.sin(1), 1 + math.cos(1)], [2 + math.sin(2), math.cos(2) - 1]])
    torch.testing.assert_close(decoder(states, mask), gelu(gelu(2 * inputs)))


@pytest.mark.parametrize("mixer", ["standard", "delta", "seq2seq"])
def test_a_model_writes_compressed_labels_from_its_last_state(mixer):
    """Trained for the last label alone, its loss has a gradient at all symbols before; each label has another."""
    overrides = ["model.hidden_size=32", "model.position_encoding=none", f"model.mixer={mixer}"]
    if mixer == "seq2seq":
        overrides = ["model=seq2seq", "model.embedding_dim=16", "decoder.hidden_size=16"]
    config = compose(["recipe=mad", "task.problem=compression", *overrides])
    model = resolve_model(config).build(DataSizes(9, 0, 9, 0))
    symbols = torch.tensor([[4, 5, 6, 8]])
    mask = torch.ones(1, 4, dtype=torch.bool)
    logits = model(symbols, mask, symbols, output_mask=mask).logits
    assert logits.shape == (4, 9)
    assert len(torch.unique(logits, dim=0)) == 4
    logits[0].sum().backward()
    gradients = model.embedding.weight.grad.abs().sum(1)
    assert (gradients[symbols[0]] > 0).all()


def test_memorized_values_are_the_same_in_all_sequences():
    value_of: dict[int, int] = {}
    for seed in (1, 2):
        value_of.clear()
        for inputs, labels, _, scored in rows_of(Memorization(vocabulary=12, seed=seed), 10):
            assert inputs[1::2] == [11] * 5
            assert scored == [False, True] * 5
            assert all(value_of.setdefault(*pair) == pair[1] for pair in zip(inputs[::2], labels[1::2], strict=True))
        assert {*value_of} == {0, 1, 2, 3, 4}
        assert len({*value_of.values()}) == 5


def test_parity_and_sums_are_asked_for_at_the_end():
    for modulus in (2, 5):
        for inputs, labels, _, scored in rows_of(ModularCounting(modulus, "none"), 8):
            assert inputs[7] == modulus
            assert labels == [NOWHERE] * 7 + [sum(inputs[:7]) % modulus]
            assert scored == [False] * 7 + [True]


@pytest.mark.parametrize("operators", ["sum", "all"])
def test_arithmetic_has_the_result_of_its_expression(operators):
    problem = ModularCounting(7, operators)
    for length in (3, 11):
        for inputs, labels, _, _ in rows_of(problem, length):
            text = "".join(problem.symbols[symbol] for symbol in inputs)
            assert text.endswith("=?")
            assert "*" not in text or operators == "all"
            assert labels[-1] == eval(text[:-2]) % 7


def test_permutations_are_multiplied():
    """Each step takes the elements on from where the steps before it took them."""
    for moves, moved in (("all", 4), ("three", 3), ("swaps", 2)):
        problem: Any = Permutations(elements=4, moves=moves)
        seen = set()
        for inputs, labels, _, scored in rows_of(problem, 6):
            places = list(range(4))
            for step, label in zip(inputs, labels, strict=True):
                order = [int(place) for place in problem.symbols[step]]
                seen.add(sum(place != element for element, place in enumerate(order)))
                places = [order[place] for place in places]
                assert problem.symbols[label] == "".join(map(str, places))
            assert all(scored)
        assert max(seen) == moved


@pytest.mark.parametrize("problem", CHOICES)
def test_every_problem_is_drawn_and_measured_by_default(problem):
    task = Probe(problem=problem, examples=131, num_held_out=17)
    data = task.load()
    metrics = torch.nn.ModuleDict(task.metrics(()))
    task.update(metrics, [list(pair.references[0]) for pair in data.pairs.test], data.pairs.test)
    values = {name: value for metric in metrics.values() for name, value in metric.compute().items()}
    assert {float(value) for value in values.values() if not value.isnan()} == {100.0}
    assert all(any(pair.loss_mask) for pair in data.pairs.test)
    counts = [int(row.loss_mask.sum()) for row in map(data.train_dataset().__getitem__, range(131))]
    assert min(counts) > 0


def test_a_range_is_of_the_lengths_that_a_problem_can_have():
    task = Probe(problem="modular_counting", length="3-8", test=["40-256", 9], examples=11, num_held_out=7)
    assert [setting.length for setting in task.design.train] == [3, 5, 7]
    assert [setting.length for setting in task.design.test] == [*range(41, 256, 2), 9]
    names = [*task.metrics(())["accuracy"].groups]
    assert names == ["32_63", "64_127", "128_255", "8_15", "2_3", "4_7"]
    assert [len(LabelAccuracy([str(size) for size in range(1, end)]).groups) for end in (13, 14)] == [12, 4]


def test_a_note_says_where_few_sequences_are_different(monkeypatch):
    """Of the two of one bit a split, at least, has those of another; of the many of ten bits none has."""
    task = Probe(problem="parity", length=2, examples=101, num_held_out=13)
    task.load()
    assert task.notes
    assert all("split are also in the training split: there are few different ones" in note for note in task.notes)
    monkeypatch.setattr("attnx.problems.probes.probe.TOKENS_PER_CHUNK", 8 * 11)
    task = Probe(problem="parity", length=11, examples=401, num_held_out=53)
    task.load()
    assert not task.notes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"pairs": 5, "length": 18},
            "task.pairs=5 and task.length=18: 5 pairs and their queries need a length of 20 or more",
        ),
        ({"problem": "recall", "length": 17}, "pairs need an even length"),
        ({"problem": "fuzzy_recall", "motif": 12}, "task.motif=12 needs a vocabulary of 24 or more"),
        ({"problem": "copying", "tokens": 8}, "task.tokens=8 need a length of 17 or more, not 16"),
        ({"problem": "copying", "vocabulary": 2}, "has the blank and the signal"),
        ({"problem": "memorization", "length": 17}, "memorization needs an even length"),
        ({"problem": "compression", "vocabulary": 2}, "there is nothing to compress; use 3 or more symbols"),
        ({"problem": "induction", "length": 2}, "two stars and a symbol between need 3 or more"),
        ({"problem": "parity", "length": 1}, "a length of 1: digits and their result need 2 or more steps"),
        ({"problem": "modular_counting"}, "a length of 16: digits and their result need an odd number of steps"),
        ({"problem": "permutations", "elements": 7}, "task.elements=7: use 2 to 6, which have 720 permutations"),
        ({"problem": "parity", "test": "16x4"}, "task.test=16x4: this problem has no pairs"),
        ({"length": 17}, "12 or more, which is even"),
        ({"vocabulary": 16}, "task.vocabulary=16 must be even and more than the length 16"),
        ({"test": "16x5"}, "task.pairs=5 and task.length=16"),
        ({"test": "far"}, "task.test=far: expected a length up to 999,999"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    with pytest.raises(UserError, match=message):
        Probe(**{**SMALL, **options})


def test_splits_follow_from_the_seed_and_do_not_overlap():
    task = Probe(**SMALL, test=["16", "16x4", 20])
    data, again = task.load(), Probe(**SMALL, test=["16", "16x4", 20]).load()
    assert data.rows.fingerprint() == again.train_dataset().fingerprint()
    assert data.pairs == again.pairs
    assert task.test_pairs() == data.pairs.test
    sources = [tuple(data.source.encode(pair.source)) for pair in [*data.pairs.valid, *data.pairs.test]]
    train = {tuple(row.source.tolist()) for row in (data.rows[index] for index in range(len(data.rows)))}
    assert len(train) == 211
    assert not train & {*sources}
    assert not {*sources[:53]} & {*sources[53:]}
    assert [pair.name for pair in data.pairs.test] == ["16x3"] * 18 + ["16x4"] * 18 + ["20x3"] * 17
    other = Probe(**SMALL, seed=2).load()
    assert other.train_dataset().fingerprint() != data.rows.fingerprint()


def test_a_batch_has_the_labels_that_count():
    """Rows of 16 and of 20 steps: labels where the mask is True, which padding is not; no end is added."""
    data = Probe(**SMALL, test=["16", "20"]).load()
    rows = data.evaluation_dataset([data.pairs.test[0], data.pairs.test[-1]])
    batch = collate([rows[0], rows[1]])
    assert batch.target.shape == batch.loss_mask.shape == batch.source.shape == (2, 20)
    for row, pair in enumerate((data.pairs.test[0], data.pairs.test[-1])):
        assert batch.loss_mask[row, : len(pair.source)].tolist() == list(pair.loss_mask)
        assert not batch.loss_mask[row, len(pair.source) :].any()
        labels = [data.target.symbols[index] for index in batch.target[row][batch.loss_mask[row]]]
        assert labels == [label for label in pair.references[0] if label != "."]
    assert torch.equal(as_batch(rows).loss_mask, batch.loss_mask)
    dummy = collate_shard([rows[0]._replace(row_index=-1)])
    assert not (dummy.loss_mask | dummy.target_mask).any()
    assert data.train_dataset()[0].loss_mask is not None


def test_label_losses_are_over_the_symbols_of_the_problem():
    """Three symbols after four special tokens: log 3 of equal logits, whatever the special tokens have."""
    target, outputs = StepLabels(7), torch.zeros(1, 2, 7)
    outputs[..., :4] = 5.0
    losses = target.step_losses(outputs, torch.tensor([[5, 0]]), torch.tensor([[True, False]]))
    assert losses[0].tolist() == pytest.approx([math.log(3), 0.0])
    predicted = target.predict(outputs)
    assert predicted[0, 0].exp().tolist() == pytest.approx([0, 0, 0, 0, 1 / 3, 1 / 3, 1 / 3])
    source = torch.tensor([[4, 5]])
    assert target.decoder_inputs(source, source + 1) is source


def pair(labels: str, name: str, distances: tuple[int, ...]) -> Pair:
    return Pair(tuple("x" * len(labels)), (tuple(labels),), "", (), None, None, name, (True,) * len(labels), distances)


def test_accuracies_by_hand():
    """2 of 3 right and 1 of 1: 5/6, scaled by a chance of 1/2 it is 2/3; by distance 1: 1/2, 2 to 3: 2/2."""
    pairs = [pair("abc", "3", (1, 2, 3)), pair("a", "1", (1,))]
    outputs = [list("xbc"), list("a")]
    accuracy, scaled = LabelAccuracy(["3", "1"]), ScaledAccuracy(["3", "1"], chance=0.5)
    whole, distance = SequenceAccuracy(["3"]), DistanceAccuracy()
    for metric in (accuracy, scaled, distance):
        metric.update(outputs, pairs)
    whole.update(outputs[:1], pairs[:1])
    assert {name: float(value) for name, value in accuracy.compute().items()} == pytest.approx(
        {"": 250 / 3, "3": 200 / 3, "1": 100}
    )
    assert float(scaled.compute()[""]) == pytest.approx(200 / 3)
    assert float(whole.compute()[""]) == 0
    by_distance = {name: float(value) for name, value in distance.compute().items() if not value.isnan()}
    assert by_distance == {"1": 50, "2_3": 100}
