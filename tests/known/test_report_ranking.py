"""The report of written run folders: varying choices, winners with their certainty, and effects."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from attnx.cli.main import run as command
from attnx.config.view import dotted_keys
from attnx.errors import UserError
from attnx.reports.stats.multiple_comparisons import EXAMPLES, SEEDS
from attnx.reports.sweep.comparison import Comparison, comparisons
from attnx.reports.sweep.effects import Effect
from attnx.reports.sweep.evaluated_examples import read_tested, resample_rates
from attnx.reports.sweep.load_runs import load_runs
from attnx.reports.sweep.settings import ABSENT, varied_keys
from attnx.reports.sweep.write import write_report
from attnx.runs.sweep import Sweep, SweepJob
from attnx.sweeps.record import save_sweep

Write = Callable[..., Path]
T_4 = 2.776445  # Student's t of 4 degrees of freedom is farther from zero with a chance of 5 %


def student_p_4(t: float) -> float:
    """The chance that Student's t of 4 degrees of freedom is so far from zero (Abramowitz and Stegun 26.7.4)."""
    angle = math.atan(t / 2)
    return 1 - math.sin(angle) * (1 + math.cos(angle) ** 2 / 2)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a run folder: ``write("a", 7.5, seed=1, scorer="dot")``; lists of edits are its predictions."""

    def write_run(
        name: str, value: float | None = None, seed: int = 1, edits: list[int] | None = None, **info: Any
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        kinds = ("scorer", "scope", "query", "optimizer", "task")
        choices = {key: node for key in kinds if (node := info.pop(key, None))}
        config = {key: {"name": node} if isinstance(node, str) else node for key, node in choices.items()}
        (folder / "config.yaml").write_text(yaml.safe_dump({"seed": seed, "name": name, **config}))
        metric, results = info.pop("metric", "per"), info.pop("results", {})
        status = "failed" if value is None else "finished"
        run_info = {"format": 1, "status": status, "monitor": f"valid_{metric}", "maximize": False, "created": "2031"}
        (folder / "run.json").write_text(json.dumps({**run_info, **info}))
        if value is not None:
            (folder / "results.json").write_text(json.dumps({f"test_{metric}": value, "test_examples": 5, **results}))
        if edits is not None:
            words = info.get("words", range(len(edits)))
            lines = [f"{word}\tA\tA\t{edit}\t-1" for word, edit in zip(words, edits, strict=True)]
            head = "source\tprediction\treferences\tedits\tlog_probability"
            (folder / "predictions.tsv").write_text("\n".join([head, *lines]) + "\n")
        return folder

    return write_run


def only(folders: list[Path]) -> Comparison:
    (result,) = comparisons(load_runs(folders))
    return result


def names(actual: Comparison) -> list[str]:
    return [actual.settings[row.setting].name for row in actual.rankings[0].rows]


def test_an_unreadable_run_does_not_hide_the_readable_ones(write: Write, tmp_path: Path) -> None:
    write("whole", 7.0)
    write("newer", 7.0, format=999)
    newer, complete = load_runs([tmp_path])
    assert (complete.status, complete.results["test_per"]) == ("finished", 7.0)
    assert newer.status == "unreadable"
    assert "newer" in newer.error
    with pytest.raises(UserError, match="newer"):
        load_runs([tmp_path / "newer"])


def test_a_folder_contains_sweeps_and_single_runs(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``multirun`` does; the report lies in it, and so does what it names."""
    monkeypatch.chdir(tmp_path)
    write("multirun/scorers/0", 7.0, scorer="dot")
    write("multirun/runs/mine", 8.0, scorer="additive")
    write("multirun/runs/broken", None, error="it fell over")
    save_sweep(Sweep(Path("multirun/scorers"), "attnx -m", [], jobs=[SweepJob(0, ["scorer=dot"], "finished")]))
    assert {str(run.path) for run in load_runs(["multirun"])} == {
        "multirun/scorers/0",
        "multirun/runs/mine",
        "multirun/runs/broken",
    }
    assert {run.path.name for run in load_runs(["multirun/runs"])} == {"mine", "broken"}
    page, text, *_ = write_report(["multirun"])
    assert page == Path("multirun/report.html")
    assert "3 runs: 1 failed, 2 finished." in text.read_text(encoding="utf-8")
    assert '"multirun/runs/mine"' in page.read_text(encoding="utf-8")
    Path("multirun/empty/runs").mkdir(parents=True)
    with pytest.raises(UserError, match="neither a run nor a sweep, and holds none"):
        load_runs(["multirun/empty"])


def three(write: Write, better: tuple[float, ...] = (7.0, 7.2, 7.4), **fields: float) -> list[Path]:
    """Settings with three seeds each: ``dot`` as given, others so much behind in each seed."""
    folders = [write(f"dot{seed}", value, seed, scorer="dot") for seed, value in enumerate(better)]
    for name, gaps in fields.items():
        values = zip(better, gaps, strict=True)  # type: ignore[call-overload]
        folders += [write(f"{name}{seed}", value + gap, seed, scorer=name) for seed, (value, gap) in enumerate(values)]
    return folders


