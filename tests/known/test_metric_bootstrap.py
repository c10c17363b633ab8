"""Bootstrap draws equal the metrics of the drawn examples, and neighbors are drawn together."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torchmetrics import Metric

from attnx import registry
from attnx.data.examples import Pair
from attnx.inference.metric_intervals import bootstrap_metrics
from attnx.inference.predictor import Prediction, metric_results
from attnx.metrics.per_tag import MACRO, MICRO, PerTag, update_all
from attnx.problems.forecasting.series import read_series
from attnx.problems.forecasting.windows import Span, WindowSpec, time_order
from attnx.problems.pointing.answers import PointingReference
from attnx.problems.pointing.metrics import AnswerAccuracy
from attnx.reports.stats.bootstrap import SAMPLES, SEED, resample_sums
from attnx.tasks.contract import SequenceData, SequenceTask


class Shown(SequenceTask):
    """A task as far as a test is measured: its metrics, and what each is shown of a pair."""

    def __init__(self, builders: dict[str, Any], right: str = "references") -> None:
        self.builders, self.right = builders, right

    def load(self) -> SequenceData:
        raise NotImplementedError

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        return {name: PerTag(build, tags) if tags else build() for name, build in self.builders.items()}

    def update(self, metrics: Any, outputs: Sequence[Any], pairs: Sequence[Pair]) -> None:
        update_all(metrics, outputs, [getattr(pair, self.right) for pair in pairs], [pair.tag for pair in pairs])


class Ordered(Shown):
    """Of examples that stand for numbers, in twos that are alike."""

    def neighbors(self, pairs: Sequence[Pair]) -> tuple[list[int], int]:
        order = sorted(range(len(pairs)), key=lambda place: int(pairs[place].name))
        return order, 10


def draw_scores(task: Any, tags: Sequence[str], predictions: Sequence[Prediction]) -> dict[str, Any]:
    """The draws of a task that is one only as far as a test is measured."""
    return bootstrap_metrics(task, tags, predictions)


def make_metric(name: str, **options: Any) -> Any:
    return lambda: registry.build("metric", name, **options)


def words(*written: str, tags: Sequence[str] = (), right: str = "a b c d e") -> list[Prediction]:
    whose = tags or [""] * len(written)
    pairs = [Pair((), (tuple(right.split()),), tag, texts=(right,)) for tag in whose]
    return [Prediction(pair, text.split(), 0.0, None) for pair, text in zip(pairs, written, strict=True)]


def matrices() -> list[Prediction]:
    random = np.random.default_rng(3)
    made = [random.normal(size=(2, steps, 2)).astype(np.float32) for steps in (3, 1, 4, 2, 2, 5)]
    return [Prediction(Pair((), (), target=right), written, 0.0, None) for written, right in made]


NUMBERS = {
    "mse": make_metric("mean_squared_error"),
    "scaled": make_metric("scaled_error", mean=[0.0, 1.0], scale=[1.0, 2.0]),
    "rmse": make_metric("root_mean_squared_error"),
}
SYMBOLS = {"per": make_metric("phone_error_rate"), "wer": make_metric("word_error_rate")}
LETTERS = words("a b c d e", "a c", "b b c d e", "e", "a b c d", "a b x d e f")


@pytest.mark.parametrize(
    ("task", "predictions", "tags"),
    [
        (Shown(SYMBOLS), LETTERS, ()),
        (Shown(SYMBOLS), words(*["a b c", "a b c d e"] * 12, tags=["x", "y", "x", "x"] * 6), ("x", "y")),
        (Shown(NUMBERS, right="target"), matrices(), ()),
    ],
    ids=["symbols", "tags", "numbers"],
)
def test_a_draw_equals_the_metrics_of_the_drawn_examples(task, predictions, tags):
    draws = draw_scores(task, tags, predictions)
    complete = nn.ModuleDict(task.metrics(tags))
    task.update(
        complete, [prediction.output for prediction in predictions], [prediction.pair for prediction in predictions]
    )
    assert draws.keys() == metric_results("test", complete).keys()
    places = np.random.default_rng(SEED).integers(0, len(predictions), (SAMPLES, len(predictions)))
    for number in (0, 1, SAMPLES // 2, SAMPLES - 1):
        selected = [predictions[place] for place in places[number]]
        metrics = nn.ModuleDict(task.metrics(tags))
        task.update(
            metrics, [prediction.output for prediction in selected], [prediction.pair for prediction in selected]
        )
        for name, value in metric_results("test", metrics).items():
            assert draws[name][number] == pytest.approx(float(value), rel=1e-5), name
    for name, value in metric_results("test", complete).items():
        assert draws[name].mean() == pytest.approx(float(value), rel=0.05)


def test_many_examples_are_resampled_in_blocks(monkeypatch):
    """What fits into memory changes no draw."""
    complete = draw_scores(Shown(SYMBOLS), (), LETTERS)
    monkeypatch.setattr("attnx.reports.stats.bootstrap.MAX_COUNTS_IN_MEMORY", 7)
    monkeypatch.setattr("attnx.inference.metric_intervals.MAX_NUMBERS_IN_MEMORY", 997)
    separate = draw_scores(Shown(SYMBOLS), (), LETTERS)
    assert all((complete[name] == separate[name]).all() for name in ("test_per", "test_wer"))


def test_the_mean_over_tags_is_resampled():
    draws = draw_scores(Shown(SYMBOLS), ("x", "y"), words(*["a"] * 20, tags=["x", "y"] * 10))
    names = {f"test_{metric}_{which}" for metric in SYMBOLS for which in (MACRO, MICRO, "x", "y")}
    assert draws.keys() == names
    assert (draws["test_wer_macro"] == 100).all()
    few = draw_scores(Shown(SYMBOLS), ("x", "y"), words("a", "b", "a", tags=["x", "x", "y"]))
    assert few.keys() == {"test_per_micro", "test_wer_micro"}  # some draws lack x or y


def test_corpus_scores_are_resampled():
    pytest.importorskip("sacrebleu")
    task = Shown({"bleu": make_metric("bleu"), "ter": make_metric("ter")}, right="texts")
    texts = ["a b c d e", "a b c d f", "a b x d e", "e d c b a"]
    draws = draw_scores(
        task, (), [prediction._replace(output=" ".join(prediction.output)) for prediction in words(*texts)]
    )
    places = np.random.default_rng(SEED).integers(0, 4, (SAMPLES, 4))
    metric: Any = registry.build("metric", "bleu")
    metric.update([texts[place] for place in places[7]], [["a b c d e"]] * 4)
    assert draws["test_bleu"][7] == pytest.approx(metric.compute().item(), rel=1e-5)
    assert len(np.unique(draws["test_ter"])) > 4


def test_scores_by_size_are_resampled():
    """A size that some draw lacks is not reported; a size in all draws is."""
    judged = Shown({"accuracy": AnswerAccuracy}, "texts")
    sizes = [3] * 30 + [4] * 30 + [5]
    pairs = [Pair((), (), texts=PointingReference(np.zeros((size, 2)), [0])) for size in sizes]
    predictions = [Prediction(pair, [number % 2], 0.0, None) for number, pair in enumerate(pairs)]
    draws = draw_scores(judged, (), predictions)
    assert draws.keys() == {"test_accuracy", "test_accuracy_3", "test_accuracy_4"}
    assert draws["test_accuracy"].std() == pytest.approx(100 * math.sqrt(0.25 / 61), rel=0.1)


def alike(count: int) -> list[Prediction]:
    """Ten in a row are all right or all wrong, and lie in any order."""
    random = np.random.default_rng(1)
    wrong = np.repeat(random.permutation(np.arange(count // 10) % 2), 10)
    labels = [(number, "a" if wrong[number] else "b") for number in random.permutation(count)]
    return [Prediction(Pair((), (("b",),), name=str(number)), [text], 0.0, None) for number, text in labels]


def test_neighboring_examples_are_resampled_in_blocks():
    """100 blocks tell as much as 100 examples: the error is that of them, not of the 1,000 that they hold."""
    metrics = {"wer": make_metric("word_error_rate")}
    separate = draw_scores(Shown(metrics), (), alike(1000))["test_wer"].std()
    together = draw_scores(Ordered(metrics), (), alike(1000))["test_wer"].std()
    assert separate == pytest.approx(100 * math.sqrt(0.25 / 1000), rel=0.1)
    # Blocks begin anywhere, so that most hold the ends of two: two thirds of the variance of whole ones.
    assert together == pytest.approx(100 * math.sqrt(0.25 / 100 * 2 / 3), rel=0.15)


def test_blocks_wrap_around_the_end():
    """Of seven examples seven are drawn, in threes, and each as often as the others."""
    drawn = resample_sums(np.eye(7), block=3)
    assert (drawn.sum(axis=1) == 7).all()
    assert drawn.mean(axis=0) == pytest.approx(1, abs=0.1)


def test_overlapping_windows_are_resampled_in_blocks(tmp_path):
    file = tmp_path / "series.csv"
    rows = [f"{name},2024-01-{1 + day:02d},{day}" for name in ("b", "a") for day in range(12)]
    file.write_text("\n".join(["of,day,y", *rows]) + "\n")
    windows = WindowSpec(2, 3, ("y",))
    pairs = [
        pair for prediction in read_series(file, "day", ["y"], "of") for pair in windows.pairs(prediction, Span(0, 12))
    ]  # from the third day on, up to the tenth
    mixed = [pairs[place] for place in np.random.default_rng(0).permutation(len(pairs))]
    order, overlap = time_order(mixed)
    assert [mixed[place].name for place in order] == sorted(pair.name for pair in pairs)
    assert (len(pairs), overlap) == (16, round((6 * 3 + 2 + 1) / 8))
    every_other = [pair for pair in pairs if int(pair.name[-2:]) % 2]
    assert time_order(every_other)[1] == round((3 * 2 + 1) / 4)


class Listing(Metric):
    """One whose state is a list: nothing adds up."""

    def __init__(self) -> None:
        super().__init__()
        self.add_state("lengths", [], dist_reduce_fx="cat")

    def update(self, outputs: Any, references: Any) -> None:
        self.lengths += [torch.tensor(float(len(prediction))) for prediction in outputs]

    def compute(self) -> Any:
        return torch.stack(self.lengths).median()


class Longest(Metric):
    """One whose state is a maximum, which other examples would change."""

    def __init__(self) -> None:
        super().__init__()
        self.add_state("longest", torch.tensor(0.0), dist_reduce_fx="max")

    def update(self, outputs: Any, references: Any) -> None:
        self.longest = torch.tensor(float(max(map(len, outputs))))

    def compute(self) -> Any:
        return self.longest


def test_metrics_without_sums_are_left_out():
    task = Shown({"median": Listing, "longest": Longest, "wer": make_metric("word_error_rate")})
    assert draw_scores(task, (), LETTERS).keys() == {"test_wer"}
    assert draw_scores(Shown({}), (), LETTERS) == draw_scores(Shown({"longest": Longest}), (), LETTERS) == {}
    assert draw_scores(task, (), LETTERS[:1]) == {}


def test_resampling_leaves_the_task_unchanged():
    """Metrics of the task's own class compute, synchronize and remember as before."""
    draw_scores(Shown(SYMBOLS), (), LETTERS)
    metric: Any = registry.build("metric", "phone_error_rate")
    metric.update([["a"]], [[["a", "b"]]])
    assert float(metric.compute()) == 50
    assert float(metric._computed) == 50
