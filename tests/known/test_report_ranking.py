"""The report of runs that were written by hand: what varies, who won and how surely, and what each choice does."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from attnx.cli import run as command
from attnx.errors import UserError
from attnx.read_sweep import Sweep, SweepJob
from attnx.reports.seeds import EXAMPLES, PAIRED
from attnx.reports.sweep.comparison import Comparison, comparisons
from attnx.reports.sweep.effects import Effect
from attnx.reports.sweep.gather import choices, gather
from attnx.reports.sweep.settings import ABSENT, varied
from attnx.reports.sweep.tested import rate, read_tested
from attnx.reports.sweep.write import write_report
from attnx.sweeps.record import save

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a run folder: ``write("a", 7.5, seed=1, scorer="dot")``; lists of edits are its predictions."""

    def write_run(
        name: str, value: float | None = None, seed: int = 1, edits: list[int] | None = None, **info: Any
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        chosen = {
            key: node for key in ("scorer", "scope", "query", "optimiser", "task") if (node := info.pop(key, None))
        }
        config = {key: {"name": node} if isinstance(node, str) else node for key, node in chosen.items()}
        (folder / "config.yaml").write_text(yaml.safe_dump({"seed": seed, "name": name, **config}))
        measure, rest = info.pop("measure", "per"), info.pop("results", {})
        status = "failed" if value is None else "finished"
        told = {"format": 1, "status": status, "monitor": f"valid_{measure}", "maximise": False, "created": "2031"}
        (folder / "run.json").write_text(json.dumps({**told, **info}))
        if value is not None:
            (folder / "results.json").write_text(json.dumps({f"test_{measure}": value, "test_examples": 5, **rest}))
        if edits is not None:
            words = info.get("words", range(len(edits)))
            lines = [f"{word}\tA\tA\t{edit}\t-1" for word, edit in zip(words, edits, strict=True)]
            head = "source\tprediction\treferences\tedits\tlog_probability"
            (folder / "predictions.tsv").write_text("\n".join([head, *lines]) + "\n")
        return folder

    return write_run


def only(folders: list[Path]) -> Comparison:
    (found,) = comparisons(gather(folders))
    return found


def names(found: Comparison) -> list[str]:
    return [found.settings[row.place].name for row in found.judged[0].rows]


def test_a_run_that_cannot_be_read_is_no_reason_to_leave_out_the_others(write: Write, tmp_path: Path) -> None:
    write("whole", 7.0)
    write("newer", 7.0, format=999)
    newer, whole = gather([tmp_path])
    assert (whole.status, whole.results["test_per"]) == ("finished", 7.0)
    assert newer.status == "unreadable"
    assert "newer" in newer.error
    with pytest.raises(UserError, match="newer"):
        gather([tmp_path / "newer"])


def test_a_folder_holds_its_sweeps_and_the_single_runs_of_its_runs(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``multirun`` does; the report lies in it, and so does what it names."""
    monkeypatch.chdir(tmp_path)
    write("multirun/scorers/0", 7.0, scorer="dot")
    write("multirun/runs/mine", 8.0, scorer="additive")
    write("multirun/runs/broken", None, error="it fell over")
    save(Sweep(Path("multirun/scorers"), "attnx -m", [], jobs=[SweepJob(0, ["scorer=dot"], "finished")]))
    assert {str(run.path) for run in gather(["multirun"])} == {
        "multirun/scorers/0",
        "multirun/runs/mine",
        "multirun/runs/broken",
    }
    assert {run.path.name for run in gather(["multirun/runs"])} == {"mine", "broken"}
    page, text, _ = write_report(["multirun"])
    assert page == Path("multirun/report.html")
    assert "3 runs: 1 failed, 2 finished." in text.read_text(encoding="utf-8")
    assert '"multirun/runs/mine"' in page.read_text(encoding="utf-8")
    Path("multirun/empty/runs").mkdir(parents=True)
    with pytest.raises(UserError, match="neither a run nor a sweep, and holds none"):
        gather(["multirun/empty"])


def three(write: Write, better: tuple[float, ...] = (7.0, 7.2, 7.4), **others: float) -> list[Path]:
    """Settings with three seeds each: ``dot`` as given, others so much behind in each seed."""
    folders = [write(f"dot{seed}", value, seed, scorer="dot") for seed, value in enumerate(better)]
    for name, gaps in others.items():
        values = zip(better, gaps, strict=True)  # type: ignore[call-overload]
        folders += [write(f"{name}{seed}", value + gap, seed, scorer=name) for seed, (value, gap) in enumerate(values)]
    return folders


def test_what_varies_is_found() -> None:
    """A part by its name, a knob only where runs with the same part differ in it, a set by its names, never a seed."""
    token, same = {"token": {"width": 3}}, {"task": {"name": "g2p"}}
    runs: list[dict[str, Any]] = [
        {"seed": 1, "scorer": {"name": "mlp", "depth": 1, "bias": True}, "query": token, **same},
        {"seed": 2, "scorer": {"name": "mlp", "depth": 2, "bias": True}, "query": token, **same},
        {"seed": 3, "scorer": {"name": "dot"}, "query": {**token, "last_context": {}}, **same},
    ]
    assert varied([choices(run) for run in runs]) == ["scorer", "scorer.depth", "query"]
    assert [choices(run)["query"] for run in runs] == ["token", "token", "token+last_context"]


def test_runs_that_differ_by_their_seed_are_one_setting(write: Write) -> None:
    found = only(three(write, (7.0, 7.2, 7.4), additive=(0.3, 0.4, 0.5)))
    assert found.keys == ["scorer"]
    assert names(found) == ["dot", "additive"]
    first, second = found.judged[0].rows
    assert (first.mean, first.sd) == (pytest.approx(7.2), pytest.approx(0.2))
    assert first.behind is None
    # Behind by 0.3, 0.4, 0.5: 0.4 on average, with an error of 0.1 / sqrt 3, so t^2 is 48.
    assert second.behind is not None
    assert (second.behind.difference, second.behind.test) == (pytest.approx(0.4), PAIRED)
    assert second.behind.p == pytest.approx(1 - math.sqrt(48 / 50))
    assert second.behind.p < 0.05


def test_data_that_follow_from_their_file_are_not_named_besides() -> None:
    def run(train: str, data: str, scorer: str = "dot") -> dict[str, str]:
        return {"task.train": train, "training data": data, "scorer": scorer}

    assert varied([run("a.tsv", "data 1"), run("b.tsv", "data 2")]) == ["task.train"]
    # The file was changed between two runs, so that what they differ in is not their scorer alone.
    changed = [run("a.tsv", "data 1"), run("a.tsv", "data 2", "mlp")]
    assert varied(changed) == ["scorer", "training data"]


def test_a_winner_is_named(write: Write) -> None:
    found = only(three(write, additive=(0.3, 0.4, 0.5)))
    reach = math.sqrt(2 * 0.95**2 / (1 - 0.95**2)) * 0.1 / math.sqrt(3)
    assert found.judged[0].verdict == [
        "**dot** won: PER 7.20 ± 0.20 % over 3 seeds, 0.40 better than the next, **additive** "
        f"(95 % interval {0.4 - reach:.2f} to {0.4 + reach:.2f}, p = 0.020).",
        "It is clearly better (p < 0.05) than the other. The test: paired t-test over the seeds that both were trained "
        "with.",
    ]


def test_p_values_are_corrected_for_how_many_there_are(write: Write) -> None:
    """Alone p is 0.0202 for ``additive``; of two comparisons it is the smaller one, so twice that."""
    found = only(three(write, additive=(0.3, 0.4, 0.5), mlp=(-0.8, 0.9, 2.0)))
    rows = {found.settings[row.place].name: row for row in found.judged[0].rows}
    assert rows["additive"].behind is not None
    assert rows["additive"].behind.p == pytest.approx(2 * (1 - math.sqrt(48 / 50)))
    first, second, third = found.judged[0].verdict
    assert first == (  # mlp is behind by -0.8, 0.9, 2.0: 0.7, its error 1.4107 / sqrt 3, so t^2 is 0.7386
        "No winner can be named: **dot** is first with PER 7.20 ± 0.20 % over 3 seeds, but it cannot be told "
        "from **mlp** (0.70 behind, p = 0.48)."
    )
    assert "than 1 of the 2 others" in second
    assert "corrected for 2 comparisons (Holm)" in second
    assert "seeds would tell the first two apart" in third


def test_with_one_seed_it_is_the_test_examples_that_tell(write: Write) -> None:
    """100 of 400 words only the second has wrong: 25 points, with an error of 100 sqrt(0.25 0.75 / 400)."""
    folders = [
        write("one", 0.0, scorer="dot", edits=[0] * 400, measure="wer"),
        write("two", 25.0, scorer="additive", edits=[3] * 100 + [0] * 300, measure="wer"),
    ]
    found = only(folders)
    gap = found.judged[0].rows[1].behind
    assert gap is not None
    assert (gap.difference, gap.test) == (25, EXAMPLES)
    assert gap.high - gap.difference == pytest.approx(1.96 * 100 * math.sqrt(0.25 * 0.75 / 400), rel=0.1)
    first, second, third = found.judged[0].verdict
    assert first.startswith("**dot** won on these test examples: WER 0.00 % with one seed, 25.00 better than the next")
    assert "paired bootstrap over the test examples, since there is one seed" in second
    assert "does not say whether other seeds would end alike" in third


def test_words_that_both_have_wrong_tell_nothing(write: Write) -> None:
    """Wrong in the same 200 words and each in 20 others: pairing leaves only these, and they are even."""
    one, two = [1] * 200 + [1] * 20 + [0] * 180, [1] * 200 + [0] * 20 + [1] * 20 + [0] * 160
    folders = [
        write(str(n), 55.0, scorer=s, edits=e, measure="wer") for n, (s, e) in enumerate([("dot", one), ("mlp", two)])
    ]
    gap = only(folders).judged[0].rows[1].behind
    assert gap is not None
    assert (gap.difference, gap.p) == (0, 1)
    assert gap.high == pytest.approx(1.96 * 100 * math.sqrt(40) / 400, rel=0.1)
    assert only(folders).judged[0].verdict[0].startswith("No winner can be named")


def test_what_cannot_be_counted_again_was_kept_by_the_test(write: Write) -> None:
    """A BLEU of other draws, the same for both; of a run that was tested in another order they are others."""
    drawn, random = {}, np.random.default_rng(0)
    common = random.normal(0, 3, 2000)  # what both have in common is paired away
    for name, value, order in (("dot", 30.0, "pqr"), ("mlp", 28.0, "pqr"), ("concat", 29.0, "qpr")):
        folder = write(name, value, scorer=name, edits=[1, 1, 1], words=order, measure="bleu", maximise=True)
        drawn[name] = value + common + random.normal(0, 0.5, 2000)
        np.savez(folder / "resampled.npz", test_bleu=drawn[name])
    folders = [Path(folder) for folder in (folder.parent / "dot", folder.parent / "mlp", folder.parent / "concat")]
    first, second = only(folders[:2]).judged[0].rows
    assert first.behind is None
    assert second.behind is not None
    assert (second.behind.difference, second.behind.test) == (2, EXAMPLES)
    assert second.behind.high - 2 == pytest.approx(1.96 * np.std(drawn["dot"] - drawn["mlp"], ddof=1))
    assert only(folders[:2]).judged[0].verdict[0].startswith("**dot** won on these test examples: BLEU 30.00")
    assert [row.behind for row in only(folders).judged[0].rows] == [None] * 3
    (folders[0] / "resampled.npz").write_bytes(b"no archive")
    assert [row.behind for row in only(folders[:2]).judged[0].rows] == [None] * 2


def test_one_seed_and_no_predictions_tell_nothing(write: Write) -> None:
    found = only([write("one", 7.0, scorer="dot"), write("two", 9.0, scorer="mlp")])
    first, second = found.judged[0].verdict
    assert first == (
        "**dot** is first with PER 7.00 % with one seed, but how surely cannot be told: with one seed each and no "
        "predictions that this measure can be counted from again."
    )
    assert second == "Train each with several seeds, `seed=1,2,3`, to know."


def test_predictions_that_do_not_give_the_value_are_not_used(write: Write) -> None:
    folders = [
        write(str(n), value, scorer=s, edits=[0] * 5, measure="wer")
        for n, (s, value) in enumerate([("dot", 0.0), ("mlp", 9.0)])
    ]
    assert only(folders).judged[0].rows[1].behind is None


def test_one_setting_has_nothing_to_be_compared_with(write: Write) -> None:
    found = only([write(str(seed), value, seed, scorer="dot") for seed, value in ((1, 7.0), (2, 9.0))])
    assert found.judged[0].verdict == [
        "There is one setting, **as asked**, and nothing to compare it with: PER 8.00 ± 1.41 % over 2 seeds."
    ]


def test_more_can_be_better(write: Write) -> None:
    folders = [
        write(f"{name}{seed}", value, seed, scorer=name, measure="bleu", maximise=True)
        for name, values in {"dot": (30.0, 31.0), "mlp": (25.0, 26.5)}.items()
        for seed, value in enumerate(values)
    ]
    found = only(folders)
    assert names(found) == ["dot", "mlp"]
    assert found.judged[0].rows[1].behind is not None
    assert found.judged[0].rows[1].behind.difference == pytest.approx(4.75)


def test_other_test_data_are_not_compared(write: Write, tmp_path: Path) -> None:
    """The same words in another order are the same data; other words are others."""
    folders = [
        write("a", 0.0, scorer="dot", edits=[0, 0], words=["p", "q"], measure="wer"),
        write("b", 50.0, scorer="mlp", edits=[0, 1], words=["q", "p"], measure="wer"),
        write("c", 0.0, scorer="mlp", edits=[0, 0], words=["p", "r"], measure="wer"),
    ]
    found = comparisons(gather(folders))
    assert [len(one.settings) for one in found] == [2, 1]
    page, text, _ = write_report(folders, tmp_path / "out")
    assert "They were tested on 2 different data, which are not compared with each other." in text.read_text()
    assert page.is_file()


def test_the_later_of_two_equal_runs_counts(write: Write) -> None:
    folders = [write("old", 9.0, created="2030", scorer="dot"), write("new", 7.0, created="2032", scorer="dot")]
    found = only(folders)
    assert [row.values for row in found.judged[0].rows] == [{1: 7.0}]
    assert found.again == 1


def told(effects: list[Effect]) -> dict[str, dict[str, float | None]]:
    return {effect.name: {level.value: level.mean for level in effect.levels} for effect in effects}


def test_the_effect_of_a_choice_is_its_mean_over_the_rest(write: Write) -> None:
    """Two seeds, one above and one below by 1: a variance of 2, pooled over four settings, so 4 degrees of freedom.

    A setting's mean has variance 1, the mean of two of them 1/2; t is 2.776445 from tables.
    """
    values = {("dot", "global"): 1, ("dot", "local"): 3, ("mlp", "global"): 5, ("mlp", "local"): 11}
    folders = [
        write(f"{a}-{b}-{seed}", 10 + value + side, seed, scorer=a, scope=b)
        for ((a, b), value), (seed, side) in product(values.items(), ((1, -1), (2, 1)))
    ]
    effects = only(folders).judged[0].effects
    assert told(effects) == {
        "scorer": {"dot": pytest.approx(12), "mlp": pytest.approx(18)},
        "scope": {"global": pytest.approx(13), "local": pytest.approx(17)},
    }
    dot = effects[0].levels[0]
    assert dot.low is not None
    assert dot.mean is not None
    assert dot.mean - dot.low == pytest.approx(2.776445 * math.sqrt(1 / 2), rel=1e-5)


def test_a_grid_with_a_hole_is_filled_by_what_the_rest_says(write: Write) -> None:
    """Local adds 2, mlp adds 5: so does the fourth, which is missing. Plain means would make it 6 for mlp."""
    values = {("dot", "global"): 1.0, ("dot", "local"): 3.0, ("mlp", "global"): 6.0}
    folders = [write(f"{a}-{b}", value, scorer=a, scope=b) for (a, b), value in values.items()]
    assert told(only(folders).judged[0].effects) == {
        "scorer": {"dot": pytest.approx(2), "mlp": pytest.approx(7)},
        "scope": {"global": pytest.approx(3.5), "local": pytest.approx(5.5)},
    }


def test_what_always_changes_together_is_one_choice(write: Write) -> None:
    folders = [
        write(str(n), value, scorer=a, scope=b)
        for n, (a, b, value) in enumerate([("dot", "global", 1.0), ("mlp", "local", 3.0)])
    ]
    expected = {"dot, global": pytest.approx(1), "mlp, local": pytest.approx(3)}
    assert told(only(folders).judged[0].effects) == {"scorer, scope": expected}


def test_what_cannot_be_told_apart_is_not_told(write: Write) -> None:
    """Each scorer was tried with scopes of its own, so nothing parts its share from theirs."""
    grid = [("dot", "a"), ("dot", "b"), ("mlp", "c"), ("mlp", "d")]
    folders = [write(str(n), float(n), scorer=scorer, scope=scope) for n, (scorer, scope) in enumerate(grid)]
    effects = told(only(folders).judged[0].effects)
    assert set(effects["scorer"].values()) == set(effects["scope"].values()) == {None}


def test_a_knob_that_one_part_has_goes_with_its_part(write: Write) -> None:
    scorers: list[Any] = ["dot", {"name": "mlp", "depth": 1}, {"name": "mlp", "depth": 2}]
    found = only([write(str(n), float(n), scorer=scorer) for n, scorer in enumerate(scorers)])
    assert [setting.values for setting in found.settings] == [("dot", ABSENT), ("mlp", "1"), ("mlp", "2")]
    assert [setting.name for setting in found.settings] == ["dot", "mlp, depth=1", "mlp, depth=2"]
    assert told(found.judged[0].effects) == {
        "scorer, depth": {"dot": pytest.approx(0), "mlp, depth=1": pytest.approx(1), "mlp, depth=2": pytest.approx(2)}
    }


def test_many_numbers_are_looked_at_in_groups(write: Write) -> None:
    """Twelve rates, as a search tries them: three in each quarter."""
    folders = [write(str(n), float(n // 3), optimiser={"name": "adam", "lr": (n + 1) / 100}) for n in range(12)]
    (effect,) = only(folders).judged[0].effects
    assert [(level.mean, level.settings) for level in effect.levels] == [(pytest.approx(n), 3) for n in range(4)]


def test_rates_are_counted_again_by_language(tmp_path: Path) -> None:
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
    held = {"format": 1, "name": folder.name, "command": "attnx -m", "overrides": [], "status": "failed", "jobs": jobs}
    (folder / "sweep.json").write_text(json.dumps(held))
    return folder


def test_what_did_not_finish_is_listed_and_counted(write: Write, tmp_path: Path) -> None:
    """In a sweep, one job done, one failed, one that never began; and a loose run that was cut off beside it."""
    done, failed = write("s/0", 7.0, scorer="dot"), write("s/1", scorer="mlp")
    (failed / "log.txt").write_text("Traceback")
    asked = [{"number": n, "overrides": [f"scorer={name}"]} for n, name in enumerate(["dot", "mlp", "cosine"])]
    states = [{"status": "finished"}, {"status": "failed", "error": "the loss is not finite"}, {"status": "waiting"}]
    sweep = sweep_of(done.parent, [job | state for job, state in zip(asked, states, strict=True)])
    loose = write("loose", scorer="mlp", status="interrupted")
    page, text, table = write_report([sweep, loose, sweep], tmp_path / "here.html")
    assert [path.name for path in (page, text, table)] == ["here.html", "here.md", "here.csv"]
    lines = text.read_text().splitlines()
    assert "4 runs: 1 finished, 1 failed, 1 waiting, 1 interrupted." in lines
    assert f"- scorer=mlp: failed: the loss is not finite; see `{failed / 'log.txt'}`" in lines
    assert "- scorer=cosine: waiting" in lines
    assert "- loose: interrupted" in lines


def test_nothing_finished_is_a_report_too(write: Write, tmp_path: Path) -> None:
    _, text, table = write_report([write("only")])
    assert text.parent == tmp_path / "only"
    assert "No run is finished, so there is nothing to compare." in text.read_text()
    assert len(table.read_text().splitlines()) == 1


def test_text_and_table_hold_the_ranking(write: Write, tmp_path: Path) -> None:
    folders = three(write, additive=(0.3, 0.4, 0.5))
    write_report([tmp_path])
    page, text, table = write_report([tmp_path])  # over the old one
    assert not list(tmp_path.glob("*.partial"))
    lines = text.read_text(encoding="utf-8").splitlines()
    assert "| 1 | dot | 7.20 | 0.20 | 3 |  |  |" in lines
    assert "| 2 | additive | 7.60 | 0.30 | 3 | 0.40 | 0.020 |" in lines
    with table.open(encoding="utf-8", newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["scorer"], first["test_per"], first["seeds"], first["test_per_p"]) == ("dot", "7.2", "0 1 2", "")
    assert (second["rank"], second["test_per_behind"], second["folders"]) == (
        "2",
        "0.4",
        " ".join(map(str, folders[3:])),
    )
    assert page.stat().st_size > 20_000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "say what to compare"),
        (["nowhere"], "nowhere: not a folder"),
        (["empty"], "empty: neither a run nor a sweep, and holds none"),
        (["empty", "--outt=x"], "unknown flag --outt; did you mean --out"),
        (["run", "out=run/run.json"], "cannot be written"),
    ],
)
def test_nonsense_is_told_in_one_line(
    words: list[str], said: str, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    write("run", 7.0)
    with pytest.raises(UserError, match=said) as raised:
        command(["report", *words])
    assert "\n" not in str(raised.value)


def test_the_command_says_where_it_wrote(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write("all/run", 7.0)
    write("all/other", 8.0, scorer="dot")
    assert command(["report", "all/run", "all/other"]) == 0
    assert capsys.readouterr().out.splitlines() == ["all/report.html", "all/report.md", "all/report.csv"]
    assert command(["report", "all", "out=there"]) == 0
    assert Path("there/report.html").is_file()
