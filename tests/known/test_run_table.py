"""Tables of runs: a report of the table equals that of the folders, and each wrong row is refused by its line."""

import csv
import json
import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import attnx
from attnx.cli.main import run as command
from attnx.errors import UserError
from attnx.reports.run.evaluated_examples import LengthErrors
from attnx.reports.sweep.load_runs import load_runs
from attnx.reports.sweep.run_record import RunRecord
from attnx.reports.sweep.run_table import table_text
from attnx.runs.info import RunStatus
from attnx.runs.layout import ALIGNMENTS
from attnx.runs.run import JobProgress
from tests.run_folder import write_run_folder

RUN_3 = ("dot", "local", 2)
WORDS = ["a\tA\tA\t0\t-1", "b\tA\tB\t1\t-1", "a b\tA\tA B\t1\t-1"]


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a run folder: ``write("all/0", 7.5, seed=2, scorer="dot")``; without a value the run has failed."""
    monkeypatch.chdir(tmp_path)

    def write_run(name: str, value: float | None, seed: int = 1, scorer: str = "dot", scope: str = "global") -> Path:
        parts = {"scorer": {"name": scorer, "hidden_size": 8}, "scope": {"name": scope}, "task": {"name": "g2p"}}
        info = {"fingerprint": "f00d", "created": f"2031-01-0{seed}", "machine": "2 cores of Turing"}
        info["git"] = {"commit": "0123456789abcdef", "changed": seed == 2}
        files: dict[str, Any] = {}
        if value is None:
            info |= {"status": "failed", "error": "the loss was not finite"}
        else:
            results = {"test_per": value, "test_wer": 2 * value, "steps": 50, "test_examples": 3}
            files["results"] = {**results, "intervals": {"test_wer": [1.5, 30.25]}}
            files |= {"predictions": WORDS, "curve": "step,valid_per\n5,7.75\n10,9.5\n20,8.5\n30,8\n40,8.25\n"}
        folder = write_run_folder(name, {"seed": seed, **parts}, **files, **info)
        (folder / ALIGNMENTS).mkdir()
        return folder

    return write_run


def read_text(text: str, encoding: str = "utf-8") -> list[RunRecord]:
    """The runs of a table with this text."""
    Path("t.csv").write_text(text, encoding=encoding)
    return load_runs(["t.csv"])


@pytest.fixture
def table(write):
    """Of two scorers in two scopes with two seeds, and a failed run."""
    grid = product(("dot", "mlp"), ("global", "local"), (1, 2))
    for index, (scorer, scope, seed) in enumerate(grid):
        write(f"all/{index}", 5 + index + 0.1 * seed, seed, scorer, scope)
    write("all/failed", None, 3, "dot", "local")
    assert command(["report", "all"]) == 0
    return Path("all/report.runs.csv")


def test_a_table_says_what_its_folders_say(table):
    """Conclusions, ranking, effects and failures are equal; only the links to folders differ."""
    both = attnx.report("all"), attnx.report(table)
    assert [row.mean for row in both[1].ranking.rows] == pytest.approx([5.65, 7.65, 9.65, 11.65])
    assert all("the loss was not finite" in str(report) for report in both)
    texts = [str(report).partition("## 3 test examples")[2].partition("## Not finished")[0] for report in both]
    lines = [[line for line in text.splitlines() if line and "other test examples" not in line] for text in texts]
    assert lines[0] == lines[1] != []


def test_a_row_has_all_of_its_run(table):
    (run,) = [run for run in load_runs([table]) if (run.choices["scorer"], run.choices["scope"], run.seed) == RUN_3]
    assert run.results == {"test_per": 8.2, "test_wer": 16.4, "steps": 50, "test_examples": 3}
    assert run.intervals == {"test_wer": (1.5, 30.25)}
    assert run.curves == {"valid_per": {5: 7.75, 20: 8.5, 30: 8.0, 40: 8.25}}
    assert run.examples.length_errors == {1: LengthErrors(2, 1, 1, 2), 2: LengthErrors(1, 1, 1, 2)}
    facts = (run.commit, run.machine, run.data, run.created)
    assert facts == ("0123456789ab+", "2 cores of Turing", "f00d", "2031-01-02")
    (folder,) = load_runs(["all/3"])
    assert (run.commit, run.test) == (folder.commit, folder.test)
    assert run.examples.length_errors == folder.examples.length_errors


def test_tables_and_folders_merge(table, write):
    """The later of two runs with the same setting and seed counts, wherever it lies."""
    added = write("more/0", 4.0, 3, "mlp", "global")
    report = attnx.report([table, added])
    values = {row.setting.values: row.values for row in report.ranking.rows}
    assert values["mlp", "global"] == pytest.approx({1: 9.1, 2: 10.2, 3: 4.0})
    assert len(load_runs([table, table])) == 9


def test_tables_of_other_constant_choices_merge_as_their_folders(write):
    """``first`` has one scope and ``second`` the other: neither table varies it, both together do."""
    for index, (name, scope) in enumerate(product(("first", "second"), ("global", "local"))):
        if (name == "first") is (scope == "global"):
            for seed in (1, 2):
                for scorer in ("dot", "mlp"):
                    write(f"{name}/{scorer}{seed}", 5.0 + index + seed, seed, scorer, scope)
    assert command(["report", "first"]) == command(["report", "second"]) == 0
    tables, folders = (attnx.report([f"first{file}", f"second{file}"]) for file in ("/report.runs.csv", ""))
    assert [s.values for s in tables.ranking.settings] == [s.values for s in folders.ranking.settings]
    assert len(tables.ranking.settings) == 4
    both = attnx.report(["first", "first/report.runs.csv"])
    assert all(run.path.is_dir() for setting in both.ranking.settings for run in setting.runs)


def test_unfinished_runs_of_a_table_differ(write):
    """Two that have not started, of scorers of which only one has finished."""
    write("all/0", 5.0, 1, "dot")
    for scorer in ("mlp", "additive"):
        folder = write(f"all/{scorer}", None, 1, scorer)
        info = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps({**info, "created": ""}))
    assert command(["report", "all"]) == 0
    assert len(load_runs(["all/report.runs.csv"])) == 3


@pytest.mark.parametrize(("word", "is_higher"), [("TRUE", True), ("True", True), ("FALSE", False), ("false", False)])
def test_programs_write_words_of_truth_in_several_ways(word, is_higher, table):
    runs = read_text(table.read_text(encoding="utf-8").replace(",false,", f",{word},"))
    assert {run.maximize for run in runs} == {is_higher}


def test_a_table_keeps_a_choice_that_has_the_name_of_a_fact(table):
    """The budget that was chosen is another thing than what ended a run."""
    runs = load_runs([table])
    runs = [replace(run, choices={**run.choices, "budget": budget}) for budget in ("steps", "time") for run in runs]
    text = table_text(runs, ["scorer", "scope", "budget"])
    names = text.splitlines()[0].split(",")
    assert len(set(names)) == len(names)
    Path("t.csv").write_text(text, encoding="utf-8")
    (comparison,) = attnx.report("t.csv").comparisons
    assert (set(comparison.keys), len(comparison.settings)) == ({"scorer", "scope", "budget"}, 8)


def test_a_copied_run_has_one_row(table):
    runs = load_runs([table])
    assert len(read_text(table_text([*runs, *runs], ["scorer", "scope"]))) == len(runs)


def test_a_long_cell_is_read(table):
    """More characters than Python's reader allows by itself."""
    head, first, *_ = table.read_text(encoding="utf-8").splitlines()
    cells = first.split(",")
    cells[head.split(",").index("length_errors")] = " ".join(f"{length}:1/0/0/7" for length in range(1, 20_000))
    (run,) = read_text(f"{head}\n{','.join(cells)}\n")
    assert len(run.examples.length_errors) == 19_999