def test_varying_knobs_are_found() -> None:
    """A part by its name, a knob only where runs with the same part differ in it, a set by its names, never a seed."""
    token, same = {"token": {"width": 3}}, {"task": {"name": "g2p"}}
    runs: list[dict[str, Any]] = [
        {"seed": 1, "scorer": {"name": "mlp", "depth": 1, "bias": True}, "query": token, **same},
        {"seed": 2, "scorer": {"name": "mlp", "depth": 2, "bias": True}, "query": token, **same},
        {"seed": 3, "scorer": {"name": "dot"}, "query": {**token, "last_context": {}}, **same},
    ]
    settings = [{key: value for key, value in dotted_keys(run).items() if key != "seed"} for run in runs]
    assert varied_keys(settings) == ["scorer", "scorer.depth", "query"]
    assert [run["query"] for run in settings] == ["token", "token", "[token,last_context]"]


def test_runs_that_differ_by_their_seed_are_one_setting(write: Write) -> None:
    comparison = only(three(write, (7.0, 7.2, 7.4), additive=(0.3, 0.4, 0.5)))
    assert comparison.keys == ["scorer"]
    assert names(comparison) == ["dot", "additive"]
    first, second = comparison.rankings[0].rows
    assert (first.mean, first.sd) == (pytest.approx(7.2), pytest.approx(0.2))
    assert first.difference is None
    # Behind by 0.4, with variances 0.04 and 0.09, pooled 0.065 with 4 degrees of freedom.
    assert second.difference is not None
    assert (second.difference.difference, second.difference.test) == (pytest.approx(0.4), POOLED)
    assert second.difference.p == pytest.approx(student_p_4(0.4 / math.sqrt(0.065 * 2 / 3)), abs=1e-5)
    assert second.difference.high - 0.4 == pytest.approx(T_4 * math.sqrt(0.065 * 2 / 3), rel=1e-4)


def test_knobs_that_follow_from_the_data_file_are_not_listed() -> None:
    def run(train: str, data: str, scorer: str = "dot") -> dict[str, str]:
        return {"task.train": train, "training data": data, "scorer": scorer}

    assert varied_keys([run("a.tsv", "data 1"), run("b.tsv", "data 2")]) == ["task.train"]
    # The file was changed between two runs, so that what they differ in is not their scorer alone.
    changed = [run("a.tsv", "data 1"), run("a.tsv", "data 2", "mlp")]
    assert varied_keys(changed) == ["scorer", "training data"]


def test_a_winner_is_named(write: Write) -> None:
    """Variances 0.04 and 0.09 again, so an error of 0.2082 with 4 degrees of freedom; the gap is 1."""
    comparison = only(three(write, additive=(0.9, 1.0, 1.1)))
    reach = T_4 * math.sqrt(0.065 * 2 / 3)
    p = student_p_4(1 / math.sqrt(0.065 * 2 / 3))
    assert comparison.rankings[0].verdict == [
        "**dot** won: PER 7.20 ± 0.20 % over 3 seeds, 1.00 better than **additive** "
        f"(95 % interval {1 - reach:.2f} to {1 + reach:.2f}, p = {p:.3f}).",
        "It is significantly better (p < 0.05) than the other setting. Test: Student's t over seeds, pooled variance "
        "(4 degrees of freedom).",
    ]


def test_an_equally_good_setting_prevents_a_winner(write: Write) -> None:
    """Each has a variance of 0.04, so the error is 0.1633 with 6 degrees of freedom; Dunnett's tables say 2.86 of two.

    ``additive`` is 1 behind, 6.1 errors; ``mlp`` 0.4, 2.4 errors: Student's t alone would call that sure (2.447 is).
    """
    comparison = only(three(write, additive=(1.0, 1.0, 1.0), mlp=(0.4, 0.4, 0.4)))
    rows = {comparison.settings[row.setting].name: row.difference for row in comparison.rankings[0].rows}
    assert rows["dot"] is None
    assert rows["additive"] is not None
    assert rows["additive"].p < 0.01
    assert rows["additive"].high - 1 == pytest.approx(2.86 * math.sqrt(0.04 * 2 / 3), rel=2e-3)
    assert rows["mlp"] is not None
    assert rows["mlp"].p > 0.05
    first, second, third = comparison.rankings[0].verdict
    assert first.startswith(
        "No winner: **dot** is first with PER 7.20 ± 0.20 % over 3 seeds, but not significantly better than "
        "**mlp** (0.40 behind, p = 0.0"
    )
    assert "than 1 of the other 2" in second
    assert "Dunnett's, of each setting against all settings over seeds, pooled variance (6" in second
    assert re.match(r"About \d+ seeds \(\d+ to \d+, 95 % interval\) would separate the first two", third)


def test_settings_with_unequal_spread_have_their_own_variances(write: Write) -> None:
    """``wild`` goes from 10 to 90: pooled, that variance would hide that the other two differ by ten of their sds."""
    values = {
        "dot": (7.0, 7.1, 7.2, 7.3, 7.4),
        "mlp": (8.0, 8.1, 8.2, 8.3, 8.4),
        "wild": (10.0, 12.0, 50.0, 88.0, 90.0),
    }
    folders = [
        write(f"{name}{n}", value, n, scorer=name) for name, group in values.items() for n, value in enumerate(group)
    ]
    comparison = only(folders).rankings[0]
    assert comparison.pooled.outlying == {2}
    near, wild = (row.difference for row in comparison.rows[1:])
    assert near is not None
    assert wild is not None
    assert (near.test, wild.test) == (POOLED, UNEQUAL)
    assert near.p < 0.001
    assert comparison.verdict[2].startswith("Seeds differ far more in **wild** than in the rest (Cochran's test)")
    assert "No winner" in comparison.verdict[0]  # what is wild may be as good for all that five seeds say


