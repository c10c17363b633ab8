"""Complete forecasting runs: trained, reopened, predicted, evaluated, drawn; and each mistake in the data."""

import gzip
import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnx
from attnx import registry
from attnx.problems.forecasting.figures import draw_forecast_page, draw_forecasts, read_forecasts
from attnx.problems.forecasting.series import read_test_series
from attnx.reports.run.tables import baseline_verdict, baseline_verdicts, result_rows
from attnx.runs.predictions import Evaluation
from attnx.runs.results import BaselineDifference
from attnx.runs.run import read_run
from tests.runs.conftest import fit_run, results, table

STEPS, LOOKBACK, HORIZON = 97, 7, 3
SMALL = [
    "task=forecasting",
    "task.file=series.csv",
    "task.time_column=time",
    f"task.lookback={LOOKBACK}",
    f"task.horizon={HORIZON}",
    "task.split=[61,17,19]",
    "task.season_length=5",
    "trainer.batch_size=8",
    "trainer.max_steps=3",
    "trainer.num_validations=1",
]
HISTORY = [
    *SMALL,
    "model=history",
    "recipe=attention_rnn",
    "model.embedding_dim=5",
    "decoder.hidden_size=7",
    "scorer.hidden_size=5",
]

TRANSFORMER = ["model=transformer", "model.hidden_size=8", "model.layers=1"]
TRANSFORMER += ["task.forecast=recursive", "task.quantiles=[0.5,0.9]"]


def value(step: int, column: int) -> float:
    return (column + 2) * (step * 37 % 11) + step % 5


def write(name: str = "series.csv", steps: range = range(STEPS), **kwargs: Any) -> None:
    """Columns a, b, a constant one and one that is known before; ``other`` lines, by the number of their step."""
    lines = ["time,a,b,still,hour"]
    for step in steps:
        plain = f"2024-01-{1 + step // 24:02d} {step % 24:02d}:00,{value(step, 0)},{value(step, 1)},7,{step % 24}"
        lines.append(kwargs.get(f"at_{step}", plain))
    Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def plain_run(no_pictures, make_once):
    """The table, and a run in ``one`` with the small sizes alone, trained once."""
    write()
    make_once("plain", "one", lambda: fit_run(HISTORY, "one"))


@pytest.fixture
def quantiles(no_pictures):
    """A run with quantiles, a column that is known, one that never changes, and a value that is missing."""
    write(at_50="2024-01-03 02:00,,5,7,2")
    choices = ["task.target_columns=[a,b,still]", "task.known_columns=[hour]", "task.quantiles=[0.1,0.5,0.9]"]
    return fit_run([*HISTORY, *choices, "task.forecast=recursive"], "one")


