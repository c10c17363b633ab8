"""Pages of studies: tables in their places, and claims with values by seeds, evaluations, and what was not run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import attnx
from attnx.config.view import dotted_keys
from attnx.errors import UserError
from attnx.reports.sweep.run_record import RunRecord
from attnx.runs.info import RunStatus
from attnx.runs.results import Interval
from studies.claims.__main__ import HERE, PAGE
from studies.claims.claim import Claim, read_claims
from studies.claims.evaluations import EvaluatedClaim, read_evaluations, write_evaluations
from studies.claims.page import claims_page
from studies.job import write_experiments
from studies.page_tables import replace_tables
from studies.results import Results
from studies.study import select_names

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def claims():
    return read_claims(HERE / "claims.yaml")


def test_each_experiment_with_a_claim_is_trained(claims):
    """All but the search, which is a sweep of its own, and the experiments that claim nothing."""
    trained = {claim.base for claim in claims.values() if not claim.runs}
    files = {file.stem: file.read_text("utf-8") for file in (ROOT / "conf" / "experiment").glob("*.yaml")}
    assert trained <= files.keys()
    claimless = {name for name, text in files.items() if "# Claim: none." in text}
    assert files.keys() - trained - claimless == {"g2p_search", "g2p_transformer"}
    assert all(claims[claim.runs].ensemble is False for claim in claims.values() if claim.runs)


def test_what_a_claim_changes_of_its_experiment_can_be_composed(claims, tmp_path):
    """One claim for each set of options of an experiment."""
    changing = [claim for claim in claims.values() if claim.config and not claim.runs]
    jobs = {(claim.base, *dotted_keys(claim.config)): claim.jobs[0] for claim in changing}
    write_experiments(tmp_path, jobs.values(), {claim.name: claim.experiment for claim in changing})
    configs = {job.task: attnx.compose([f"experiment={job.experiment}"], str(tmp_path)) for job in jobs.values()}
    assert configs["hull_10"]["encoder"]["hidden_size"] == 256
    assert configs["hull_10"]["task"]["problem"] == "hull"


def record(seed: int, value: float, validation: float, interval: tuple[float, float] | None = None) -> RunRecord:
    return RunRecord(
        Path(str(seed)), "", RunStatus.FINISHED, seed, {"task": "some"}, {"test_wer": value, "train_seconds": 60.0},
        {"test_wer": Interval(*interval)} if interval else {}, {"valid_wer": {5: validation, 9: 99.0}}, "valid_wer",
        commit="abc")  # fmt: skip


def cells(claim: Claim, runs: list[RunRecord], **evaluations: EvaluatedClaim) -> list[str]:
    results = Results(Path("none.csv"), claim.jobs)
    results.runs.update(zip(claim.jobs, runs, strict=False))
    row = claims_page([claim], results, evaluations).splitlines()[-1]
    return [cell.strip() for cell in row.strip("|").split("|")][4:]


def test_a_claim_is_the_mean_or_the_best_of_its_runs():
    """Of 20, 22 and 24: the mean 22 with Student's interval, 4.303 * 2 / sqrt(3) wide; the best by validation is 24."""
    runs = [record(1, 20, 7.0), record(2, 22, 6.0), record(3, 24, 5.0, (23.0, 25.0))]
    some: dict[str, Any] = {"name": "some", "says": "", "metric": "test_wer", "seeds": [1, 2, 3], "aim": 23}
    assert cells(Claim(**some), runs) == ["22.0", "17.0 to 27.0", "3", "1:00", "`abc`", "yes"]
    assert cells(Claim(**some, take="best"), runs) == ["24.0", "23.0 to 25.0", "3", "1:00", "`abc`", "no"]
    assert cells(Claim(**some), runs[:1]) == ["20.00", "", "1 of 3", "1:00", "`abc`", "so far yes"]
    assert cells(Claim(**some, take="best"), [record(1, 24, 0.0)])[-1] == "no"  # no later start could be chosen
    assert cells(Claim(**some), [record(1, 23.0000009, 7.0)])[-1] == "so far yes"  # 23 in single precision
    assert cells(Claim(**some), []) == ["not run", "", "", "", "", ""]
    beam = Claim(**some, evaluate=["decoding=beam"])
    assert cells(beam, runs) == ["not run", "", "", "", "", ""]
    evaluation = EvaluatedClaim("some", "1", "decoding=beam", 19.5, 19.0, 20.0)
    assert cells(beam, runs, some=evaluation) == ["19.50", "19.00 to 20.00", "1", "1:00", "`abc`", "yes"]


