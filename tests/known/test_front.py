"""Quality against cost: which settings no other one beats, by hand, in the report and as a picture."""

from pathlib import Path
from typing import Any

import pytest

from attnx.errors import UserError
from attnx.reports.sweep.comparison import comparisons
from attnx.reports.sweep.front import cost_points
from attnx.reports.sweep.report import write_report
from attnx.reports.sweep.run_record import RunRecord
from attnx.runs.info import RunStatus
from tests.run_folder import write_run_folder

# Error and operations of three seeds each; `slow` is as good as `dot` at more operations.
SETTINGS = {"cheap": (20.0, 100.0), "dot": (10.0, 300.0), "slow": (10.0, 900.0), "bad": (30.0, 200.0)}


def records(**unequal: float) -> list[RunRecord]:
    return [
        RunRecord(
            Path(name, str(seed)), name, RunStatus.FINISHED, seed, {"scorer": name, "match": "flops"},
            {"test_per": error + seed, "train_flops": unequal.get(name, flops)}, monitor="valid_per",
        )
        for name, (error, flops) in SETTINGS.items()
        for seed in range(3)
    ]  # fmt: skip


def test_seeds_are_one_point_and_the_front_has_what_no_other_setting_beats():
    """Of errors of 10, 11 and 12 the mean is the geometric one, as their interval's."""
    (comparison,) = comparisons(records())
    points = cost_points(comparison, "train_flops")
    assert [(point.cost, point.is_ahead) for point in points] == [(100, True), (200, False), (300, True), (900, False)]
    products = [20 * 21 * 22, 30 * 31 * 32, 10 * 11 * 12, 10 * 11 * 12]
    assert [point.mean for point in points] == pytest.approx([product ** (1 / 3) for product in products])
    assert all(point.interval and point.interval[0] < point.mean < point.interval[1] for point in points)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for run in records():
        info: dict[str, Any] = {"status": "finished", "monitor": "valid_per"}
        name = run.choices["scorer"]
        config = {"seed": run.seed, "scorer": {"name": name}, "match": "flops"}
        write_run_folder(tmp_path / "runs" / f"{name}{run.seed}", config, run.results, None, **info)
    return "runs"


def test_the_report_has_the_front_a_picture_and_how_far_matched_costs_are_apart(folders):
    *files, picture = write_report([folders], against="flops")
    assert picture.name == "report.flops.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = files[1].read_text(encoding="utf-8")
    front = text.partition("### PER against FLOPs a training token")[2].splitlines()
    cells = [line.split("|")[1:3] for line in front if line.startswith("|")][2:]
    assert [[cell.strip() for cell in row] for row in cells] == [["cheap", "100"], ["dot", "300"]]
    assert "(match=flops): 100 to 900, 800.0 % apart." in text
    assert '"against": "train_flops"' in files[0].read_text(encoding="utf-8").replace('"against":"', '"against": "')


def test_a_missing_cost_names_the_command_that_measures_it(folders):
    files = write_report([folders], against="latency")
    assert not any(file.suffix == ".png" for file in files)
    text = files[1].read_text(encoding="utf-8")
    assert "No run has it; `attnx cost FOLDER` measures it." in text


def test_an_unknown_cost_is_refused_before_runs_are_read():
    with pytest.raises(UserError, match=r"--against flop: no such cost; did you mean flops\?"):
        write_report(["missing"], against="flop")
