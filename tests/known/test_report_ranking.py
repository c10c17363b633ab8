"""The report of written run folders: varying choices, winners with their certainty, and effects."""

import csv
import json
import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from attnx.cli.main import run as command
from attnx.config.view import dotted_keys, varied_keys
from attnx.errors import UserError
from attnx.reports.stats.bootstrap import SAMPLES
from attnx.reports.stats.multiple_comparisons import EXAMPLES, SEEDS
from attnx.reports.sweep.comparison import Comparison, comparisons
from attnx.reports.sweep.effects import Effect
from attnx.reports.sweep.load_runs import load_runs
from attnx.reports.sweep.metrics import Metric, choose_scale
from attnx.reports.sweep.report import write_report
from attnx.reports.sweep.settings import ABSENT
from attnx.runs.layout import RESAMPLED
from attnx.runs.sweep import Sweep, SweepJob
from attnx.sweeps.record import save_sweep
from tests.run_folder import write_run_folder

Write = Callable[..., Path]
SETTINGS = ("dot-global", "dot-local", "mlp-global", "mlp-local")


def geometric_mean(*values: float) -> float:
    """Errors are compared by their logarithms, so a difference is one of geometric means."""
    return math.prod(values) ** (1 / len(values))


@pytest.fixture
def write(tmp_path):
    """Write a run folder: ``write("a", 7.5, seed=1, scorer="dot")``; lists of edits are its predictions,
    and those of WER are resampled."""

    def write_run(
        name: str, value: float | None = None, seed: int = 1, edits: list[int] | None = None, **info: Any
    ) -> Path:
        kinds = ("scorer", "scope", "query", "optimizer", "task")
        choices = {key: node for key in kinds if (node := info.pop(key, None))}
        config = {key: {"name": node} if isinstance(node, str) else node for key, node in choices.items()}
        metric, results = info.pop("metric", "per"), info.pop("results", {})
        info = {"status": "failed" if value is None else "finished", "monitor": f"valid_{metric}", **info}
        lines = None
        if edits is not None:
            words = info.get("words", range(len(edits)))
            lines = [f"{word}\tA\tA\t{edit}\t-1" for word, edit in zip(words, edits, strict=True)]
        folder = write_run_folder(
            tmp_path / name,
            {"seed": seed, "name": name, **config},
            None if value is None else {f"test_{metric}": value, "test_examples": 5, **results},
            lines,
            **info,
        )
        if edits is not None and metric == "wer":
            drawn = np.random.default_rng(0).integers(0, len(edits), (SAMPLES, len(edits)))
            np.savez(folder / RESAMPLED, test_wer=100 * (np.array(edits) > 0)[drawn].mean(axis=1))
        return folder

    return write_run


def write_seeds(write: Write, values: Mapping[str, Sequence[float]], **info: Any) -> list[Path]:
    """Write the runs of scorers, of which each has a value for every seed."""
    return [
        write(f"{name}{seed}", value, seed, scorer=name, **info)
        for name, group in values.items()
        for seed, value in enumerate(group)
    ]


def write_grid(write: Write, values: Mapping[tuple[str, str], float], **info: Any) -> list[Path]:
    """Write a run of each scorer and scope."""
    return [write(f"{a}-{b}", value, scorer=a, scope=b, **info) for (a, b), value in values.items()]


def only(folders: list[Path]) -> Comparison:
    (result,) = comparisons(load_runs(folders))
    return result


def read_rows(table: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))


def names(actual: Comparison) -> list[str]:
    return [row.setting.name for row in actual.rankings[0].rows]


def test_an_unreadable_run_does_not_hide_the_readable_ones(write, tmp_path):
    write("whole", 7.0)
    write("newer", 7.0, format=999)
    newer, complete = load_runs([tmp_path])
    assert (complete.status, complete.results["test_per"]) == ("finished", 7.0)
    assert newer.status == "unreadable"
    assert "newer" in newer.error
    with pytest.raises(UserError, match="newer"):
        load_runs([tmp_path / "newer"])


def test_a_folder_contains_sweeps_and_single_runs(write, tmp_path, monkeypatch):
    """As ``multirun`` does; the report lies in it, and so does what it names."""
    monkeypatch.chdir(tmp_path)
    write("multirun/scorers/0", 7.0, scorer="dot")
    write("multirun/runs/mine", 8.0, scorer="additive")
    write("multirun/runs/broken", None, error="it fell over")
    save_sweep(Sweep(Path("multirun/scorers"), "attnx -m", [], jobs=[SweepJob(0, ["scorer=dot"], "finished")]))
    paths = {f"multirun/{name}" for name in ("scorers/0", "runs/mine", "runs/broken")}
    assert {str(run.path) for run in load_runs(["multirun"])} == paths
    assert {run.path.name for run in load_runs(["multirun/runs"])} == {"mine", "broken"}
    page, text, *_ = write_report(["multirun"])
    assert page == Path("multirun/report.html")
    assert "3 runs: 1 failed, 2 finished." in text.read_text(encoding="utf-8")
    assert '"multirun/runs/mine"' in page.read_text(encoding="utf-8")
    Path("multirun/empty/runs").mkdir(parents=True)
    with pytest.raises(UserError, match="neither a run nor a sweep, and holds none"):
        load_runs(["multirun/empty"])


def three(write: Write, better: tuple[float, ...] = (7.0, 7.2, 7.4), **fields: Sequence[float]) -> list[Path]:
    """Settings with three seeds each: ``dot`` as given, others so much behind in each seed."""
    behind = {name: [value + gap for value, gap in zip(better, gaps, strict=True)] for name, gaps in fields.items()}
    return write_seeds(write, {"dot": better, **behind})


def test_varying_options_are_found():
    """A part by its name, an option where runs with the same part differ in it, a set by its names, never a seed."""
    token, same = {"token": {"width": 3}}, {"task": {"name": "g2p"}}
    runs: list[dict[str, Any]] = [
        {"seed": 1, "scorer": {"name": "mlp", "depth": 1, "bias": True}, "query": token, **same},
        {"seed": 2, "scorer": {"name": "mlp", "depth": 2, "bias": True}, "query": token, **same},
        {"seed": 3, "scorer": {"name": "dot"}, "query": {**token, "last_context": {}}, **same},
    ]
    settings = [{key: value for key, value in dotted_keys(run).items() if key != "seed"} for run in runs]
    assert varied_keys(settings) == ["scorer", "scorer.depth", "query"]
    assert [run["query"] for run in settings] == ["token", "token", "[token,last_context]"]


