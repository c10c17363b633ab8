"""Probes by their definitions: what is drawn, which labels count, and what is measured."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from attnx.data.batches import as_batch, collate
from attnx.data.buckets import collate_shard
from attnx.data.examples import Pair
from attnx.errors import UserError
from attnx.problems.probes.drawn import NOWHERE, Setting
from attnx.problems.probes.metrics import DistanceAccuracy, LabelAccuracy, SequenceAccuracy
from attnx.problems.probes.probe import Probe
from attnx.problems.probes.recall import Mqar
from attnx.problems.probes.sampling import draw_distinct, draw_weighted
from attnx.problems.probes.target import StepLabels

SMALL: Any = {"length": 16, "pairs": 3, "vocabulary": 22, "examples": 211, "num_held_out": 53}


def test_distinct_numbers_are_distinct_and_equally_likely() -> None:
    for count, size in ((3, 5), (2, 5), (7, 101)):
        drawn = draw_distinct(np.random.default_rng(7), 6007, count, size)
        assert all(len(set(row)) == count for row in drawn.tolist())
        shares = np.stack([np.bincount(column, minlength=size) for column in drawn.T]) / len(drawn)
        assert np.abs(shares - 1 / size).max() < 5 * math.sqrt(1 / size / len(drawn))


def test_weighted_positions_are_drawn_one_after_another() -> None:
    """Of weights 1, 2, 5 the first is drawn with 1/8, 2/8, 5/8; position 0 follows 2 with 1/3."""
    drawn = draw_weighted(np.random.default_rng(7), 60013, 2, np.log([1.0, 2.0, 5.0]))
    first = np.bincount(drawn[:, 0]) / len(drawn)
    assert first == pytest.approx([1 / 8, 2 / 8, 5 / 8], abs=0.01)
    after = drawn[drawn[:, 0] == 2, 1]
    assert np.bincount(after, minlength=3) / len(after) == pytest.approx([1 / 3, 2 / 3, 0], abs=0.02)


@pytest.mark.parametrize("fillers", ["blank", "own", "any"])
def test_a_query_of_mqar_is_labeled_by_the_value_of_its_key(fillers: Any) -> None:
    problem = Mqar(vocabulary=22, fillers=fillers, filler_symbols=5)
    drawn = problem.draw(np.random.default_rng(7), 101, Setting(16, 3))
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


def test_queries_of_mqar_stand_near_the_pairs_by_their_power() -> None:
    """One pair among 16 steps has 7 slots with weights 1/i; 1 + 1/2 + ... + 1/7 = 363/140."""
    drawn = Mqar(vocabulary=22, power=0.0).draw(np.random.default_rng(7), 20011, Setting(16, 1))
    slots = (np.flatnonzero(drawn.scored.ravel()) % 16 - 2) // 2
    assert np.bincount(slots, minlength=7) / len(slots) == pytest.approx(140 / 363 / np.arange(1, 8), abs=0.012)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pairs": 5}, "task.pairs=5 and task.length=16: 5 pairs and their queries need a length of 20 or more"),
        ({"length": 17}, "12 or more, which is even"),
        ({"vocabulary": 16}, "task.vocabulary=16 must be even and more than the length 16"),
        ({"test": "16x5"}, "task.pairs=5 and task.length=16"),
        ({"test": "far"}, "task.test=far: expected a length up to 999,999"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Probe(**{**SMALL, **options})


def test_splits_follow_from_the_seed_and_do_not_overlap() -> None:
    task = Probe(**SMALL, test=["16", "16x2", 20])
    data, again = task.load(), Probe(**SMALL, test=["16", "16x2", 20]).load()
    assert data.rows is not None
    assert data.rows.fingerprint() == again.train_dataset().fingerprint()
    assert data.pairs == again.pairs
    assert task.test_pairs() == data.pairs.test
    sources = [tuple(data.source.encode(pair.source)) for pair in [*data.pairs.valid, *data.pairs.test]]
    train = {tuple(row.source.tolist()) for row in (data.rows[index] for index in range(len(data.rows)))}
    assert len(train) == 211
    assert not train & {*sources}
    assert not {*sources[:53]} & {*sources[53:]}
    assert [pair.name for pair in data.pairs.test] == ["16x3"] * 18 + ["16x2"] * 18 + ["20x3"] * 17
    other = Probe(**SMALL, seed=2).load()
    assert other.train_dataset().fingerprint() != data.rows.fingerprint()


def test_a_batch_has_the_labels_that_count() -> None:
    """Rows of 16 and of 20 steps: labels where the mask is True, which padding is not; no end is added."""
    data = Probe(**SMALL, test=["16", "20"]).load()
    rows = data.evaluation_dataset([data.pairs.test[0], data.pairs.test[-1]])
    batch = collate([rows[0], rows[1]])
    assert batch.loss_mask is not None
    assert batch.target.shape == batch.loss_mask.shape == batch.source.shape == (2, 20)
    for row, pair in enumerate((data.pairs.test[0], data.pairs.test[-1])):
        assert batch.loss_mask[row, : len(pair.source)].tolist() == list(pair.loss_mask)
        assert not batch.loss_mask[row, len(pair.source) :].any()
        labels = [data.target.symbols[index] for index in batch.target[row][batch.loss_mask[row]]]
        assert labels == [label for label in pair.references[0] if label != "."]
    assert torch.equal(as_batch(rows).loss_mask, batch.loss_mask)
    dummy = collate_shard([rows[0]._replace(row_index=-1)])
    assert dummy.loss_mask is not None
    assert not dummy.loss_mask.any()
    assert data.train_dataset()[0].loss_mask is not None


def test_label_losses_are_over_the_symbols_of_the_problem() -> None:
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


def test_accuracies_by_hand() -> None:
    """2 of 3 right and 1 of 1: 5/6, scaled by a chance of 1/2 it is 2/3; by distance 1: 1/2, 2 to 3: 2/2."""
    pairs = [pair("abc", "3", (1, 2, 3)), pair("a", "1", (1,))]
    outputs = [list("xbc"), list("a")]
    accuracy, scaled = LabelAccuracy(["3", "1"]), LabelAccuracy(["3", "1"], chance=0.5)
    whole, distance = SequenceAccuracy(["3"]), DistanceAccuracy()
    for metric in (accuracy, scaled, distance):
        metric.update(outputs, pairs)
    whole.update(outputs[:1], pairs[:1])
    assert {name: float(value) for name, value in accuracy.compute().items()} == pytest.approx(
        {"": 250 / 3, "3": 200 / 3, "1": 100}
    )
    assert float(scaled.compute()[""]) == pytest.approx(200 / 3)
    assert float(whole.compute()[""]) == 0
    assert {name: float(value) for name, value in distance.compute().items()} == {"1": 50, "2_3": 100}