def test_a_setting_with_one_seed_uses_the_pooled_spread(write: Write) -> None:
    """Its job failed with the other seeds. Variances 0.04 of three seeds, so of the gap 0.04 (1 + 1/3)."""
    comparison = only([*three(write, additive=(1.0, 1.0, 1.0)), write("once", 9.2, 0, scorer="mlp")])
    difference = {comparison.settings[row.setting].name: row.difference for row in comparison.rankings[0].rows}["mlp"]
    assert difference is not None
    assert difference.difference == pytest.approx(2.0)
    assert difference.p == pytest.approx(dunnett_sf(2 / math.sqrt(0.04 * 4 / 3), [3, 3], 1, 4))


def test_runs_of_unequal_steps_are_ranked_with_a_warning(write: Write, tmp_path: Path) -> None:
    """More steps, less error: the report states how far the steps alone order the runs."""
    values = {"dot": (7.0, 7.2), "mlp": (8.0, 8.3), "cosine": (9.0, 9.1)}
    folders = [
        write(f"{name}{seed}", value, seed, scorer=name, results={"steps": 300 - 20 * place - seed})
        for place, (name, group) in enumerate(values.items())
        for seed, value in enumerate(group)
    ]
    first, *_ = only(folders).rankings[0].verdict
    assert first == (
        "The runs did not train for the same number of steps (259 to 300): a difference may come from the training, "
        "not from the settings (steps and PER: rank correlation -1.00)."
    )
    _, text, table, tex, *_ = write_report(folders, tmp_path / "out")
    assert first in text.read_text(encoding="utf-8")
    assert "| 7.10 | 0.14 | 2 | 299 to 300 |" in text.read_text(encoding="utf-8")
    assert f"% {first}" in tex.read_text(encoding="utf-8")
    with table.open(encoding="utf-8", newline="") as file:
        assert [row["steps"] for row in csv.DictReader(file)] == ["299.5", "279.5", "259.5"]


def test_runs_of_equal_time_are_ranked(write: Write) -> None:
    folders = [
        write(name, value, scorer=name, budget="time", results={"steps": steps})
        for name, value, steps in (("dot", 7.0, 300), ("mlp", 8.0, 200))
    ]
    first, *_ = only(folders).rankings[0].verdict
    assert first.startswith("All runs had the same training time, but not the same number of steps (200 to 300): ")
    equal = [write(f"{name}-same", 7.0, scorer=name, results={"steps": 300}) for name in ("dot", "mlp")]
    assert "steps" not in only(equal).rankings[0].verdict[0]


def test_digits_follow_from_the_intervals(write: Write) -> None:
    """Errors of 0.0886 and of 0.0912, two seeds each: a mean is known to 0.0009, of those of 600 to 430."""
    small = {"dot": (0.0884, 0.0888), "mlp": (0.0910, 0.0914)}
    large = {"dot": (500.0, 700.0), "mlp": (900.0, 1100.0)}
    for values, expected in ((small, "0.08860 ± 0.00028"), (large, "600 ± 141")):
        folders = [
            write(f"{name}{value}", value, seed, scorer=name, metric="mse")
            for name, group in values.items()
            for seed, value in enumerate(group)
        ]
        assert f"MSE {expected} over 2 seeds" in only(folders).rankings[0].verdict[0]


def test_different_training_data_are_reported(write: Write) -> None:
    folders = [write(name, 7.0, scorer=name, fingerprint=name) for name in ("dot", "mlp")]
    assert only(folders).rankings[0].verdict[0].startswith("The runs were trained on 2 different data sets: ")


def test_with_one_seed_test_examples_are_compared(write: Write) -> None:
    """100 of 400 words only the second has wrong: 25 points, with an error of 100 sqrt(0.25 0.75 / 400)."""
    folders = [
        write("one", 0.0, scorer="dot", edits=[0] * 400, metric="wer"),
        write("two", 25.0, scorer="additive", edits=[3] * 100 + [0] * 300, metric="wer"),
    ]
    comparison = only(folders)
    gap = comparison.rankings[0].rows[1].difference
    assert gap is not None
    assert (gap.difference, gap.test) == (25, EXAMPLES)
    assert gap.high - gap.difference == pytest.approx(1.96 * 100 * math.sqrt(0.25 * 0.75 / 400), rel=0.1)
    first, second, third = comparison.rankings[0].verdict
    assert first.startswith(
        "The weights of **dot** score best on these test examples: WER 0.0 % with one seed, 25.0 better than **add"
    )
    assert "paired bootstrap over the test examples" in second
    assert "compares the trained weights, not the settings: other seeds may give another order" in third
    assert "won" not in " ".join(comparison.rankings[0].verdict)