def test_runs_that_differ_by_their_seed_are_one_setting(write):
    comparison = only(three(write, (7.0, 7.2, 7.4), additive=(0.3, 0.4, 0.5)))
    assert comparison.keys == ["scorer"]
    assert names(comparison) == ["dot", "additive"]
    first, second = comparison.rankings[0].rows
    assert (first.mean, first.sd) == (pytest.approx(7.2), pytest.approx(0.2))
    assert first.difference is None
    expected = geometric_mean(7.3, 7.6, 7.9) - geometric_mean(7.0, 7.2, 7.4)
    assert (second.difference.difference, second.difference.test) == (pytest.approx(expected), SEEDS)
    logs = [np.log([7.0, 7.2, 7.4]), np.log([7.3, 7.6, 7.9])]
    assert second.difference.p == pytest.approx(stats.ttest_ind(*logs).pvalue, abs=0.01)


def test_options_that_follow_from_the_data_file_are_not_listed():
    def run(train: str, data: str, scorer: str = "dot") -> dict[str, str]:
        return {"task.train": train, "training data": data, "scorer": scorer}

    assert varied_keys([run("a.tsv", "data 1"), run("b.tsv", "data 2")]) == ["task.train"]
    # The file was changed between two runs, so that what they differ in is not their scorer alone.
    changed = [run("a.tsv", "data 1"), run("a.tsv", "data 2", "mlp")]
    assert varied_keys(changed) == ["scorer", "training data"]


def test_a_winner_is_named(write):
    """The bounds are one-sided, since the best alone is compared with the others."""
    comparison = only(three(write, additive=(0.9, 1.0, 1.1)))
    first, second, *further = comparison.rankings[0].verdict
    assert re.fullmatch(
        r"Take \*\*dot\*\*, which won: PER 7\.20 ± 0\.20 % over 3 seeds, 1\.00 \(12 %\) better than \*\*additive\*\* "
        r"\(at least 0\.\d\d, p = 0\.00\d\)\.",
        first,
    )
    assert second == (
        "The first is significantly better (p < 0.05) than the other setting. Test: means of logarithms over seeds, "
        "each with its moderated variance, adjusted for all comparisons with it, one-sided (5 % beyond each end)."
    )
    assert further[0].startswith("The defaults, **additive**, are 1.00 (12 %) behind the best (p = 0.00")


def test_an_equally_good_setting_prevents_a_winner(write):
    """``additive`` is far behind, ``mlp`` as near as seeds are."""
    comparison = only(three(write, additive=(1.0, 1.0, 1.0), mlp=(0.2, 0.2, 0.2)))
    rows = {row.setting.name: row.difference for row in comparison.rankings[0].rows}
    assert rows["dot"] is None
    assert rows["additive"].p < 0.05
    assert rows["mlp"].p > 0.05
    first, second, *_, third = comparison.rankings[0].verdict[:3]
    assert first.startswith(
        "Take **dot** or **mlp**; they cannot be told apart. **dot** is first with PER 7.20 ± 0.20 % over 3 seeds, at "
    )
    assert re.search(r"at most \d\.\d\d \(\d+ %\) better than \*\*mlp\*\*\.$", first)
    assert "than 1 of the other 2" in second
    logs = [np.log([7.0, 7.2, 7.4]), np.log([7.2, 7.4, 7.6])]
    reach = stats.t.ppf(0.975, 4) * math.sqrt(sum(np.var(group, ddof=1) / 3 for group in logs))
    lead = re.match(r"With these seeds, a lead of about (0\.\d\d) over \*\*mlp\*\* would be significant\.", third)[1]
    assert float(lead) == pytest.approx(geometric_mean(7.0, 7.2, 7.4) * math.expm1(reach), abs=0.01)


def test_settings_with_unequal_spread_have_their_own_variances(write):
    """``wild`` goes from 10 to 90: pooled, that variance would hide that the other two differ by ten of their sds."""
    values = {
        "dot": (7.0, 7.1, 7.2, 7.3, 7.4),
        "mlp": (8.0, 8.1, 8.2, 8.3, 8.4),
        "wild": (10.0, 12.0, 50.0, 88.0, 90.0),
    }
    ranking = only(write_seeds(write, values)).rankings[0]
    near, wild = (row.difference for row in ranking.rows[1:])
    assert near.p < 0.05
    assert near.high < 3
    assert wild.high > 20


def test_a_setting_with_one_seed_is_not_compared(write):
    """It neither wins nor loses against settings with several, however good its value."""
    comparison = only([*three(write, additive=(1.0, 1.0, 1.0)), write("once", 2.0, 0, scorer="mlp")])
    ranking = comparison.rankings[0]
    assert [row.setting.name for row in ranking.rows] == ["dot", "additive", "mlp"]
    assert ranking.rows[2].difference is None
    assert ranking.has_winner
    assert "Not compared, since one seed says nothing about others: **mlp**." in ranking.verdict


def test_a_setting_with_a_failed_seed_does_not_win(write):
    """Its other seeds are far ahead; a seed without a finite value, and one that failed, count alike."""
    folders = [*three(write, additive=(5.0, 5.0, 5.0)), write("failed", None, 3, scorer="dot", error="not finite")]
    ranking = only(folders).rankings[0]
    assert not ranking.has_winner
    assert ranking.verdict[0].startswith("No winner: **dot** is first with PER 7.20 ± 0.20 % over 3 seeds, ")
    assert ranking.verdict[0].endswith("1 of its 4 seeds failed, which is a failure of the setting.")
    assert "would be significant" not in " ".join(ranking.verdict)


@pytest.mark.parametrize("status", ["waiting", "running", "interrupted"])
def test_a_seed_that_may_still_finish_is_no_failure(status, write):
    folders = write_seeds(write, {"dot": (7.0, 7.1, 7.2), "mlp": (9.0, 9.1, 9.2)})
    folders += [write(f"{name}3", None, 3, scorer=name, status=status) for name in ("dot", "mlp")]
    ranking = only(folders).rankings[0]
    verdict = " ".join(ranking.verdict)
    assert (ranking.has_winner, ranking.why_no_winner) == (False, "1 of its 4 seeds has not finished")
    assert "Seeds have not finished of **dot** (1 of 4); **mlp** (1 of 4): means are over the others." in verdict
    assert "failed" not in verdict
    assert [row.seed_count for row in ranking.rows] == ["3 of 4", "3 of 4"]


def test_what_may_not_win_is_compared_two_sided(write):
    """And adjusted for all pairs, as its sentence says."""
    values = {"dot": (10.4, 10.03, 10.11), "mlp": (10.63, 10.5, 11.0), "cosine": (11.48, 11.01, 11.3)}
    winner = only(write_seeds(write, values)).rankings[0]
    loser = only([*write_seeds(write, values), write("dot3", None, 3, scorer="dot")]).rankings[0]
    assert (winner.has_winner, loser.has_winner) == (True, False)
    assert loser.rows[1].difference.p > winner.rows[1].difference.p
    assert loser.rows[1].difference.low < winner.rows[1].difference.low
    assert "adjusted for all pairs of settings" in " ".join(loser.verdict)