def test_an_empty_cell_is_a_value(table):
    """Rows without an option that rows with the same parts have are settings of their own, not the same runs again."""
    runs = [run for run in load_runs([table]) if run.status == RunStatus.FINISHED]
    further = [replace(run, choices={**run.choices, "attention.hops": "2"}) for run in runs]
    text = table_text([*runs, *further], ["attention.hops", "scorer", "scope"])
    Path("hops.csv").write_text(text, encoding="utf-8")
    (comparison,) = attnx.report("hops.csv").comparisons
    assert comparison.keys == ["attention.hops", "scorer", "scope"]
    assert (len(comparison.settings), comparison.superseded) == (2 * 4, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [*lines, lines[2]], r"t\.csv:11: the same run as in line 3; delete one of them"),
        (lambda lines: [lines[0], lines[1] + ",7"], r"t\.csv:2: \d+ cells where \d+ were expected"),
        (lambda lines: [lines[0], lines[1].replace("5.1", "five")], r"t\.csv:2: cannot be read: .*'five'"),
        (lambda lines: [lines[0], lines[1].replace("finished", "fine")], r"t\.csv:2: .* 'fine' is no status"),
        (lambda lines: [lines[0], lines[1].replace("false", "no")], r"t\.csv:2: .* 'no' is neither true nor false"),
        (lambda lines: [lines[0].replace("seed", "sed")], r"t\.csv:1: .* no column 'seed'; did you mean sed\?"),
        (lambda lines: [], r"t\.csv:1: not a table of runs"),
    ],
)  # fmt: skip
def test_a_wrong_row_is_refused_by_its_line(table, change, message):
    lines = table.read_text(encoding="utf-8").splitlines()
    Path("t.csv").write_text("".join(f"{line}\n" for line in change(lines)), encoding="utf-8")
    with pytest.raises(UserError, match=message):
        command(["report", "t.csv", "--out", "elsewhere"])
    assert not Path("elsewhere").exists()


def test_a_table_from_a_spreadsheet_is_read(table):
    """With a byte order mark, and with what is not a number, which run folders do not have either."""
    head, first, *rows = table.read_text(encoding="utf-8").splitlines()
    column = head.split(",").index("steps")
    cells = [cell if index != column else "nan" for index, cell in enumerate(first.split(","))]
    runs = read_text("\n".join([head, ",".join(cells), *rows]), "utf-8-sig")
    assert [run.choices for run in runs] == [run.choices for run in load_runs([table])]
    assert ["steps" in run.results for run in runs[:2]] == [False, True]


def test_no_cell_is_a_formula(table):
    """Of a spreadsheet, which computes a text that begins so; attnx reads the choice as it was."""
    formulas = ["=7+9", "+cmd|' /C calc'!A0", "-x", "@SUM(A1)", "'=7", "-7"]
    (run, *_) = load_runs([table])
    runs = [replace(run, choices={"scorer": formula}, seed=seed) for seed, formula in enumerate(formulas)]
    assert {str(run.choices["scorer"]) for run in read_text(table_text(runs, ["scorer"]))} == set(formulas)
    with open("t.csv", encoding="utf-8", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row if cell[:1] in {*"=+-@"}]
    assert set(cells) == {"-7"}


@pytest.mark.parametrize(("maximize", "best"), [(False, 5.0), (True, 11.0)])
def test_nan_is_never_the_best_value(maximize, best):
    assert JobProgress(maximize=maximize, curve=[math.nan, 7.0, 5.0, 11.0]).best == best
    assert JobProgress(maximize=maximize, curve=[math.nan]).best is None