def test_a_difference_on_examples_may_be_uncertain(write: Write) -> None:
    """Of four words one has one wrong: no seed varies much, but other words may well be read otherwise."""
    edits = {"dot": ([0, 0, 0, 0], [0, 0, 0, 0]), "mlp": ([0, 0, 0, 1], [0, 0, 0, 1])}
    folders = [
        write(f"{name}{seed}", 100 * sum(words) / 4 + 0.001 * seed, seed, edits=words, scorer=name, metric="wer")
        for name, both in edits.items()
        for seed, words in enumerate(both)
    ]
    comparison = only(folders).rankings[0]
    assert comparison.rows[1].difference is not None
    assert comparison.rows[1].difference.low > 24
    assert comparison.rows[1].both_sources is not None
    # One word in four, drawn four times: none with a chance of 32 %, more than three with one of 0.4 %.
    assert comparison.rows[1].both_sources == (pytest.approx(0, abs=0.01), pytest.approx(75, abs=0.01))
    assert comparison.verdict[0].startswith("**dot** won on these test examples: ")
    assert "over other seeds and other test examples" in comparison.verdict[2]


def test_words_that_both_get_wrong_do_not_matter(write: Write) -> None:
    """Wrong in the same 200 words and each in 20 others: pairing leaves only these, and they are even."""
    first, two = [1] * 200 + [1] * 20 + [0] * 180, [1] * 200 + [0] * 20 + [1] * 20 + [0] * 160
    folders = [
        write(str(n), 55.0, scorer=s, edits=e, metric="wer") for n, (s, e) in enumerate([("dot", first), ("mlp", two)])
    ]
    gap = only(folders).rankings[0].rows[1].difference
    assert gap is not None
    assert (gap.difference, gap.p) == (0, 1)
    assert gap.high == pytest.approx(1.96 * 100 * math.sqrt(40) / 400, rel=0.1)
    assert only(folders).rankings[0].verdict[0].startswith("No winner: ")


def test_saved_draws_are_used_where_scores_cannot_be_recomputed(write: Write) -> None:
    """A BLEU of other draws, the same for both; of a run that was tested in another order they are others."""
    drawn, random = {}, np.random.default_rng(0)
    common = random.normal(0, 3, 2000)  # what both have in common is paired away
    for name, value, order in (("dot", 30.0, "pqr"), ("mlp", 28.0, "pqr"), ("concat", 29.0, "qpr")):
        folder = write(name, value, scorer=name, edits=[1, 1, 1], words=order, metric="bleu", maximize=True)
        drawn[name] = value + common + random.normal(0, 0.5, 2000)
        np.savez(folder / "resampled.npz", test_bleu=drawn[name])
    folders = [Path(folder) for folder in (folder.parent / "dot", folder.parent / "mlp", folder.parent / "concat")]
    first, second = only(folders[:2]).rankings[0].rows
    assert first.difference is None
    assert second.difference is not None
    assert (second.difference.difference, second.difference.test) == (2, EXAMPLES)
    assert second.difference.high - 2 == pytest.approx(1.96 * np.std(drawn["dot"] - drawn["mlp"], ddof=1), rel=0.1)
    first = only(folders[:2]).rankings[0].verdict[0]
    assert first.startswith("The weights of **dot** score best on these test examples: BLEU 30.0")
    assert [row.difference for row in only(folders).rankings[0].rows] == [None] * 3
    (folders[0] / "resampled.npz").write_bytes(b"no archive")
    assert [row.difference for row in only(folders[:2]).rankings[0].rows] == [None] * 2


def test_one_seed_without_predictions_gives_no_verdict(write: Write) -> None:
    comparison = only([write("one", 7.0, scorer="dot"), write("two", 9.0, scorer="mlp")])
    first, second = comparison.rankings[0].verdict
    assert first == (
        "**dot** is first with PER 7.00 % with one seed, but the differences cannot be tested: there is one seed each, "
        "and no predictions to count this metric from."
    )
    assert second == "Train each setting with several seeds, `seed=1,2,3`."


def test_predictions_that_contradict_the_score_are_not_used(write: Write) -> None:
    folders = [
        write(str(n), value, scorer=s, edits=[0] * 5, metric="wer")
        for n, (s, value) in enumerate([("dot", 0.0), ("mlp", 9.0)])
    ]
    assert only(folders).rankings[0].rows[1].difference is None


def test_one_setting_has_no_comparison(write: Write) -> None:
    comparison = only([write(str(seed), value, seed, scorer="dot") for seed, value in ((1, 7.0), (2, 9.0))])
    assert comparison.rankings[0].verdict == [
        "There is only one setting, so there is nothing to compare: PER 8 ± 1 % over 2 seeds."
    ]


def test_a_metric_may_be_maximized(write: Write) -> None:
    folders = [
        write(f"{name}{seed}", value, seed, scorer=name, metric="bleu", maximize=True)
        for name, values in {"dot": (30.0, 31.0), "mlp": (25.0, 26.5)}.items()
        for seed, value in enumerate(values)
    ]
    comparison = only(folders)
    assert names(comparison) == ["dot", "mlp"]
    assert comparison.rankings[0].rows[1].difference is not None
    assert comparison.rankings[0].rows[1].difference.difference == pytest.approx(4.75)


def test_runs_on_different_test_data_are_not_compared(write: Write, tmp_path: Path) -> None:
    """The same words in another order are the same data; other words are others."""
    folders = [
        write("a", 0.0, scorer="dot", edits=[0, 0], words=["p", "q"], metric="wer"),
        write("b", 50.0, scorer="mlp", edits=[0, 1], words=["q", "p"], metric="wer"),
        write("c", 0.0, scorer="mlp", edits=[0, 0], words=["p", "r"], metric="wer"),
    ]
    result = comparisons(load_runs(folders))
    assert [len(item.settings) for item in result] == [2, 1]
    page, text, *_ = write_report(folders, tmp_path / "out")
    assert "The runs have 2 different tests, which are not compared with each other." in text.read_text()
    assert page.is_file()