def test_settings_without_variance_are_ranked_by_their_values(write):
    """Three equal seeds of one setting, and one of each other one: they are compared over test examples."""
    folders = [write(f"dot{seed}", 30.0, seed, [1] * 30 + [0] * 70, scorer="dot", metric="wer") for seed in range(3)]
    folders += [
        write(name, float(wrong), 1, [1] * wrong + [0] * (100 - wrong), scorer=name, metric="wer")
        for name, wrong in (("mlp", 10), ("cosine", 20))
    ]
    ranking = only(folders).rankings[0]
    assert [row.setting.name for row in ranking.rows] == ["mlp", "cosine", "dot"]
    assert [row.difference and round(row.difference.difference) for row in ranking.rows] == [None, 10, 20]
    assert "With one seed each" not in " ".join(ranking.verdict)
    assert "are the seeds of a setting one run?" in " ".join(ranking.verdict)


def test_what_has_no_predictions_is_not_compared(write):
    folders = [
        write(name, float(wrong), 1, [1] * wrong + [0] * (100 - wrong), scorer=name, metric="wer")
        for name, wrong in (("dot", 5), ("mlp", 30), ("cosine", 90))
    ]
    (folders[-1] / RESAMPLED).unlink()
    ranking = only(folders).rankings[0]
    assert ([row.setting.name for row in ranking.uncompared], ranking.undecided) == (["cosine"], [])
    assert ranking.verdict[0].startswith("The weights of **dot** score best on these test examples")
    assert "Not compared, since predictions were not saved: **cosine**." in ranking.verdict


def test_one_setting_with_several_seeds_is_compared_with_nothing(write):
    """Not first, and in no table better than others, of which one seed says nothing."""
    folders = [*write_seeds(write, {"dot": (10.0, 10.5, 11.0)}), write("mlp", 5.0, scorer="mlp")]
    folders.append(write("cosine", 5.5, scorer="cosine"))
    ranking = only(folders).rankings[0]
    assert ranking.verdict[0].startswith("**dot** alone has several seeds: PER 10.5")
    assert "the best of the others is **mlp**, PER 5.0 % with one seed." in ranking.verdict[0]
    (effect,) = ranking.effects
    assert (effect.test, [level.difference for level in effect.levels]) == (None, [None] * 3)


def test_a_small_error_beside_large_ones_is_not_written_as_zero(write):
    values = {"dot": (0.3, 0.35, 0.4), "mlp": (0.7, 0.8, 0.75), "a": (20.0, 90.0, 99.0), "b": (30.0, 80.0, 99.0)}
    ranking = only(write_seeds(write, values | {"c": (25.0, 70.0, 99.0)})).rankings[0]
    assert ranking.metric.digits == 0
    assert ranking.verdict[0].startswith("Take **dot**, which won: PER 0.4 ± 0.05 % over 3 seeds")


def test_equal_numbers_have_no_effects(write):
    """What remains of rounding is no variance, against which everything would be significant."""
    names = [f"s{number}" for number in range(5)]
    grid = product(names, ["global", "local", "history"], ["adam", "sgd"])
    folders = [write("-".join(one), 43.7, scorer=one[0], scope=one[1], optimizer=one[2]) for one in grid]
    ranking = only(folders).rankings[0]
    assert len(ranking.effects) == 3
    assert all(effect.test is None for effect in ranking.effects)
    assert all(level.difference is None for effect in ranking.effects for level in effect.levels)


def test_other_metrics_that_disagree_are_named(write):
    """By WER the second setting is better, and significantly so."""
    values = {"dot": ((7.0, 40.0), (7.1, 40.4), (7.2, 40.8)), "mlp": ((9.0, 20.0), (9.1, 20.2), (9.2, 20.4))}
    folders = [
        write(f"{name}{seed}", per, seed, scorer=name, results={"test_wer": wer})
        for name, group in values.items()
        for seed, (per, wer) in enumerate(group)
    ]
    first, *_ = only(folders).rankings[0].verdict
    assert first.startswith("Take **dot**, which won: PER 7.10 ")
    assert " By WER **mlp** is first, 20.20 (50 %) better than **dot**, p < 0.001." in first


def test_metrics_that_disagree_untested_are_named(write):
    folders = [
        write(name, per, scorer=name, results={"test_wer": wer})
        for name, (per, wer) in {"dot": (7.0, 40.0), "mlp": (9.0, 20.0)}.items()
    ]
    assert only(folders).rankings[0].verdict[0].endswith(" By WER **mlp** is first, with 20.00 %.")


def test_near_best_settings_are_listed_with_their_distances(write):
    """Five that cannot be told apart: the defaults, which are last, are named, and first what validation chooses."""
    names = ["dot", "mlp", "concat", "cosine", "additive"]
    values = {name: [7.0 + 0.1 * place + 0.5 * seed for seed in range(3)] for place, name in enumerate(names)}
    folders = write_seeds(write, values)
    first = only(folders).rankings[0].verdict[0]
    assert re.match(
        r"Take any of 5 settings; they cannot be told apart: \*\*dot\*\*; \*\*mlp\*\*, 0\.\d+ \(1 %\) behind; "
        r"\*\*additive\*\* \(the defaults\), 0\.\d+ \(5 %\) behind; and 2 more\. \*\*dot\*\* is first with PER ",
        first,
    )
    for folder in folders:
        valid = 3.0 if folder.name.startswith("cosine") else 4.0
        (folder / "metrics.csv").write_text(f"step,valid_per\n10,9\n20,{valid}\n")
    first = only(folders).rankings[0].verdict[0]
    assert first.startswith(
        "Take **cosine**, which validation chooses, or any of 4 others; they cannot be told apart: **dot**; **mlp**, 0."
    )
    assert re.search(r"\*\*dot\*\* is first with .*, at most [\d.]+ \(\d+ %\) better than \*\*cosine\*\*\.$", first)
    pair = only([folder for folder in folders if folder.name[:3] in ("dot", "add")]).rankings[0].verdict[0]
    assert pair.startswith(
        "Take **dot**, which validation chooses, or **additive** (the defaults); they cannot be told "
    )


