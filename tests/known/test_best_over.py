"""For each setting the value that is best in validation: chosen without the test, and counted."""

import csv
import json
import re
from pathlib import Path

import pytest

import attnx
from attnx.cli.main import run as command
from attnx.errors import UserError
from attnx.reports.sweep.comparison import Comparison
from tests.run_folder import write_run_folder

VALUES = {
    # By scorer and learning rate: PER in validation and on the test, of each seed.
    ("additive", 0.004): [(9.0, 9.5), (9.2, 9.7)],
    ("additive", 0.01): [(8.0, 8.5), (8.2, 8.7)],
    ("additive", 0.03): [(8.5, 7.0), (8.7, 7.2)],  # best on the test, which does not count
    ("dot", 0.004): [(7.0, 7.5), (7.2, 7.9)],
    ("dot", 0.01): [(6.0, 6.5), (None, None)],  # better, but a seed has failed
}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a run folder below ``all``; without a value in validation it has no curve, without one on the test none."""
    monkeypatch.chdir(tmp_path)

    def write_run(scorer: str, rate: float, seed: int, valid: float | None, test: float | None) -> Path:
        return write_run_folder(
            Path("all", f"{scorer}-{rate}-{seed}"),
            {"seed": seed, "scorer": {"name": scorer}, "optimizer": {"name": "adam", "lr": rate}},
            None if test is None else {"test_per": test, "test_examples": 5, "steps": 20},
            curve="" if valid is None else f"step,valid_per\n10,{valid}\n20,{valid + 1}\n",
            status="failed" if test is None else "finished",
        )

    return write_run


@pytest.fixture
def sweep(write):
    for (scorer, rate), runs in VALUES.items():
        for seed, (valid, test) in enumerate(runs):
            write(scorer, rate, seed, valid, test)
    return Path("all")


def only(folder: Path, *best_over: str) -> Comparison:
    (comparison,) = attnx.report(folder, [], best_over).comparisons
    return comparison


def test_validation_chooses_and_the_test_reports(sweep):
    """Of ``additive`` the rate that is best on the test is not taken, of ``dot`` not the one with a failed seed."""
    comparison = only(sweep, "optimizer.lr")
    assert comparison.keys == ["scorer"]
    assert comparison.columns == ["scorer", "lr", "tried"]
    rows = {row.setting.cells: row.mean for row in comparison.rankings[0].rows}
    assert rows == {("dot", "0.004", "2"): pytest.approx(7.7), ("additive", "0.01", "3"): pytest.approx(8.6)}
    assert [setting.name for setting in comparison.settings] == ["additive", "dot"]
    assert [setting.is_default for setting in comparison.settings] == [True, False]
    verdict = comparison.rankings[0].verdict
    assert (
        "Each setting has its best `optimizer.lr` in validation, of 2 to 3 tried; the test had no part in that."
        in verdict
    )
    assert "Fewer than 3 were tried of **dot** (2): more tries find better values, also by chance." in verdict
    assert not any("one beyond may be better" in sentence for sentence in verdict)  # two rates have no middle
    assert comparison.superseded == 0
    assert [effect.name for effect in comparison.rankings[0].effects] == ["scorer"]


def test_a_best_value_at_an_end_of_those_tried_is_named(sweep, write):
    write("additive", 0.1, 0, 7.0, 9.0)
    write("dot", 0.002, 0, 9.0, 9.0)
    text = "The best `optimizer.lr` of {} is the lowest or the highest tried: one beyond may be better."
    assert text.format("**additive**") in only(sweep, "optimizer.lr").rankings[0].verdict
    write("dot", 0.03, 0, 5.0, 9.0)
    assert text.format("**additive**; **dot**") in only(sweep, "optimizer.lr").rankings[0].verdict


def test_a_first_setting_at_an_end_of_a_range_is_named(sweep, write):
    sentence = "The first has the lowest or the highest `optimizer.lr` tried: one beyond may be better."
    assert only(sweep).rankings[0].rows[0].setting.values == ("additive", "0.03")
    assert sentence in only(sweep).rankings[0].verdict
    assert sentence not in only(sweep, "optimizer.lr").rankings[0].verdict  # which says it of each setting
    for seed in range(2):
        write("mlp", 0.01, seed, 7.0, 3.0 + seed)
    assert sentence not in only(sweep).rankings[0].verdict


def test_several_choices_are_chosen_together(sweep):
    (setting,) = only(sweep, "optimizer.lr", "scorer").settings
    assert (setting.cells, setting.name) == (("dot", "0.004", "5"), "default")


def test_the_files_say_what_was_chosen(sweep):
    """All of them; the table of runs has every run, so that another report may choose otherwise."""
    assert command(["report", "all", "--best-over", "optimizer.lr"]) == 0
    text = Path("all/report.md").read_text(encoding="utf-8")
    assert text.startswith("# all best over optimizer.lr: report")
    assert "| rank | scorer | lr | tried | PER | sd | seeds |" in text
    assert "| 1 | dot | 0.004 | 2 | 7.70 | " in text
    with Path("all/report.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["scorer"], row["optimizer.lr"], row["tried"]) for row in rows] == [
        ("dot", "0.004", "2"),
        ("additive", "0.01", "3"),
    ]
    assert "scorer & lr & tried & PER" in Path("all/report.tex").read_text(encoding="utf-8")
    page = re.search(r'id="data">(.*?)</script>', Path("all/report.html").read_text(encoding="utf-8"))
    assert page
    (comparison,) = json.loads(page[1])["comparisons"]
    assert (comparison["keys"], comparison["chosen_keys"]) == (["scorer"], ["lr", "tried"])
    assert [setting["chosen"] for setting in comparison["settings"]] == [["0.01", "3"], ["0.004", "2"]]
    assert len(Path("all/report.runs.csv").read_text(encoding="utf-8").splitlines()) == 1 + 10
    assert only(Path("all/report.runs.csv"), "optimizer.lr").settings[1].best_values == ("0.004",)


def test_a_setting_without_validation_is_left_out(sweep, write):
    write("mlp", 0.004, 0, None, 5.0)
    comparison = only(sweep, "optimizer.lr")
    assert [setting.name for setting in comparison.settings] == ["additive", "dot"]
    assert "Left out, since they were not validated: **mlp, lr=0.004**." in comparison.rankings[0].verdict


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["optimizer.rl"], "--best-over optimizer.rl: the runs do not differ in it; did you mean optimizer.lr"),
        (["optimizer.lr", "--best-over", "scope"], "--best-over scope: the runs do not differ in it"),
    ],
)
def test_a_choice_that_does_not_differ_is_refused(sweep, words, message):
    with pytest.raises(UserError, match=re.escape(message)):
        command(["report", str(sweep), "--best-over", *words])
    assert not Path("all/report.html").exists()


def test_runs_without_validation_are_refused(write):
    for rate in (0.004, 0.01):
        write("dot", rate, 0, None, 5.0)
    with pytest.raises(UserError, match=r"--best-over optimizer\.lr: no run has valid_per of validation, by which it"):
        command(["report", "all", "--best-over", "optimizer.lr"])