def test_the_later_of_two_equal_runs_counts(write: Write) -> None:
    folders = [write("old", 9.0, created="2030", scorer="dot"), write("new", 7.0, created="2032", scorer="dot")]
    comparison = only(folders)
    assert [row.values for row in comparison.rankings[0].rows] == [{1: 7.0}]
    assert comparison.superseded == 1


def test_the_later_run_may_have_an_earlier_clock(write: Write) -> None:
    """21:00 two hours east of Greenwich is before 20:00 there."""
    times = {"old": "2031-11-25T21:00:00+0200", "new": "2031-11-25T20:00:00+0000"}
    folders = [write(name, 9.0 if name == "old" else 7.0, created=time) for name, time in times.items()]
    assert [row.values for row in only(folders).rankings[0].rows] == [{1: 7.0}]


def test_equal_numbers_are_one_value(write: Write) -> None:
    folders = [
        write(f"{seed}", 7.0 + seed, seed, optimizer={"name": "adam", "lr": 0.5, "decay": rate})
        for rate, seed in ((0, 1), (0.0, 2))
    ]
    (setting,) = only(folders).settings
    assert len(setting.runs) == 2


def test_a_setting_without_the_metric_is_named(write: Write) -> None:
    """As of a perplexity that is infinite: its runs have finished, and no rank."""
    folders = [*three(write), *(write(f"nothing{seed}", 0.0, seed, scorer="cosine") for seed in (1, 2))]
    for seed in (1, 2):
        (folders[0].parent / f"nothing{seed}" / "results.json").write_text('{"test_per": null, "test_examples": 5}')
    comparison = only(folders)
    assert "**cosine**" not in comparison.rankings[0].verdict[0]
    assert "Not ranked, since PER is no number: **cosine**." in comparison.rankings[0].verdict


def test_a_folder_that_is_being_deleted_is_no_run(write: Write, tmp_path: Path) -> None:
    write("all/0", 7.0)
    write("all/.1.0011aabb.deleted", 5.0, 2)
    assert [run.path.name for run in load_runs([tmp_path / "all"])] == ["0"]


def test_small_values_keep_their_digits(write: Write) -> None:
    folders = [write(name, value, scorer=name, metric="mse") for name, value in (("dot", 1.1e-6), ("mlp", 2.2e-5))]
    (first, _), format_value = only(folders).rankings[0].rows, only(folders).rankings[0].metric.format
    assert float(format_value(first.mean)) == pytest.approx(1.1e-6)


def test_a_row_of_latex_may_begin_with_a_bracket(write: Write, tmp_path: Path) -> None:
    """Which the end of the row above would take for its argument."""
    queries = {
        "a": {"token": {"name": "token"}, "current_state": {"name": "current_state"}},
        "b": {"token": {"name": "token"}},
    }
    folders = [
        write(f"{name}{seed}", 7.0 + seed + (name == "a"), seed, query=query)
        for name, query in queries.items()
        for seed in (1, 2)
    ]
    write_report([str(folder) for folder in folders], tmp_path / "out")
    lines = (tmp_path / "out" / "report.tex").read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if line.startswith("[")]
    assert [line for line in lines if line.startswith("{}[")]


def test_only_certain_results_are_bold_and_names_are_escaped(write: Write, tmp_path: Path) -> None:
    folders = three(write, additive=(0.1, 0.1, 0.1))
    folders += [write("odd", 7.0, 0, scorer=r"a_b & 50% {\\input{x}} ~^#$<")]
    text = write_report(folders, tmp_path / "out")[3].read_text(encoding="utf-8")
    assert "textbf" not in text
    assert (
        r"a\_b \& 50\% \{\textbackslash{}\textbackslash{}input\{x\}\} \textasciitilde{}\textasciicircum{}\#\$$<$ & "
        in text
    )


def level_means(effects: list[Effect]) -> dict[str, dict[str, float | None]]:
    return {effect.name: {level.value: level.mean for level in effect.levels} for effect in effects}


def test_the_effect_of_a_choice_averages_over_the_other_choices(write: Write) -> None:
    """Two seeds, one above and one below by 1: a variance of 2, pooled over four settings, so 4 degrees of freedom.

    A setting's mean has variance 1, the mean of two of them 1/2; t is 2.776445 from tables.
    """
    values = {("dot", "global"): 1, ("dot", "local"): 3, ("mlp", "global"): 5, ("mlp", "local"): 11}
    folders = [
        write(f"{a}-{b}-{seed}", 10 + value + side, seed, scorer=a, scope=b)
        for ((a, b), value), (seed, side) in product(values.items(), ((1, -1), (2, 1)))
    ]
    effects = only(folders).rankings[0].effects
    assert level_means(effects) == {
        "scorer": {"dot": pytest.approx(12), "mlp": pytest.approx(18)},
        "scope": {"global": pytest.approx(13), "local": pytest.approx(17)},
    }
    (pair,) = only(folders).rankings[0].interactions
    assert (pair.names, pair.test.f) == (("scorer", "scope"), pytest.approx(8 / 2))
    assert pair.values is not None
    assert pair.deviation is not None
    # Where dot meets global, or mlp local, it is 1 more than each adds by itself; where not, 1 less.
    assert pair.deviation[0] == pytest.approx(1 if pair.values in {("dot", "global"), ("mlp", "local")} else -1)
    text = write_report(folders)[1].read_text(encoding="utf-8")
    assert f"| {', '.join(pair.values)}: {pair.deviation[0]:.1f} (" in text
    dot = effects[0].levels[0]
    assert dot.low is not None
    assert dot.mean is not None
    assert dot.mean - dot.low == pytest.approx(2.776445 * math.sqrt(1 / 2), rel=1e-5)