@pytest.mark.parametrize(
    ("dot", "mlp", "metric", "start"),
    [
        ((100.0, 100.0), (100.0, 100.0), "wer", "All 2 settings are equal, with WER 100.00 %: training"),
        ((332.0, 330.0), (317.0, 317.5), "per", "All 2 settings are equally bad, with PER 317"),
        ((0.0, 0.0), (0.0, 0.0), "bleu", "All 2 settings are equal, with BLEU 0.00: training was too"),
        ((43.5,), (43.5,), "error", "All 2 settings are equal, with error 43.50 % in every run: training"),
        ((0.0, 0.0), (0.0, 0.0), "per", "All 2 settings are equal, with PER 0.00 % in every run: trai"),
    ],
)
def test_where_nothing_was_learned_there_is_no_advice(dot, mlp, metric, start, write, tmp_path):
    """Nothing is first, wins or is to be told apart by more seeds, and no choice has an effect."""
    values, results = {"dot": dot, "mlp": mlp}, {"steps": 10}
    folders = write_seeds(write, values, metric=metric, maximize=metric == "bleu", results=results)
    ranking = only(folders).rankings[0]
    first = ranking.verdict[0]
    assert first.startswith(start)
    assert ("after 10 steps, and nothing was learned. Train longer" in first) is not ranking.has_learned
    assert not ranking.has_winner
    assert bool(ranking.effects) is ranking.has_learned
    text = " ".join(ranking.verdict)
    assert not [word for word in ("is first", "seeds", "Take", "behind") if word in text]
    assert "textbf" not in write_report(folders, tmp_path / "out")[3].read_text(encoding="utf-8")


FEWER_SEEDS = "Means are over 2 to 3 seeds: those over fewer have wider intervals."
NO_NUMBER = (
    "Seeds failed, or their PER is no number, of **dot, global** (1 of 3): means are over the others, and a setting "
)
BAD_INPUT: dict[str, tuple[dict[str, dict[str, Any] | None], str]] = {
    "null, as attnx writes what is no number": ({"dot-global2": {"results": {"test_per": None}}}, NO_NUMBER),
    "NaN": ({"dot-global2": {"value": math.nan}}, FEWER_SEEDS),
    "1e308": ({"dot-global2": {"value": 1e308}}, NO_NUMBER),
    "only 1e308": ({"dot-global.": {"value": 1e308}}, "Not ranked, since PER is no number: **dot, global**."),
    "identical values": (
        {"dot-global.": {"value": 7.0}},
        "All seeds of **dot, global** have the same PER, so this counts as exact to half an example: are they one run?",
    ),
    "all values identical": (
        {".*": {"value": 7.0}},
        "All 4 settings are equal, with PER 7.00 % in every run: training was too short",
    ),
    "one seed of a setting": (
        {"dot-global[12]": None},
        "Not compared, since one seed says nothing about others: **dot, global**.",
    ),
    "one seed of all": (
        {".*[12]": None},
        "**dot, global** is first with PER 7.00 % with one seed, but the differences cannot be tested: there is one",
    ),
    "unequal seeds": ({"dot-global2": None}, FEWER_SEEDS),
    "a missing cell": (
        {"mlp-local.": None},
        "3 of 4 combinations of `scorer` by `scope` have results: the ranking is of these, and effects of the choices ",
    ),
    "mixed commits": (
        {"dot-global2": {"git": {"commit": "ab" * 20}}, "dot-global1": {"git": {"commit": "cd" * 20}}},
        "The runs are of 2 different commits: a difference may come from the code.",
    ),
    "mixed machines": (
        {"dot-global2": {"machine": "2 cores of A"}, "dot-global1": {"machine": "4 cores of B"}},
        "The runs are of 2 different machines: their times cannot be compared.",
    ),
    "mixed data": (
        {"dot-global0": {"fingerprint": "cd"}, "dot-global[12]": {"fingerprint": "ab"}},
        "The runs were trained on 2 different data sets: a difference may come from the data, not from the settings.",
    ),
}