def test_a_claim_that_is_short_says_why_it_is_closed(claims):
    claim = Claim("some", "", "test_wer", aim=20, closed="The test is harder.")
    results = Results(Path("none.csv"), claim.jobs)
    results.runs[claim.jobs[0]] = record(1, 21, 7.0)
    assert claims_page([claim], results, {}).splitlines()[-1] == "- `some`: The test is harder."
    assert "harder" not in claims_page([replace(claim, aim=22)], results, {})
    rows = [line.split(" | ") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    short = [row[0].split("`")[1] for row in rows if row[-1].startswith("no")]
    tried_again = {name for name in short if any(other.startswith(f"{name}_") for other in claims)}
    assert {name for name in short if not claims[name].closed} <= tried_again


def forecast(seed: int, value: float, **baselines: float) -> RunRecord:
    results = {"test_mse": value, "train_seconds": 60.0, **{f"test_{name}_mse": mse for name, mse in baselines.items()}}
    return replace(record(seed, 0.0, 1.0), results=results)


@pytest.mark.parametrize(
    ("values", "reached"),
    [
        ((0.3, 0.32), "yes"),
        ((0.31, 0.33), "no, not better than linear"),  # the mean is linear's
        ((0.45, 0.45), "no, not better than the last season, linear"),
        ((1.3, 1.3), "no, not better than the last value, the last season, linear"),
    ],
)
def test_a_forecast_is_to_beat_the_simple_ones(values, reached):
    """Whatever a paper's model reached: the aim is the best of those of the same runs."""
    claim = Claim("some", "", "test_mse", seeds=[1, 2], published="9")
    runs = [forecast(seed, value, naive=1.2, seasonal=0.42, linear=0.32) for seed, value in enumerate(values, 1)]
    results = Results(Path("none.csv"), claim.jobs)
    results.runs.update(zip(claim.jobs, runs, strict=True))
    row = claims_page([claim], results, {}).splitlines()[-1].strip("|").split(" | ")
    assert (row[2].strip(), row[3].strip(), row[-1].strip()) == ("9", "0.32, linear", reached)


def test_the_last_value_may_be_the_best_simple_forecast():
    runs = [forecast(1, 0.0886, naive=0.0811, seasonal=0.5, linear=0.0874)]
    assert cells(Claim("some", "", "test_mse"), runs)[-1] == "no, not better than the last value, linear"


def test_a_start_without_validation_error_decides():
    """Of starts that are chosen by validation, none after it could be better; a mean needs all."""
    claim = Claim("some", "", "test_wer", seeds=[1, 2, 3], take="best")
    results = Results(Path("none.csv"), claim.jobs)
    results.runs[claim.jobs[0]] = record(1, 20, 7.0)
    assert not claim.is_decided(results)
    results.runs[claim.jobs[1]] = record(2, 22, 0.0)
    assert claim.is_decided(results)
    assert not replace(claim, take="mean").is_decided(results)


def test_evaluations_are_written_and_read(tmp_path):
    path = tmp_path / "evaluations.csv"
    rows = {name: EvaluatedClaim(name, "3", "decoding=beam", 19.5, 19.0, 20.25) for name in ("a", "b")}
    write_evaluations(path, list(rows.values()))
    assert read_evaluations(path) == rows
    with path.open("a", encoding="utf-8") as file:
        file.write("a,1,,1,1,1\n")
    with pytest.raises(UserError, match=r"evaluations\.csv:4: a is there twice; delete one row"):
        read_evaluations(path)
    path.write_text("claim,runs,options,value,low,high\na,1,,much,1,1\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"evaluations\.csv:2: cannot be read: .*'much'"):
        read_evaluations(path)


def test_the_page_is_that_of_the_tables(claims):
    jobs = sorted((job for claim in claims.values() for job in claim.jobs), key=lambda job: job.seed)
    results, evaluations = Results(HERE / "results.csv", jobs), read_evaluations(HERE / "evaluations.csv")
    assert (ROOT / PAGE).read_text(encoding="utf-8") == claims_page(list(claims.values()), results, evaluations)
    forecasts = [claim for claim in claims.values() if claim.baselines(claim.finished_runs(results))]
    assert len(forecasts) >= 4
    assert all(claim.aim is None for claim in forecasts)  # the page would not show it


def test_an_unknown_claim_is_refused(claims):
    assert select_names(["hull_5"], claims, "claims.yaml") == {"hull_5"}
    assert select_names([], claims, "claims.yaml") == claims.keys()
    with pytest.raises(UserError, match=r"hull_6: no name in claims\.yaml; did you mean hull_5"):
        select_names(["hull_6"], claims, "claims.yaml")


TABLES = "a\n\n<!-- one -->\n\nold\n\n<!-- end -->\n\nb\n\n<!-- two -->\n<!-- end -->\n\nc\n"


def test_each_table_stands_in_its_place():
    """Also where there was none."""
    expected = "a\n\n<!-- one -->\n\nnew\n\n<!-- end -->\n\nb\n\n<!-- two -->\n\nfirst\n\n<!-- end -->\n\nc\n"
    assert replace_tables(TABLES, {"one": "new", "two": "first"}) == expected


def test_a_table_without_a_place_is_refused():
    with pytest.raises(ValueError, match="no place for three"):
        replace_tables(TABLES, {"three": "new"})