def test_effects_are_tables(write: Write, tmp_path: Path) -> None:
    """The CSV has what the report's object has; in LaTeX a choice is named once, and signs are escaped."""
    values = {("dot", "global"): 1, ("dot", "a_b"): 3, ("mlp", "global"): 5, ("mlp", "a_b"): 11}
    folders = [
        write(f"{a}-{b}-{seed}", 10 + value + side, seed, scorer=a, scope=b)
        for ((a, b), value), (seed, side) in product(values.items(), ((1, -1), (2, 1)))
    ]
    main = only(folders).rankings[0]
    files = {path.name: path.read_text(encoding="utf-8") for path in write_report(folders, tmp_path / "out")}
    rows = list(csv.DictReader(files["report.effects.csv"].splitlines()))
    assert [(row["effect"], row["choice"], row["value"]) for row in rows] == [
        *(("main", effect.name, level.value) for effect in main.effects for level in effect.levels),
        ("interaction", "scorer by scope", " by ".join(main.interactions[0].values or ())),
    ]
    test = main.effects[0].test
    assert test is not None
    assert float(rows[0]["f"]) == pytest.approx(test.f)
    assert float(rows[1]["adjusted_p"]) == pytest.approx(test.adjusted_p, rel=1e-5)
    assert [float(row["mean"]) for row in rows[:2]] == pytest.approx([12, 18])
    assert float(rows[1]["behind"]) == pytest.approx(6)
    assert float(rows[-1]["p"]) == pytest.approx(main.interactions[0].test.p, rel=1e-5)
    ranking, effects = files["report.tex"].split("\n\n")
    assert ranking.count(r"\begin{tabular}") == effects.count(r"\begin{tabular}{llrrrrrr}") == 1
    assert [line for line in effects.splitlines() if re.match(r"scorer & dot & 12\.0 & \[.* & 2 ", line)]
    assert [line for line in effects.splitlines() if re.match(r" & mlp & 18\.0 & \[.* & 2 ", line)]
    assert r"a\_b" in effects
    assert "Significant interactions" in effects or "No interaction is significant." in effects


def test_a_missing_cell_of_a_grid_is_estimated(write: Write) -> None:
    """Local adds 2, mlp adds 5: so does the fourth, which is missing. Plain means would make it 6 for mlp."""
    values = {("dot", "global"): 1.0, ("dot", "local"): 3.0, ("mlp", "global"): 6.0}
    folders = [write(f"{a}-{b}", value, scorer=a, scope=b) for (a, b), value in values.items()]
    assert level_means(only(folders).rankings[0].effects) == {
        "scorer": {"dot": pytest.approx(2), "mlp": pytest.approx(7)},
        "scope": {"global": pytest.approx(3.5), "local": pytest.approx(5.5)},
    }


def test_choices_that_always_change_together_are_one(write: Write) -> None:
    folders = [
        write(str(n), value, scorer=a, scope=b)
        for n, (a, b, value) in enumerate([("dot", "global", 1.0), ("mlp", "local", 3.0)])
    ]
    expected = {"dot, global": pytest.approx(1), "mlp, local": pytest.approx(3)}
    assert level_means(only(folders).rankings[0].effects) == {"scorer, scope": expected}


def test_confounded_effects_are_not_reported(write: Write) -> None:
    """Each scorer was tried with scopes of its own, so nothing parts its share from theirs."""
    grid = [("dot", "a"), ("dot", "b"), ("mlp", "c"), ("mlp", "d")]
    folders = [write(str(n), float(n), scorer=scorer, scope=scope) for n, (scorer, scope) in enumerate(grid)]
    effects = level_means(only(folders).rankings[0].effects)
    assert set(effects["scorer"].values()) == set(effects["scope"].values()) == {None}


def test_a_knob_of_one_part_belongs_to_that_part(write: Write) -> None:
    scorers: list[Any] = ["dot", {"name": "mlp", "depth": 1}, {"name": "mlp", "depth": 2}]
    comparison = only([write(str(n), float(n), scorer=scorer) for n, scorer in enumerate(scorers)])
    assert [setting.values for setting in comparison.settings] == [("dot", ABSENT), ("mlp", "1"), ("mlp", "2")]
    assert [setting.name for setting in comparison.settings] == ["dot", "mlp, depth=1", "mlp, depth=2"]
    assert level_means(comparison.rankings[0].effects) == {
        "scorer, depth": {"dot": pytest.approx(0), "mlp, depth=1": pytest.approx(1), "mlp, depth=2": pytest.approx(2)}
    }