@pytest.mark.parametrize(("changes", "sentence"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_is_named_in_a_line(changes, sentence, write, tmp_path):
    """Of two scorers by two scopes with three seeds some runs are as ``changes`` says, or missing."""
    for (place, setting), seed in product(enumerate(SETTINGS), range(3)):
        name, (scorer, scope) = f"{setting}{seed}", setting.split("-")
        change = next((change for pattern, change in changes.items() if re.fullmatch(pattern, name)), {})
        if change is not None:
            run = {"value": 7.0 + place + 0.1 * seed, "seed": seed, "scorer": scorer, "scope": scope, **change}
            write(name, **run)
    lines = write_report([tmp_path], tmp_path / "out")[1].read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith(sentence)], lines[:20]


def test_runs_that_were_still_improving_are_counted(write):
    folders = three(write, additive=(0.9, 1.0, 1.1))
    for index, folder in enumerate(folders):
        last = 7.0 if index else 9.5  # the first has stopped
        (folder / "metrics.csv").write_text(f"step,valid_per\n10,9\n20,8\n30,{last}\n")
    verdict = only(folders).rankings[0].verdict
    assert any(sentence.startswith("5 of 6 runs were still improving by more than 1 %") for sentence in verdict)
    assert any(sentence.startswith("Settings are ranked on the test. Validation would choose") for sentence in verdict)
    for folder in folders:
        (folder / "metrics.csv").write_text("step,valid_per\n10,9\n20,7\n30,7\n")
    verdict = only(folders).rankings[0].verdict
    assert "No run was still improving by more than 1 % between its last validations." in verdict


def test_runs_of_unequal_steps_are_ranked_with_a_warning(write, tmp_path):
    """More steps, less error: the report states how far the steps alone order the runs."""
    folders = [
        write(f"{name}{seed}", value, seed, scorer=name, results={"steps": steps})
        for name, seed, value, steps in (
            *(("dot", 0, 7.0, 300), ("dot", 1, 7.2, 299), ("mlp", 0, 8.0, 280), ("mlp", 1, 8.3, 279)),
            *(("cosine", 0, 9.0, 260), ("cosine", 1, 9.1, 259)),
        )
    ]
    first = only(folders).rankings[0].verdict[-1]
    assert first == (
        "The runs did not train for the same number of steps (259 to 300): a difference may come from the training, "
        "not from the settings."
    )
    _, text, table, tex, *_ = write_report(folders, tmp_path / "out")
    assert first in text.read_text(encoding="utf-8")
    assert "| 7.10 | 0.14 | 2 | 299 to 300 |" in text.read_text(encoding="utf-8")
    assert f"% {first}" in tex.read_text(encoding="utf-8")
    assert [row["steps"] for row in read_rows(table)] == ["299.5", "279.5", "259.5"]


def test_runs_of_equal_time_are_ranked(write):
    folders = [
        write(name, value, scorer=name, budget="time", results={"steps": steps})
        for name, value, steps in (("dot", 7.0, 300), ("mlp", 8.0, 200))
    ]
    first = only(folders).rankings[0].verdict[-1]
    assert first.startswith("All runs had the same training time, but not the same number of steps (200 to 300): ")
    equal = [write(f"{name}-same", 7.0, scorer=name, results={"steps": 300}) for name in ("dot", "mlp")]
    assert not any("number of steps" in sentence for sentence in only(equal).rankings[0].verdict)


def test_digits_follow_from_the_intervals(write):
    """Errors of 0.0886 and of 0.0912, two seeds each: a mean is known to 0.0009, of those of 600 to 430."""
    small = {"dot": (0.0884, 0.0888), "mlp": (0.0910, 0.0914)}
    large = {"dot": (500.0, 700.0), "mlp": (900.0, 1100.0)}
    for values, expected in ((small, "0.08860 ± 0.00028"), (large, "600 ± 141")):
        verdict = only(write_seeds(write, values, metric="mse")).rankings[0].verdict
        assert f"MSE {expected} over 2 seeds" in verdict[0]


def test_with_one_seed_test_examples_are_compared(write):
    """100 of 400 words only the second has wrong, and 40 both."""
    first, two = [1] * 40 + [0] * 360, [1] * 140 + [0] * 260
    folders = [
        write("one", 10.0, scorer="dot", edits=first, metric="wer", results={"test_examples": 400}),
        write("two", 35.0, scorer="mlp", edits=two, metric="wer", results={"test_examples": 400}),
    ]
    ranking = only(folders).rankings[0]
    gap = ranking.rows[1].difference
    assert (gap.difference, gap.test) == (pytest.approx(25), EXAMPLES)
    assert 15 < gap.low < 25 < gap.high < 40
    verdict = ranking.verdict
    assert verdict[0].startswith(
        "The weights of **dot** score best on these test examples: WER 10.0 % with one seed, 25.0 (71 %) better than **"
    )
    assert "paired bootstrap over the test examples" in verdict[1]
    assert "compares the trained weights, not the settings: other seeds may give another order" in verdict[2]
    assert "won" not in " ".join(verdict)


def test_a_difference_on_examples_may_be_uncertain(write):
    """Of eight words one more is wrong: no seed varies much, but other words may well be read otherwise."""
    edits = {"dot": [1, 0, 0, 0, 0, 0, 0, 0], "mlp": [1, 1, 0, 0, 0, 0, 0, 0]}
    folders = [
        write(f"{name}{seed}", 12.5 * sum(words) + 0.001 * seed, seed, edits=words, scorer=name, metric="wer")
        for name, words in edits.items()
        for seed in (0, 1)
    ]
    ranking = only(folders).rankings[0]
    gap, both = ranking.rows[1].difference, ranking.rows[1].both_sources
    assert gap.low > 12
    assert both[0] < 0
    assert ranking.verdict[0].startswith("Take **dot**, which won on these test examples: ")
    assert "Over other seeds and other test examples (95 %, one comparison) **mlp** may be" in ranking.verdict[2]


def test_equal_counts_of_a_small_test_are_not_exact(write):
    """Of 20 words no, one or two are wrong: three equal counts are no certainty, and do not part settings."""
    values = {"dot": (0.0, 0.0, 0.0), "mlp": (5.0, 5.0, 5.0), "cosine": (0.0, 5.0, 10.0)}
    ranking = only(write_seeds(write, values, metric="wer", results={"test_examples": 20})).rankings[0]
    assert len(ranking.undecided) == 2
    assert ranking.rows[0].interval[0] == 0


def test_settings_that_are_exact_and_equal_have_intervals(write):
    values = {"dot": (5.0, 5.0, 5.0), "mlp": (5.0, 5.0, 5.0), "cosine": (9.0, 9.1, 9.2)}
    ranking = only(write_seeds(write, values, metric="loss")).rankings[0]
    assert [row.interval for row in ranking.rows[:2]] == [(5, 5), (5, 5)]
    assert "would be significant" not in " ".join(ranking.verdict)


def test_a_test_without_an_error_is_no_certainty(write):
    """Of 20 words none and three are wrong, which other words may well turn round: McNemar's p is 1/4."""
    edits = {"dot": [0] * 20, "mlp": [1] * 3 + [0] * 17}
    folders = [
        write(f"{name}{seed}", 5.0 * sum(words), seed, words, scorer=name, metric="wer", results={"test_examples": 20})
        for name, words in edits.items()
        for seed in range(3)
    ]
    ranking = only([folders[0], folders[3]]).rankings[0]
    assert ranking.rows[1].difference.difference == 15
    assert [row.setting.name for row in ranking.undecided] == ["mlp"]
    assert re.search(r"with one seed, at most \d+ \(100 %\) better than \*\*mlp\*\*\.$", ranking.verdict[0])
    (folders[4] / "results.json").write_text('{"test_wer": 20.0, "test_examples": 20}')  # now seeds differ
    ranking = only(folders).rankings[0]
    assert ranking.verdict[0].startswith("Take **dot**, which won on these test examples: ")
    assert ranking.rows[1].both_sources[1] < 100


def test_an_interval_over_seeds_and_equal_examples_is_students(write):
    values = {"dot": (7.0, 7.2, 7.4), "mlp": (7.4, 7.6, 7.8)}
    second = only(write_seeds(write, values, metric="wer", edits=[1, 0, 0])).rankings[0].rows[1]
    logs = [np.log(group) for group in values.values()]
    ends = stats.ttest_ind(logs[1], logs[0]).confidence_interval(0.95)
    assert second.both_sources == pytest.approx([math.exp(logs[0].mean()) * math.expm1(end) for end in ends], rel=0.01)


def test_words_that_both_get_wrong_do_not_matter(write):
    """Wrong in the same 200 words and each in 20 others: pairing leaves only these, and they are even."""
    first, two = [1] * 200 + [1] * 20 + [0] * 180, [1] * 200 + [0] * 20 + [1] * 20 + [0] * 160
    folders = [
        write(str(n), 55.0, scorer=s, edits=e, metric="wer") for n, (s, e) in enumerate([("dot", first), ("mlp", two)])
    ]
    gap = only(folders).rankings[0].rows[1].difference
    assert (gap.difference, gap.p) == (0, 1)
    assert gap.high == pytest.approx(1.96 * 100 * math.sqrt(40) / 400, rel=0.1)
    assert only(folders).rankings[0].verdict[0].startswith("Take **dot** or **mlp**; they cannot be told apart")


def test_saved_draws_are_of_one_order(write):
    """A BLEU of other draws, the same for both; of a run that was tested in another order they are others.

    One that is no number, and fewer draws, are as good as none.
    """
    drawn, random = {}, np.random.default_rng(0)
    common = random.normal(0, 3, 2000)  # what both have in common is paired away
    for name, value, order in (("dot", 30.0, "pqr"), ("mlp", 28.0, "pqr"), ("concat", 29.0, "qpr")):
        folder = write(name, value, scorer=name, edits=[1, 1, 1], words=order, metric="bleu", maximize=True)
        drawn[name] = value + common + random.normal(0, 0.5, 2000)
        np.savez(folder / "resampled.npz", test_bleu=drawn[name])
    folders = [Path(folder) for folder in (folder.parent / "dot", folder.parent / "mlp", folder.parent / "concat")]
    first, second = only(folders[:2]).rankings[0].rows
    assert first.difference is None
    assert (second.difference.difference, second.difference.test) == (2, EXAMPLES)
    assert second.difference.high - 2 == pytest.approx(1.96 * np.std(drawn["dot"] - drawn["mlp"], ddof=1), rel=0.1)
    first = only(folders[:2]).rankings[0].verdict[0]
    assert first.startswith("The weights of **dot** score best on these test examples: BLEU 30.0")
    assert [row.difference for row in only(folders).rankings[0].rows] == [None] * 3
    for other in (np.full(2000, np.nan), np.ones(1999)):
        np.savez(folders[0] / "resampled.npz", test_bleu=other)
        assert [row.difference for row in only(folders[:2]).rankings[0].rows] == [None] * 2
    (folders[0] / "resampled.npz").write_bytes(b"no archive")
    assert [row.difference for row in only(folders[:2]).rankings[0].rows] == [None] * 2


def test_one_setting_has_no_comparison(write):
    comparison = only([write(str(seed), value, seed, scorer="dot") for seed, value in ((1, 7.0), (2, 9.0))])
    assert comparison.rankings[0].verdict == [
        "There is only one setting, so there is nothing to compare: PER 8 ± 1 % over 2 seeds."
    ]


def test_a_metric_may_be_maximized(write):
    values = {"dot": (30.0, 31.0), "mlp": (25.0, 26.5)}
    comparison = only(write_seeds(write, values, metric="bleu", maximize=True))
    assert names(comparison) == ["dot", "mlp"]
    assert comparison.rankings[0].rows[1].difference.difference == pytest.approx(4.75)


def test_an_accuracy_differs_by_a_share_of_the_error(write):
    """Errors of 10 % are a third fewer than those of 15 %, which no share of the accuracy is."""
    values = {"dot": (90.0, 90.1, 89.9), "mlp": (85.0, 85.1, 84.9)}
    verdict = only(write_seeds(write, values, metric="accuracy", maximize=True)).rankings[0].verdict
    assert "5.00 (33 % of the error) better than **mlp**" in verdict[0]


def test_runs_on_different_test_data_are_not_compared(write, tmp_path):
    """The same words in another order are the same data; other words are others."""
    folders = [
        write("a", 0.0, scorer="dot", edits=[0, 0], words=["p", "q"], metric="wer"),
        write("b", 50.0, scorer="mlp", edits=[0, 1], words=["q", "p"], metric="wer"),
        write("c", 0.0, scorer="mlp", edits=[0, 0], words=["p", "r"], metric="wer"),
    ]
    result = comparisons(load_runs(folders))
    assert [len(item.settings) for item in result] == [2, 1]
    page, text, *_ = write_report(folders, tmp_path / "out")
    assert "The runs have 2 different tests or metrics, which are not compared with each other." in text.read_text()
    assert page.is_file()


def test_metrics_of_several_definitions_are_not_compared(write, tmp_path):
    """PER over other phones is another metric, from a table of runs, too; BLEU over other tokens is left out."""
    defined = (("dot", "39 phones", "13a"), ("mlp", "39 phones", "zh"), ("cosine", "70 phones", "zh"))
    folders = [
        write(
            name, 7.0 + n, scorer=name, results={"test_bleu": 30.0 + n, "signatures": {"per": phones, "bleu": tokens}}
        )
        for n, (name, phones, tokens) in enumerate(defined)
    ]
    table = next(path for path in write_report(folders, tmp_path / "out") if path.name == "report.runs.csv")
    for paths in (folders, [table]):
        first, second = comparisons(load_runs(paths))
        assert ([row.setting.name for row in first.rankings[0].rows], len(second.settings)) == (["dot", "mlp"], 1)
        assert "test_bleu" not in [ranking.metric.key for ranking in first.rankings]
        assert [item.title.partition(", ")[2] for item in (first, second)] == ["39 phones", "70 phones"]


@pytest.mark.parametrize(
    ("old", "new"),
    [("2030", "2032"), ("2031-11-25T21:00:00+0200", "2031-11-25T20:00:00+0000")],
    ids=["dates", "21:00 two hours east of Greenwich is before 20:00 there"],
)
def test_the_later_of_two_equal_runs_counts(old, new, write):
    comparison = only([write("old", 9.0, created=old, scorer="dot"), write("new", 7.0, created=new, scorer="dot")])
    assert [row.values for row in comparison.rankings[0].rows] == [{1: 7.0}]
    assert comparison.superseded == 1


def test_equal_numbers_are_one_value(write):
    folders = [
        write(f"{seed}", 7.0 + seed, seed, optimizer={"name": "adam", "lr": 0.5, "decay": rate})
        for rate, seed in ((0, 1), (0.0, 2))
    ]
    (setting,) = only(folders).settings
    assert len(setting.runs) == 2


def test_a_setting_without_the_metric_is_named(write):
    """As of a perplexity that is infinite: its runs have finished, and no rank."""
    folders = [*three(write), *(write(f"nothing{seed}", 0.0, seed, scorer="cosine") for seed in (1, 2))]
    for seed in (1, 2):
        (folders[0].parent / f"nothing{seed}" / "results.json").write_text('{"test_per": null, "test_examples": 5}')
    comparison = only(folders)
    assert "**cosine**" not in comparison.rankings[0].verdict[0]
    assert "Not ranked, since PER is no number: **cosine**." in comparison.rankings[0].verdict


def test_a_folder_that_is_being_deleted_is_no_run(write, tmp_path):
    write("all/0", 7.0)
    write("all/.1.0011aabb.deleted", 5.0, 2)
    assert [run.path.name for run in load_runs([tmp_path / "all"])] == ["0"]


def test_a_row_of_latex_may_begin_with_a_bracket(write, tmp_path):
    """Which the end of the row above would take for its argument."""
    queries = (("a", {"token": {}, "current_state": {}}), ("b", {"token": {}}))
    write_report(
        [write(f"{name}{seed}", 7.0 + seed + (name == "a"), seed, query=q) for name, q in queries for seed in (1, 2)],
        tmp_path / "out",
    )
    lines = (tmp_path / "out" / "report.tex").read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if line.startswith("[")]
    assert [line for line in lines if line.startswith("{}[")]