def test_a_run_forecasts_quantiles(quantiles, command, succeed, saved_traces):
    """Errors are of the median, scaled and in original units; a reopened run predicts the same and continues files."""
    windows = 19 - HORIZON + 1
    scores = results("one")
    assert scores["test_examples"] == windows
    traces = saved_traces("one")
    assert len(traces) == windows
    for (best,), trace in traces:
        ((read, candidates),) = trace.hypotheses
        assert not candidates
        assert read.weights[0] == pytest.approx(best.weights, abs=1e-4)
        assert np.isnan(read.scores[0, 0, -1])  # the state of a later step
    _beats_its_baselines("one")
    names = [*Path("one/predictions.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    assert len(names) == windows
    with np.load("one/predictions.npz") as arrays:
        written = np.stack([arrays[f"prediction_{number}"] for number in range(windows)]).astype(float)
        right = np.stack([arrays[f"reference_{number}"] for number in range(windows)]).astype(float)
    assert written.shape == (windows, HORIZON, 9)
    assert right.shape == (windows, HORIZON, 3)
    with np.load("one/resampled.npz") as drawn:
        assert set(drawn.files) == {name for name in scores if name.startswith("test_") and name != "test_examples"}
        assert drawn["test_mse"].mean() == pytest.approx(scores["test_mse"], rel=0.1)
    error = written[..., :3] - right
    scale = np.array(quantiles.target.scale)
    # Of the last steps alone, as LSTNet's; the third column never changes.
    last, spread = right[:, -1], np.square(right[:, -1] - right[:, -1].mean()).sum()
    assert scores["test_rse"] == pytest.approx(math.sqrt(np.square(error[:, -1]).sum() / spread), rel=1e-4)
    correlations = [np.corrcoef(written[:, -1, column], last[:, column])[0, 1] for column in range(2)]
    assert scores["test_corr"] == pytest.approx(np.mean(correlations), rel=1e-3)
    assert scores["test_own_mse"] == pytest.approx(np.square(error).mean(), rel=1e-4)
    assert scores["test_mse"] == pytest.approx(np.square(error / scale).mean(), rel=1e-4)
    assert scores["test_mae"] == pytest.approx(np.abs(error / scale).mean(), rel=1e-4)
    # What was the last value, and what was five steps before, of the windows that begin at steps 78 to 94.
    starts = np.arange(78, 78 + windows)
    ahead = starts[:, None] + np.arange(HORIZON)
    table = np.array([[value(step, 0), value(step, 1), 7] for step in range(STEPS)]) / scale
    naive = table[ahead] - table[starts - 1][:, None]
    assert scores["test_naive_mse"] == pytest.approx(np.square(naive).mean(), rel=1e-4)
    assert scores["test_seasonal_mae"] == pytest.approx(np.abs(table[ahead] - table[ahead - 5]).mean(), rel=1e-4)
    task = attnx.open_run("one").task
    assert task.baseline_forecasts["linear"].weights.shape == (HORIZON, LOOKBACK)
    _goes_on(command, succeed)


BASELINES = {"naive": "the last value", "seasonal": "the last season", "linear": "linear"}


def _beats_its_baselines(folder: str) -> None:
    """For each metric, with the interval of the differences in the same draws of the same windows."""
    run = read_run(folder)
    assert run.baselines.keys() == BASELINES.keys()
    rows = {row.metric: row.remark for row in result_rows(run)}
    with np.load(f"{folder}/resampled.npz") as drawn:
        for baseline, differences in run.baselines.items():
            assert (
                {"test_mse", "test_mae", "test_rse"}
                <= differences.keys()
                <= {"test_mse", "test_mae", "test_rse", "test_corr"}
            )
            for metric, difference in differences.items():
                baseline_metric = metric.replace("test_", f"test_{baseline}_")
                edges = np.percentile(drawn[metric] - drawn[baseline_metric], [2.5, 97.5])
                expected = (run.results[metric] - run.results[baseline_metric], *edges)
                assert difference == pytest.approx(expected, abs=1e-6)
                assert rows[baseline_metric] == f"the run {baseline_verdict(BASELINES[baseline], metric, difference)}"


def _beats_its_baselines_in_words(folder: Path, shown: str) -> None:
    """An evaluation says it on the console and in its README; so does a run in its own, by the same rows."""
    verdicts = baseline_verdicts(Evaluation(folder).load())
    assert verdicts.keys() >= {
        f"test_{who}_{name}" for who in ("naive", "seasonal", "linear") for name in ("mse", "rse")
    }
    for verdict in verdicts.values():
        assert f" the run {verdict} |" in (folder / "README.md").read_text(encoding="utf-8")
        assert all(word in shown for word in verdict.split())


def _goes_on(command: Callable[..., Any], succeed: Callable[..., str]) -> None:
    """The steps after a file's last; the known column is given for them."""
    blank = {f"at_{step}": f"2024-01-04 {step % 24:02d}:00,,,,{step % 24}" for step in range(89, 92)}
    write("now.csv", range(82, 92), **blank)
    answer = command("predict", "one", "now.csv")
    assert np.array(json.loads(answer.out)).shape == (HORIZON, 9)
    assert answer.err == ""
    write("now.csv", range(82, 92), at_91=blank["at_91"])
    note = "now.csv: the last task.horizon=3 rows are forecast, and their values of the targets are not read"
    assert note in command("predict", "one", "now.csv").err
    blank["at_84"], blank["at_90"] = "2024-01-04 12:40,1,,7,12", "2024-01-04 18:00,,,,"
    write("now.csv", range(82, 92), **blank)
    assert command("predict", "one", "now.csv").err.splitlines() == [
        "attnx: now.csv: 1 missing values of b are replaced by the last ones before",
        "attnx: now.csv: 1 missing values of hour are replaced by the last ones before",
        "attnx: now.csv: 2 of 9 steps are not about 3600 s long as is usual, the first after 2024-01-04 11:00; they "
        "are treated as equal",
    ]
    write("short.csv", range(85, 92))
    short = "short.csv: has 7 steps, but task.lookback=7 and task.horizon=3 known ones after them are needed\n"
    assert command("predict", "one", "short.csv").err == f"attnx: {short}"
    Path("list.txt").write_text("short.csv\n", encoding="utf-8")
    assert command("predict", "one", "list.txt").err == f"attnx: list.txt:1: {short}"
    output = succeed("evaluate", "one", "task.test=series.csv")
    assert results("one/evaluations/series")["test_examples"] == STEPS - LOOKBACK - HORIZON + 1
    _beats_its_baselines_in_words(Path("one/evaluations/series"), output)
    # All windows forecast as many steps, and none of them is a word.
    assert "errors by column" in output
    assert not Path("one/evaluations/series/by_length.tsv").exists()
    assert not re.search(r"\b(words?|sequences?)\b", output + Path("one/README.md").read_text(encoding="utf-8"))
    assert "made of features" in command("export", "one").err or "numbers" in command("export", "one").err


@pytest.mark.parametrize("forecast", ["direct", "recursive"])
def test_a_missing_target_never_counts(forecast, no_pictures, succeed):
    """Neither in the errors of the model nor in those of forecasts that cost nothing; a's 81st step is read as 80's."""
    write(at_20="2024-01-01 20:00,,,7,20", at_81="2024-01-04 09:00,,5,7,9")
    fit_run([*HISTORY, "task.target_columns=[a,b]", f"task.forecast={forecast}"], "one")
    scores, windows = results("one"), 19 - HORIZON + 1
    with np.load("one/predictions.npz") as arrays:
        written, right = (
            np.stack([arrays[f"{what}_{number}"] for number in range(windows)]).astype(float)
            for what in ("prediction", "reference")
        )
    assert np.isnan(right).sum() == HORIZON  # as many windows hold it
    assert scores["test_own_mse"] == pytest.approx(np.nanmean(np.square(written - right)), rel=1e-4)
    assert scores["test_own_mae"] == pytest.approx(np.nanmean(np.abs(written - right)), rel=1e-4)
    scale = np.array(attnx.open_run("one").target.scale)
    table = np.array([[value(step, 0), value(step, 1)] for step in range(STEPS)], dtype=float)
    table[81] = np.nan, 5
    read = table.copy()
    read[81, 0] = read[80, 0]
    starts = np.arange(78, 78 + windows)
    naive = (table[starts[:, None] + np.arange(HORIZON)] - read[starts - 1][:, None]) / scale
    assert scores["test_naive_mse"] == pytest.approx(np.nanmean(np.square(naive)), rel=1e-4)
    assert all(np.isfinite(number) for name, number in scores.items() if name.startswith("test_"))
    succeed("evaluate", "one")
    again = results("one/evaluations/test")
    assert again["test_mse"] == pytest.approx(scores["test_mse"], rel=1e-4)
    assert draw_forecasts("one") == [Path("one/forecasts.png")]


def lift_targets(by: float) -> Callable[[int], str]:
    """A row of the file, its targets so much higher."""
    return lambda step: f"2024-02-01 {step % 24:02d}:00,{value(step, 0) + by},{value(step, 1) + by},7,{step % 24}"


@pytest.mark.parametrize(
    "model",
    [
        ["model=history", "recipe=attention_rnn", "task.forecast=recursive", "task.known_columns=[hour]"],
        ["model=seq2seq"],
        TRANSFORMER,
    ],
    ids=["history", "seq2seq", "transformer"],
)
def test_last_value_normalization_follows_the_level(model, no_pictures, succeed):
    """What lies 1,000 higher is forecast 1,000 higher, and as it is without; errors are of what was written."""
    write()
    fit_run([*SMALL, *model, "task.target_columns=[a,b]", "task.subtract_last_value=true"], "one")
    scores, windows, run = results("one"), 19 - HORIZON + 1, attnx.open_run("one")
    with np.load("one/predictions.npz") as arrays:
        error = np.stack([arrays[f"prediction_{n}"][:, :2] - arrays[f"reference_{n}"] for n in range(windows)])
    assert scores["test_own_mse"] == pytest.approx(np.square(error).mean(), rel=1e-4)
    forecasts = []
    for by in (0, 1000):
        rows = {f"at_{step}": lift_targets(by)(step) for step in range(LOOKBACK)}
        ahead = {f"at_{step}": f"2024-02-01 {step % 24:02d}:00,,,,{step % 24}" for step in range(LOOKBACK, 10)}
        write("now.csv", range(10 if "task.known_columns=[hour]" in model else LOOKBACK), **rows, **ahead)
        output = succeed("predict", "one", "now.csv")
        forecasts.append(np.array(json.loads(output)))
    np.testing.assert_allclose(forecasts[1], forecasts[0] + 1000, rtol=1e-4)
    if run.config["task"]["forecast"] == "direct":  # the loss is the error: one value is read, predicted and scored
        (row,) = [row for row in table("one/metrics.csv") if row["valid_loss"]]
        assert float(row["valid_loss"]) == pytest.approx(float(row["valid_mse"]), rel=1e-3)


def test_another_file_can_be_tested(no_pictures):
    """All of it takes the place of the last part; its columns must be there, and others may be anything."""
    write()
    write("later.csv", range(23))
    names, *rows = Path("later.csv").read_text(encoding="utf-8").splitlines()
    Path("later.csv").write_text("\n".join([f"{names},weather", *(f"{row},rain" for row in rows)]), encoding="utf-8")
    fit_run([*HISTORY, "task.test=later.csv"], "one")
    assert results("one")["test_examples"] == 23 - LOOKBACK - HORIZON + 1
    names = Path("one/predictions.tsv").read_text(encoding="utf-8")
    assert "2024-01-01 07:00" in names
    Path("other.csv").write_text("time,a\n" + "\n".join(f"{step},{step}" for step in range(23)), encoding="utf-8")
    with pytest.raises(attnx.UserError, match=r"other\.csv: has no column 'b'"):
        fit_run([*HISTORY, "task.test=other.csv"], "two")


def test_a_run_trains_in_double_precision(no_pictures, command):
    write()
    printed = command(*HISTORY, "trainer.precision=64", "trainer.test_examples=3", "folder=one").out
    (line,) = [line for line in printed.splitlines() if line.startswith("step 3/3")]
    (row,) = [row for row in table("one/metrics.csv") if row["valid_loss"]]
    assert f"valid_loss {float(row['valid_loss']):.4g}" in line
    assert results("one")["test_examples"] == 3
    assert len(list(Path("one/alignments").glob("*.npz"))) == 3


@pytest.mark.usefixtures("plain_run")
def test_columns_of_another_file_may_be_reordered(succeed):
    """They are taken by their names, though none was named when it was trained."""
    names, *rows = (line.split(",") for line in Path("series.csv").read_text(encoding="utf-8").splitlines())
    order = [names.index(name) for name in ("hour", "b", "time", "still", "a")]
    Path("turned.csv").write_text(
        "".join(",".join(row[column_index] for column_index in order) + "\n" for row in (names, *rows))
    )
    for name in ("series", "turned"):
        succeed("evaluate", "one", f"task.test={name}.csv")
    turned, same = (results(f"one/evaluations/{name}") for name in ("turned", "series"))
    measured = [name for name in same if name.startswith("test_")]
    assert [turned[name] for name in measured] == [same[name] for name in measured]
    assert "test_mse" in measured


@pytest.mark.usefixtures("plain_run")
def test_forecasts_have_alignments(succeed):
    """A window is tried to see whether there are weights, and a shorter one is none."""
    succeed("predict", "one", "series.csv", "--alignments", "weights.jsonl")
    assert Path("weights.jsonl").read_text(encoding="utf-8").count("weights") > 0


@pytest.mark.usefixtures("plain_run")
@pytest.mark.parametrize(
    ("option", "values", "what"),
    [("lookback", ("7", "8"), "vocabulary/linear.npy"), ("subtract_last_value", ("false", "true"), "target")],
)
def test_the_option_in_which_runs_of_an_ensemble_differ_is_named(option, values, what, refuse):
    shutil.copytree("one", "two")
    own, other = values
    config = Path("two/config.yaml")
    config.write_text(config.read_text(encoding="utf-8").replace(f"{option}: {own}", f"{option}: {other}"))
    if option == "lookback":
        np.save("two/vocabulary/linear.npy", np.zeros((HORIZON, 8)))
    line = refuse("predict", "one", "two", "series.csv")
    assert f"two: its {what} differs from one's (task.{option}={other}, there {own}); the runs" in line


def test_forecasts_are_drawn(monkeypatch):
    """What was looked back on stands before each forecast, and the attended past below."""
    for others in ("draw_attention", "draw_curves"):
        monkeypatch.setattr(f"attnx.reports.build_all.{others}", lambda folder: [])
    write()
    fit_run([*HISTORY, "task.target_columns=[a,b]"], "one")
    folder = Path("one")
    assert (folder / "forecasts.png").is_file()
    assert not (folder / "predictions.png").exists()
    assert "| `forecasts.png` | some test windows" in (folder / "README.md").read_text(encoding="utf-8")
    series = read_test_series(folder / "vocabulary")
    forecasts = read_forecasts(folder, read_run(folder).config["task"], series)
    assert len(forecasts) == 3
    for result in forecasts:
        first = series[0].labels.index(result.name) + 78 - LOOKBACK
        expected = [[value(step, 0), value(step, 1)] for step in range(first - LOOKBACK, first + HORIZON)]
        np.testing.assert_allclose(np.concatenate([result.past, result.truth]), expected)
        assert result.attention is not None
        np.testing.assert_allclose(result.attention.sum(-1), 1, rtol=1e-5)
        # The state of the previous step queries the others.
        assert [bool(result.attention[step, LOOKBACK + step - 1 :].any()) for step in range(HORIZON)] == [
            False
        ] * HORIZON
    assert len(draw_forecast_page(forecasts, ["a", "b"]).axes) == 3 * 3
    assert draw_forecasts(folder) == [folder / "forecasts.png"]


@pytest.mark.parametrize(
    "model",
    [
        ["model=seq2seq", "encoder.hidden_size=19", "decoder.hidden_size=5"],  # so wide that a search folds its values
        TRANSFORMER,
    ],
    ids=["seq2seq", "transformer"],
)
def test_each_series_of_a_group_is_split(no_pictures, model):
    """By the other models, and without times: as many windows as both have."""
    rows = [f"{who},{value(step, 0) + 100 * (who == 'y')}" for step in range(47) for who in "xy"]
    Path("both.csv").write_text("who,a\n" + "\n".join(rows) + "\n", encoding="utf-8")
    plain = [word for word in SMALL if not word.startswith(("task.time_column", "task.split", "task.file"))]
    fit_run([*plain, "task.file=both.csv", "task.group_column=who", "task.split=[29,7,11]", *model], "one")
    assert results("one")["test_examples"] == 2 * (11 - HORIZON + 1)
    names = Path("one/predictions.tsv").read_text(encoding="utf-8")
    assert "x 36" in names
    assert "y 36" in names


def test_all_series_are_cut_at_a_date(no_pictures, succeed):
    """In training and when the run is evaluated; a ratio leaves test rows of x, from 45, before training rows of y."""
    rows = [
        f"{who},2024-01-{1 + step // 24:02d} {step % 24:02d}:00,{value(step, 0)}"
        for who, steps in (("x", range(60)), ("y", range(30, 97)))
        for step in steps
    ]
    Path("both.csv").write_text("\n".join(["who,time,a", *rows]) + "\n", encoding="utf-8")
    plain = [word for word in HISTORY if not word.startswith(("task.split", "task.file"))]
    panel = [*plain, "task.file=both.csv", "task.group_column=who"]
    task = registry.build("task", attnx.compose([*panel, "task.split=2:1:1"])["task"])
    task.load()
    assert (
        "task.split=2:1:1 cuts each series by itself: test rows of x begin at 2024-01-02 21:00, while training rows of "
        "y go on to 2024-01-03 14:00; 'task.split=[2024-01-03 15:00,2024-01-04 09:00]' cuts all at the same times"
    ) in task.notes
    succeed(*panel, "task.split=[2024-01-02 16:00,2024-01-03 02:00]", "folder=two")
    notes = read_run("two").info["notes"]
    assert "task.split=[2024-01-02 16:00,2024-01-03 02:00]: 50 train, 20 valid, 57 test rows of 2 series" in notes
    assert not any("cuts each series by itself" in note for note in notes)
    succeed("evaluate", "two")
    for folder in ("two", "two/evaluations/test"):
        assert results(folder)["test_examples"] == 10 - HORIZON + 1 + 47 - HORIZON + 1


def test_a_table_without_names_is_read(no_pictures, command, refuse, succeed):
    """Columns are named by number, in training, in the run's files, and in predictions."""
    write()
    rows = Path("series.csv").read_text(encoding="utf-8").splitlines()[1:]
    Path("bare.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    plain = [word for word in HISTORY if not word.startswith(("task.time_column", "task.file", "task.split"))]
    overrides = [*plain, "task.file=bare.csv", "task.split=7:1:2", "folder=one"]
    line = refuse(*overrides)
    assert "bare.csv:1: the first row may be data or names of columns" in line
    assert "task.header=false" in line
    columns = ["task.header=false", "task.time_column=1", "task.target_columns=[3,2]", "task.known_columns=[5]"]
    output = succeed(*overrides, *columns)
    # int(97 * 0.7) and int(97 * 0.2) rows, and what is left between
    assert "task.split=7:1:2: rows 1 to 67 train, 68 to 78 valid, 79 to 97 test" in " ".join(output.split())
    run = attnx.open_run("one")
    assert run.target.columns == ("3", "2")
    assert results("one")["test_examples"] == 19 - HORIZON + 1
    expected = command("predict", "one", "bare.csv").out
    assert np.shape(json.loads(expected)) == (HORIZON, 2)
    # Whatever its ending is; a file whose first line is the name of a file is a list.
    Path("bare.txt.gz").write_bytes(gzip.compress(Path("bare.csv").read_bytes()))
    Path("list.txt").write_text("bare.txt.gz\n", encoding="utf-8")
    assert command("predict", "one", "bare.txt.gz").out == expected
    assert command("predict", "one", "list.txt").out == expected


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["task.horizon=30"], "fewer than task.horizon=30"),
        (["task.target_columns=[c]"], "has no column 'c'"),
        (["+task.parts=[61,17,19]"], "parts"),
        (["task.header=false"], "has no column 'time'"),
        (["task.quantiles=[0.1,0.9]"], "the median, 0.5, must be among them"),
        (["task.quantiles=[0.5,0.9,0.5]"], "task.quantiles=[0.5,0.9,0.5]: name each quantile once"),
        (["task.target_columns=[a]", "task.known_columns=[a]"], "is also in task.target_columns"),
        (["task.target_columns=[a,b,a]"], "task.target_columns=[a,b,a]: name each column once"),
        (["task.known_columns=[a,a]"], "task.known_columns=[a,a]: name each column once"),
        (["task.known_columns=[a,b,still,hour]"], "no column is left to forecast"),
        (["encoder.hidden_size=5"], "encoder.hidden_size=5 has no effect beside model=history"),
        (["scope=encoder_decoder"], "model=history has no encoder"),
        (["decoding=beam"], "decoding=beam chooses among symbols"),
    ],
)
def test_a_mistake_is_reported(refuse, sized, overrides, message):
    write()
    assert message in refuse(*sized(*overrides, "folder=one", defaults=HISTORY))


@pytest.mark.parametrize(
    ("metric", "differences", "message"),
    [
        ("test_mse", (-0.012, -0.019, -0.005), "is better than linear: MSE 0.0120 lower (0.0050 to 0.0190)"),
        ("test_corr", (0.31, 0.24, 0.38), "is better than linear: CORR 0.310 higher (0.240 to 0.380)"),
        ("test_corr", (-0.31, -0.38, -0.24), "is worse than linear: CORR 0.310 lower (0.240 to 0.380)"),
        (
            "test_mae",
            (0.002, -0.01, 0.02),
            "does not differ significantly from linear: MAE 0.002 higher (0.010 lower to 0.020 higher)",
        ),
        ("test_size", (5.0, 2.0, 8.0), "differs from linear: size 5.0 higher (2.0 to 8.0)"),
    ],
)
def test_a_verdict_is_worded(metric, differences, message):
    assert baseline_verdict("linear", metric, BaselineDifference(*differences)) == message