def test_a_baseline_without_the_parts_is_ranked_and_has_no_effects(write: Write) -> None:
    """Two scorers by two scopes, and a setting without either, far behind: means are those of the grid alone."""
    values = {("dot", "global"): 1.0, ("dot", "local"): 3.0, ("mlp", "global"): 6.0, ("mlp", "local"): 8.5}
    grid = [write(f"{a}-{b}", value, scorer=a, scope=b) for (a, b), value in values.items()]
    comparison = only([*grid, write("none", 90.0)])
    main = comparison.rankings[0]
    assert [len(row.values) for row in main.rows] == [1] * 5
    assert main.effects == only(grid).rankings[0].effects
    assert level_means(main.effects)["scorer"] == {"dot": pytest.approx(2), "mlp": pytest.approx(7.25)}
    assert main.effects_summary[-1] == (
        "Left out of the effects, for want of a part that most settings have: **default**."
    )


def test_a_value_of_a_single_setting_has_no_effect(write: Write) -> None:
    """Beside a grid of two scorers by two scopes, one setting has a third scorer, and one has both a fourth and a third
    scope. Without a grid, values of single settings are all there is."""
    values = {("dot", "global"): 1.0, ("dot", "local"): 3.0, ("mlp", "global"): 6.0, ("mlp", "local"): 8.5}
    grid = [write(f"{a}-{b}", value, scorer=a, scope=b) for (a, b), value in values.items()]
    single = [write("c-global", 50.0, scorer="cosine", scope="global"), write("g-far", 70.0, scorer="gmm", scope="far")]
    main = only([*grid, *single]).rankings[0]
    assert main.effects == only(grid).rankings[0].effects
    assert main.effects_summary[-1] == (
        "Left out of the effects, for having a value that no other setting has: **cosine, global**; **gmm, far**."
    )
    changes = only([grid[0], grid[1], single[0]]).rankings[0]
    assert list(level_means(changes.effects)["scorer"]) == ["dot", "cosine"]