def test_only_certain_results_are_bold_and_names_are_escaped(write, tmp_path):
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


def write_two_seeds(write: Write, scope: str) -> list[Path]:
    """Write runs of two scorers by two scopes with means of 11, 13, 15 and 21, and a seed on either side of each."""
    values = {("dot", "global"): 11, ("dot", scope): 13, ("mlp", "global"): 15, ("mlp", scope): 21}
    return [
        write(f"{a}-{b}-{seed}", value + side, seed, scorer=a, scope=b, metric="loss")
        for ((a, b), value), (seed, side) in product(values.items(), ((1, -1), (2, 1)))
    ]


def test_the_effect_of_a_choice_averages_over_the_other_choices(write):
    """Two seeds, one above and one below by 1: a variance of 2, so that a setting's mean has one of 1.

    The effects of two choices leave one degree of freedom, for which t is 12.7062 from tables.
    """
    folders = write_two_seeds(write, "local")
    effects = only(folders).rankings[0].effects
    assert level_means(effects) == {
        "scorer": {"dot": pytest.approx(12), "mlp": pytest.approx(18)},
        "scope": {"global": pytest.approx(13), "local": pytest.approx(17)},
    }
    (pair,) = only(folders).rankings[0].interactions
    # It leaves no setting over, so its error is that of seeds: each mean has a variance of 1.
    assert (pair.names, pair.test.f) == (("scorer", "scope"), pytest.approx(4 / 1))
    assert "| scorer by scope | 4.00 |" in write_report(folders)[1].read_text(encoding="utf-8")
    # The effects leave one setting over, whose deviations of 1 are the error.
    dot = effects[0].levels[0]
    assert dot.mean - dot.low == pytest.approx(12.7062 * math.sqrt(4 / 2), rel=1e-4)


