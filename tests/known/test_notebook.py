"""What a notebook shows of runs, predictions and reports; every number by hand."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import attnx
from attnx.data.examples import Pair
from attnx.errors import UserError
from attnx.inference.predictor import Prediction, Predictions
from attnx.inference.trained_run import TrainedRun
from attnx.reports.pages.notebook import MAX_SYMBOLS, run_html
from attnx.runs.run import read_run
from tests.run_folder import write_run_folder

MARKUP = "<script>alert(1)</script>&\x1b[31m"
WEIGHTS = np.array([[0.25, 0.75], [1.0, 0.0]], np.float32)


class Fragment(HTMLParser):
    """The elements and texts of a fragment; it must be balanced, and load nothing."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements, self.texts, self.opened = list[str](), list[str](), list[str]()
        self.feed(text)
        assert not self.opened
        assert not {"script", "style", "img", "link", "iframe"} & set(self.elements)
        assert "\x1b" not in text
        assert not re.search(r"[^-]color:|background:(?!rgba\()", text), "a color fits a light or a dark notebook alone"

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.elements.append(tag)
        self.opened.append(tag)
        assert not any(name.startswith("on") for name, _ in attributes)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def write_run(folder: Path, per: float = 12.5, seed: int = 1, scorer: str = "dot", **info: Any) -> Path:
    config, results = {"scorer": {"name": scorer}, "seed": seed}, {"test_per": per, "test_examples": 5}
    results = {**results, "intervals": {"test_per": [per - 2, per + 2]}}
    return write_run_folder(folder, config, results, readme="# A run\n", **{"name": folder.name, **info})


def write_alignment(folder: Path, number: int, length: int) -> None:
    (folder / "alignments").mkdir(exist_ok=True)
    symbols = np.array([f"s{number}"] * length)
    arrays = {"weights": np.eye(length), "source": symbols, "output": symbols, "reference": symbols}
    np.savez(folder / "alignments" / f"{number:03d}.npz", **arrays)


def test_a_run_shows_status_options_and_results(tmp_path):
    folder = write_run(tmp_path / "mine", overrides=["+scorer=dot"])
    texts = Fragment(run_html(read_run(folder))).texts
    assert texts[0] == "mine"
    assert texts[1].startswith(", finished")
    assert "".join(texts).count(str(folder)) == 1
    for cells in (["scorer", "dot", "override"], ["seed", "1"], ["test_per", "12.5", "10.5 to 14.5"]):
        begin = texts.index(cells[0])
        assert texts[begin : begin + len(cells)] == cells


def test_a_run_shows_the_longest_alignment_that_fits(tmp_path):
    folder = write_run(tmp_path / "mine")
    assert "rgba" not in run_html(read_run(folder))
    for number, length in enumerate((2, 3, MAX_SYMBOLS + 1)):
        write_alignment(folder, number, length)
    text = run_html(read_run(folder))
    assert Fragment(text).texts.count("s1") == 6
    assert text.count("rgba(60,130,220,1.00)") == 3
    (folder / "alignments" / "001.npz").write_text("damaged")
    assert "rgba" not in run_html(read_run(folder))


def test_names_of_runs_are_escaped(tmp_path):
    folder = write_run(tmp_path / "mine", name=MARKUP, overrides=[f"name={MARKUP}"])
    assert Fragment(run_html(read_run(folder))).texts[0] == MARKUP.replace("\x1b", r"\x1b")


def test_a_run_that_is_gone_shows_its_name(tmp_path):
    run = TrainedRun.__new__(TrainedRun)
    run.model, run.folder = nn.Identity(), tmp_path / "gone"
    assert run._repr_html_() is None
    run.folder = Path("multirun/runs/mine")
    assert repr(run) == "TrainedRun('multirun/runs/mine')"


def test_a_prediction_shows_its_weights():
    pair = Pair(("c", MARKUP), ((),))
    second = Prediction(pair, ["K", "A"], -2.0, None)
    prediction = Prediction(pair, ["K"], -0.125, np.stack([WEIGHTS, WEIGHTS]), alternatives=(second,))
    fragment = Fragment(prediction._repr_html_())
    shown = MARKUP.replace("\x1b", r"\x1b")
    assert fragment.texts == [
        *("source", "output", "log-probability", f"c {shown}", "K", "-0.125", f"c {shown}", "K A", "-2"),
        *("c", shown, "K", "</s>"),
    ]
    assert re.findall(r"220,(.{4})", prediction._repr_html_()) == ["0.25", "0.75", "1.00", "0.00"]


def test_predictions_are_a_table_and_a_list():
    matrix = Prediction(Pair((), ((),), name="a.csv"), np.zeros((3, 2), np.float32), 0.0, None)
    predictions = Predictions([matrix])
    assert predictions == [matrix]
    assert Fragment(predictions._repr_html_()).texts[3:] == ["a.csv", "3 steps of 2 numbers", "0"]
    assert Predictions()._repr_html_() == ""


@pytest.fixture
def scorers(tmp_path):
    """Two scorers of two seeds each, far apart; a run failed."""
    for number, (scorer, seed, per) in enumerate(
        [("dot", 1, 9.0), ("dot", 2, 9.5), ("mlp", 1, 20.0), ("mlp", 2, 20.5)]
    ):
        write_run(tmp_path / "all" / str(number), per, seed, scorer)
    failed = write_run(tmp_path / "all" / "4", status="failed", error=MARKUP)
    (failed / "results.json").unlink()
    return tmp_path / "all"


def test_a_report_has_the_ranking_and_the_tests(scorers):
    files = sorted(scorers.rglob("*"))
    report = attnx.report(scorers)
    assert (report.title, len(report.runs), len(report.comparisons)) == ("all", 5, 1)
    assert [row.mean for row in report.ranking.rows] == [9.25, 20.25]
    assert report.ranking.verdict[0].startswith("Take **dot**, which won")
    assert str(report).startswith("# all: report")
    assert repr(report) == "Report('all', 5 runs)"
    assert attnx.report([scorers / "0", scorers / "1"]).title == "0 and 1"
    assert sorted(scorers.rglob("*")) == files


def test_a_report_shows_conclusions_and_rankings(scorers):
    texts = Fragment(attnx.report(str(scorers))._repr_html_()).texts
    assert texts[:2] == ["all", ": 5 runs: 4 finished, 1 failed"]
    assert texts[texts.index("dot") + 1].startswith(", which won")
    begin = texts.index("rank")
    assert texts[begin : begin + 3] == ["rank", "scorer", "PER"]
    assert "11.00" in texts
    assert texts[-1] == r"4: failed: <script>alert(1)</script>&\x1b[31m"


def test_a_report_of_nothing_is_refused(tmp_path):
    with pytest.raises(UserError, match="neither a run nor a sweep"):
        attnx.report(tmp_path)
    write_run(tmp_path / "one", status="failed")
    (tmp_path / "one" / "results.json").unlink()
    report = attnx.report(tmp_path)
    assert report.ranking is None
    assert "failed" in "".join(Fragment(report._repr_html_()).texts)