def test_many_numeric_levels_are_grouped(write: Write) -> None:
    """Twelve rates, as a search tries them: three in each quarter."""
    folders = [write(str(n), float(n // 3), optimizer={"name": "adam", "lr": (n + 1) / 100}) for n in range(12)]
    (effect,) = only(folders).rankings[0].effects
    assert [(level.mean, level.settings) for level in effect.levels] == [(pytest.approx(n), 3) for n in range(4)]


def rate(tested: Any, metric: str) -> float | None:
    rates = resample_rates([tested], metric, samples=1)
    return rates and float(rates[0][0])


def test_rates_are_recomputed_per_language(tmp_path: Path) -> None:
    """Of aaa one word in two is wrong, 1 edit in 4 symbols; of bbb none."""
    lines = [
        "source\tprediction\treferences\tedits\tlog_probability\ttag",
        "x\tA\tA B\t1\t-1\taaa",
        "y\tA B\tA B\t0\t-1\taaa",
    ]
    (tmp_path / "predictions.tsv").write_text("\n".join([*lines, "z\tA\tA | B C\t0\t-1\tbbb"]) + "\n")
    tested = read_tested(tmp_path)
    assert tested is not None
    expected = {
        "per": 100 / 5,
        "wer": 100 / 3,
        "per_aaa": 25,
        "wer_macro": 25,
        "symbol_error_rate": 20,
        "per_macro": 12.5,
    }
    assert {name: rate(tested, name) for name in expected} == pytest.approx(expected)
    assert rate(tested, "bleu") is None
    assert rate(tested, "per_ccc") is None


def sweep_of(folder: Path, jobs: list[dict[str, Any]]) -> Path:
    record = {
        "format": 1,
        "name": folder.name,
        "command": "attnx -m",
        "overrides": [],
        "status": "failed",
        "jobs": jobs,
    }
    (folder / "sweep.json").write_text(json.dumps(record))
    return folder


def test_unfinished_runs_are_listed_and_counted(write: Write, tmp_path: Path) -> None:
    """In a sweep, one job done, one failed, one that never began; and a loose run that was cut off beside it."""
    done, failed = write("s/0", 7.0, scorer="dot"), write("s/1", scorer="mlp")
    (failed / "log.txt").write_text("Traceback")
    jobs = [{"index": n, "overrides": [f"scorer={name}"]} for n, name in enumerate(["dot", "mlp", "cosine"])]
    states = [{"status": "finished"}, {"status": "failed", "error": "the loss is not finite"}, {"status": "waiting"}]
    sweep = sweep_of(done.parent, [job | state for job, state in zip(jobs, states, strict=True)])
    loose = write("loose", scorer="mlp", status="interrupted")
    page, text, table, *_ = write_report([sweep, loose, sweep], tmp_path / "here.html")
    assert [path.name for path in (page, text, table)] == ["here.html", "here.md", "here.csv"]
    lines = text.read_text().splitlines()
    assert "4 runs: 1 finished, 1 failed, 1 waiting, 1 interrupted." in lines
    assert f"- scorer=mlp: failed: the loss is not finite; see `{failed / 'log.txt'}`" in lines
    assert "- scorer=cosine: waiting" in lines
    assert "- loose: interrupted" in lines


def test_an_unfinished_job_is_of_the_setting_that_its_overrides_say(write: Write) -> None:
    """A list of one name is that name, which is what a configuration has."""
    queries = {0: "token", 1: "last_context"}
    done = [write(f"s/{n}", 7.0 + n, query={name: {}}) for n, name in queries.items()]
    jobs = [{"index": n, "overrides": [f"query={name}", "seed=1"], "status": "finished"} for n, name in queries.items()]
    waiting = {"index": 2, "overrides": ["query=[token]", "seed=2"], "status": "waiting"}
    settings = only([sweep_of(done[0].parent, [*jobs, waiting])]).settings
    assert [setting.unfinished_seeds for setting in settings] == [[2], []]


def test_failures_of_a_setting_are_counted(write: Write, tmp_path: Path) -> None:
    """One seed of three failed, and all seeds of another setting; a third task's failure is not this comparison's."""
    values = {"dot": (7.0, 7.5, None), "cosine": (8.0, 8.1, 8.2), "mlp": (None, None, None)}
    jobs = []
    for name, results in values.items():
        for seed, value in enumerate(results, start=1):
            write(f"s/{len(jobs)}", value, seed, scorer=name, task="g2p")
            status = {"status": "failed", "error": "not finite"} if value is None else {"status": "finished"}
            jobs.append({"index": len(jobs), "overrides": [f"scorer={name}", f"seed={seed}"], **status})
    foreign = write("foreign", None, 5, scorer="dot", task="translation")
    files = {path.suffix: path for path in write_report([sweep_of(tmp_path / "s", jobs), foreign], tmp_path / "out")}
    lines = files[".md"].read_text(encoding="utf-8").splitlines()
    assert [line.split(" | ")[1::3][:2] for line in lines if re.match(r"\| \d ", line)] == [
        ["dot", "2 of 3"],
        ["cosine", "3"],
    ]
    assert "- scorer=dot seed=3: failed: not finite" in lines
    assert "- scorer=mlp: failed with 3 seeds (1, 2, 3): not finite" in lines
    with (tmp_path / "out" / "report.csv").open(encoding="utf-8", newline="") as file:
        assert [(row["seeds"], row["unfinished_seeds"]) for row in csv.DictReader(file)] == [
            ("1 2", "3"),
            ("1 2 3", ""),
        ]


def test_a_report_without_finished_runs_is_written(write: Write, tmp_path: Path) -> None:
    _, text, table, *_ = write_report([write("only")])
    assert text.parent == tmp_path / "only"
    assert "No run is finished, so there is nothing to compare." in text.read_text()
    assert len(table.read_text().splitlines()) == 1


def test_text_and_table_hold_the_ranking(write: Write, tmp_path: Path) -> None:
    folders = three(write, additive=(0.9, 1.0, 1.1))
    write_report([tmp_path])
    page, text, table, tex, *_ = write_report([tmp_path])  # over the old one
    assert not list(tmp_path.glob("*.partial"))
    lines = text.read_text(encoding="utf-8").splitlines()
    gap = only(folders).rankings[0].rows[1].difference
    assert gap is not None
    interval, p = f"{gap.low:.2f} to {gap.high:.2f}", f"{gap.p:.3f}"
    assert "| 1 | dot | 7.20 | 0.20 | 3 |  |  |  |  |" in lines
    assert f"| 2 | additive | 8.20 | 0.30 | 3 |  | 1.00 | {interval} | {p} |" in lines
    with table.open(encoding="utf-8", newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["scorer"], first["test_per"], first["seeds"], first["test_per_p"]) == ("dot", "7.2", "0 1 2", "")
    assert (second["rank"], second["test_per_behind"], second["folders"]) == ("2", "1", " ".join(map(str, folders[3:])))
    assert float(second["test_per_behind_low"]) == pytest.approx(gap.low, rel=1e-5)
    half = T_4 * math.sqrt(0.065 / 3)
    ends = [float(first[f"test_per_{end}"]) for end in ("low", "high")]
    assert ends == pytest.approx([7.2 - half, 7.2 + half], rel=1e-4)
    bold = [line for line in tex.read_text(encoding="utf-8").splitlines() if "textbf" in line]
    assert len(bold) == 1
    assert bold[0].startswith(rf"\textbf{{dot}} & \textbf{{7.20}} & 0.20 & [{7.2 - half:.2f}, {7.2 + half:.2f}] & 3 & ")
    assert page.stat().st_size > 20_000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "attnx report needs FOLDER"),
        (["nowhere"], "nowhere: not a folder"),
        (["empty"], "empty: neither a run nor a sweep, and holds none"),
        (["empty", "--outt=x"], "unknown flag --outt; did you mean --out"),
        (["run", "--out", "run/run.json"], "cannot be written"),
    ],
)
def test_an_invalid_argument_is_reported_in_one_line(
    words: list[str], message: str, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    write("run", 7.0)
    with pytest.raises(UserError, match=message) as raised:
        command(["report", *words])
    assert "\n" not in str(raised.value)


def test_the_command_prints_its_output_files(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write("all/run", 7.0)
    write("all/other", 8.0, scorer="dot")
    assert command(["report", "all/run", "all/other"]) == 0
    written = [f"all/report{suffix}" for suffix in (".html", ".md", ".csv", ".tex", ".effects.csv", ".runs.csv")]
    assert capsys.readouterr().out.splitlines() == written
    assert command(["report", "all", "--out", "reports"]) == 0
    assert Path("reports/report.html").is_file()
    table = Path("reports/report.runs.csv").read_text()
    with pytest.raises(UserError, match=r"report\.runs\.csv: the report would replace the table that it reads"):
        command(["report", "reports/report.runs.csv", "scorer=dot"])
    assert Path("reports/report.runs.csv").read_text() == table
    assert command(["report", "reports/report.runs.csv", "scorer=dot", "--out", "dot"]) == 0