def test_effects_are_tables(write, tmp_path):
    """The CSV has what the report's object has; in LaTeX a choice is named once, and signs are escaped."""
    folders = write_two_seeds(write, "a_b")
    main = only(folders).rankings[0]
    files = {path.name: path.read_text(encoding="utf-8") for path in write_report(folders, tmp_path / "out")}
    rows = read_rows(tmp_path / "out" / "report.effects.csv")
    assert [(row["effect"], row["choice"], row["value"]) for row in rows] == [
        *(("main", effect.name, level.value) for effect in main.effects for level in effect.levels),
        ("interaction", "scorer by scope", ""),
    ]
    test = main.effects[0].test
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


EFFECTS: dict[str, tuple[dict[tuple[str, str], float], dict[str, dict[str, float | None]]]] = {
    # Local adds 2, mlp adds 5: so does the fourth, which is missing. Plain means would make it 6 for mlp.
    "a missing cell of a grid is estimated": (
        {("dot", "global"): 1.0, ("dot", "local"): 3.0, ("mlp", "global"): 6.0},
        {"scorer": {"dot": 2, "mlp": 7}, "scope": {"global": 3.5, "local": 5.5}},
    ),
    "choices that always change together are one": (
        {("dot", "global"): 1.0, ("mlp", "local"): 3.0},
        {"scorer, scope": {"dot, global": 1, "mlp, local": 3}},
    ),
    # Each scorer was tried with scopes of its own, so nothing parts its share from theirs.
    "confounded effects are not reported": (
        {("dot", "a"): 0.0, ("dot", "b"): 1.0, ("mlp", "c"): 2.0, ("mlp", "d"): 3.0},
        {"scorer": dict.fromkeys(("dot", "mlp")), "scope": dict.fromkeys("abcd")},
    ),
}


@pytest.mark.parametrize(("values", "expected"), EFFECTS.values(), ids=EFFECTS)
def test_effects_are_of_the_cells_that_there_are(values, expected, write):
    means = level_means(only(write_grid(write, values, metric="loss")).rankings[0].effects)
    assert means == {name: pytest.approx(levels) for name, levels in expected.items()}


def test_an_option_of_one_part_belongs_to_that_part(write):
    """``additive``, the default, has no depth."""
    scorers: list[Any] = ["additive", {"name": "mlp", "depth": 1}, {"name": "mlp", "depth": 2}]
    comparison = only([write(str(n), float(n), scorer=scorer, metric="loss") for n, scorer in enumerate(scorers)])
    names = ["additive", "mlp, depth=1", "mlp, depth=2"]
    assert [setting.is_default for setting in comparison.settings] == [True, False, False]
    assert [setting.values for setting in comparison.settings] == [("additive", ABSENT), ("mlp", "1"), ("mlp", "2")]
    assert [setting.name for setting in comparison.settings] == names
    assert level_means(comparison.rankings[0].effects) == {
        "scorer, depth": pytest.approx(dict(zip(names, range(3), strict=True)))
    }


def test_a_baseline_without_the_parts_is_ranked_and_has_no_effects(write):
    """Two scorers by two scopes, and a setting without either, far behind: means are those of the grid alone."""
    values = {("dot", "global"): 1.0, ("dot", "local"): 3.0, ("mlp", "global"): 6.0, ("mlp", "local"): 8.5}
    grid = write_grid(write, values, metric="loss")
    comparison = only([*grid, write("none", 90.0, metric="loss")])
    main = comparison.rankings[0]
    assert [len(row.values) for row in main.rows] == [1] * 5
    assert main.effects == only(grid).rankings[0].effects
    assert level_means(main.effects)["scorer"] == {"dot": pytest.approx(2), "mlp": pytest.approx(7.25)}
    assert main.effects_summary[-1] == (
        "Left out of the effects, for want of a part that most settings have: **default**."
    )


def test_a_value_of_a_single_setting_has_no_effect(write):
    """Beside a grid of two scorers by two scopes, one setting has a third scorer, and one has both a fourth and a third
    scope. Without a grid, values of single settings are all there is."""
    values = {("dot", "global"): 1.0, ("dot", "local"): 3.0, ("mlp", "global"): 6.0, ("mlp", "local"): 8.5}
    grid = write_grid(write, values)
    single = [write("c-global", 50.0, scorer="cosine", scope="global"), write("g-far", 70.0, scorer="gmm", scope="far")]
    main = only([*grid, *single]).rankings[0]
    assert main.effects == only(grid).rankings[0].effects
    assert main.effects_summary[-1] == (
        "Left out of the effects, for having a value that no other setting has: **cosine, global**; **gmm, far**."
    )
    changes = only([grid[0], grid[1], single[0]]).rankings[0]
    assert list(level_means(changes.effects)["scorer"]) == ["dot", "cosine"]


def test_many_numeric_levels_are_grouped(write):
    """Twelve rates, as a search tries them: three in each quarter."""
    folders = [
        write(str(n), float(n // 3), optimizer={"name": "adam", "lr": (n + 1) / 100}, metric="loss") for n in range(12)
    ]
    (effect,) = only(folders).rankings[0].effects
    assert [(level.mean, level.settings) for level in effect.levels] == [(pytest.approx(n), 3) for n in range(4)]


def sweep_of(folder: Path, jobs: list[dict[str, Any]]) -> Path:
    record = {"format": 1, "name": folder.name, "command": "attnx -m", "overrides": [], "status": "failed"}
    (folder / "sweep.json").write_text(json.dumps({**record, "jobs": jobs}))
    return folder


def test_unfinished_runs_are_listed_and_counted(write, tmp_path):
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


def test_an_unfinished_job_is_of_the_setting_that_its_overrides_say(write):
    """A list of one name is that name, which is what a configuration has."""
    queries = {0: "token", 1: "last_context"}
    done = [write(f"s/{n}", 7.0 + n, query={name: {}}) for n, name in queries.items()]
    jobs = [{"index": n, "overrides": [f"query={name}", "seed=1"], "status": "finished"} for n, name in queries.items()]
    waiting = {"index": 2, "overrides": ["query=[token]", "seed=2"], "status": "waiting"}
    settings = only([sweep_of(done[0].parent, [*jobs, waiting])]).settings
    assert [setting.unfinished_seeds for setting in settings] == [[2], []]


def test_failures_of_a_setting_are_counted(write, tmp_path):
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
    ranked = [line.split(" | ")[1::3][:2] for line in lines if re.match(r"\| \d ", line)]
    assert ranked == [["dot", "2 of 3"], ["cosine", "3"]]
    assert "- scorer=dot seed=3: failed: not finite" in lines
    assert "- scorer=mlp: failed with 3 seeds (1, 2, 3): not finite" in lines
    rows = read_rows(tmp_path / "out" / "report.csv")
    assert [(row["seeds"], row["unfinished_seeds"]) for row in rows] == [("1 2", "3"), ("1 2 3", "")]


def test_a_report_without_finished_runs_is_written(write, tmp_path):
    _, text, table, *_ = write_report([write("only")])
    assert text.parent == tmp_path / "only"
    assert "No run is finished, so there is nothing to compare." in text.read_text()
    assert len(table.read_text().splitlines()) == 1


def test_text_and_table_hold_the_ranking(write, tmp_path):
    folders = three(write, additive=(0.9, 1.0, 1.1))
    write_report([tmp_path])
    page, text, table, tex, *_ = write_report([tmp_path])  # over the old one
    assert not list(tmp_path.glob("*.partial"))
    lines = text.read_text(encoding="utf-8").splitlines()
    gap = only(folders).rankings[0].rows[1].difference
    interval, p = f"{gap.low:.2f} to {gap.high:.2f}", f"{gap.p:.3f}"
    assert "| 1 | dot | 7.20 | 0.20 | 3 |  |  |  |  |" in lines
    assert f"| 2 | additive | 8.20 | 0.30 | 3 |  | 1.00 | {interval} | {p} |" in lines
    first, second = read_rows(table)
    assert (first["scorer"], first["test_per"], first["seeds"], first["test_per_p"]) == ("dot", "7.2", "0 1 2", "")
    assert (second["rank"], second["folders"]) == ("2", " ".join(map(str, folders[3:])))
    expected = geometric_mean(7.9, 8.2, 8.5) - geometric_mean(7.0, 7.2, 7.4)
    assert float(second["test_per_behind"]) == pytest.approx(expected, rel=1e-5)
    assert float(second["test_per_behind_low"]) == pytest.approx(gap.low, rel=1e-5)
    ends = [float(first[f"test_per_{end}"]) for end in ("low", "high")]
    assert math.prod(ends) ** 0.5 == pytest.approx(geometric_mean(7.0, 7.2, 7.4), rel=1e-4)
    bold = [line for line in tex.read_text(encoding="utf-8").splitlines() if "textbf" in line]
    assert len(bold) == 1
    interval = f"[{ends[0]:.2f}, {ends[1]:.2f}]"
    assert bold[0].startswith(rf"\textbf{{dot}} & \textbf{{7.20}} & 0.20 & 7.20 & {interval} & 3 & ")
    assert page.stat().st_size > 20_000


def test_the_mean_beside_an_interval_is_the_one_that_it_is_of(write, tmp_path):
    """One run that fails to learn moves the usual mean far out of the interval of the geometric one."""
    errors = [0.05] * 8 + [0.06, 60.0]
    write_seeds(write, {"dot": errors, "mlp": [2 * error for error in errors]})
    _, _, table, tex, *_ = write_report([tmp_path])
    first, _ = read_rows(table)
    usual, scaled, low, high = (float(first[f"test_per{end}"]) for end in ("", "_scale_mean", "_low", "_high"))
    assert usual == pytest.approx(sum(errors) / 10)
    assert scaled == pytest.approx(geometric_mean(*errors), rel=1e-6)
    assert low < scaled < high < usual
    lines = tex.read_text(encoding="utf-8").splitlines()
    assert "scorer & PER & sd & mean of logs & 95 \\% interval & seeds" in "\n".join(lines)
    cells = f"dot & {usual:.2f} & {statistics.stdev(errors):.2f} & {scaled:.2f} & [{low:.2f}, {high:.2f}]"
    assert any(line.startswith(cells) for line in lines)


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
def test_an_invalid_argument_is_reported_in_one_line(words, message, write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    write("run", 7.0)
    with pytest.raises(UserError, match=message) as raised:
        command(["report", *words])
    assert "\n" not in str(raised.value)


def test_the_command_prints_its_output_files(write, tmp_path, monkeypatch, capsys):
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


@pytest.mark.parametrize(("values", "lowest"), [([0.0, 12.0], 0.0), ([-8.0, 12.0], -8.0)])
def test_an_interval_of_accuracies_ends_where_nothing_is_right(values, lowest):
    """Or at the lowest one that was measured: that of parity is 0 for guessing."""
    metric = Metric("test_accuracy", "accuracy", is_higher_better=True, digits=2, unit="%")
    scale = choose_scale(metric, values, examples=100)
    assert scale.invert(50.0) == lowest
    assert [scale.invert(float(place)) for place in scale.apply(values)] == pytest.approx(values)
    assert metric.format(-1e-9) == "0.00"
