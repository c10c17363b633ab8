"""The planned comparisons of studies/confirm, its suites, and seeds that another machine trains again."""

import itertools
import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
import yaml

from attnx.config.compose import compose
from attnx.config.suite_file import read_suite, suite_names
from attnx.errors import UserError
from attnx.reports.sweep.metrics import list_metrics
from attnx.reports.sweep.ranking import rank_settings
from attnx.reports.sweep.run_record import RunRecord
from attnx.reports.sweep.run_table import table_text
from attnx.reports.sweep.settings import Setting
from attnx.runs.info import RunStatus
from studies.atlas.figures import BLUE, GRAY
from studies.confirm.__main__ import HERE, PAGE, PROBLEMS, RESULTS, SUITES
from studies.confirm.beyond import beyond_rows, read_beyond, standings_by_task, write_beyond
from studies.confirm.comparisons import (
    BETTER,
    EQUAL,
    LINEAR_MAP,
    OPEN,
    WORSE,
    Planned,
    check_names,
    compare,
    read_planned,
    read_runs,
)
from studies.confirm.figures import draw_task
from studies.confirm.page import advice_rows, common_tables, fill_page
from studies.confirm.repeats import read_repeated, repeat_rows, write_repeat

FILES = sorted(SUITES.glob("*.yaml"))
COSTS = {"train_cpu_seconds": 30.0, "parameters": 1000.0}


def runs(*rates: float | None) -> list[RunRecord]:
    """Runs with these error rates; None for one that failed."""
    return [
        RunRecord(
            path=Path(str(seed)),
            label="run",
            status=RunStatus.FAILED if rate is None else RunStatus.FINISHED,
            seed=seed,
            results={} if rate is None else {"test_per": rate, "test_examples": 1000.0, **COSTS},
            monitor="valid_per",
            maximize=False,
        )
        for seed, rate in enumerate(rates)
    ]


def planned(first: str, second: str) -> Planned:
    return Planned("g2p/english", first, second, EQUAL, "nobody")


def test_settings_are_better_worse_equal_or_open():
    table = {
        ("g2p/english", "good"): runs(5.0, 5.1, 5.2, 5.1),
        ("g2p/english", "like it"): runs(5.1, 5.0, 5.2, 5.1),
        ("g2p/english", "bad"): runs(10.0, 10.2, 10.1, 10.3),
        ("g2p/english", "wild"): runs(4.0, 8.0, 5.0, 9.0),
    }
    pairs = [("good", "bad"), ("bad", "good"), ("good", "like it"), ("good", "wild"), ("good", "absent")]
    answers = compare([planned(*pair) for pair in pairs], table)
    assert [one.found for one in answers] == [BETTER, WORSE, EQUAL, OPEN]
    assert answers[0].ratio == pytest.approx(1 / answers[1].ratio)
    assert answers[0].ratio == pytest.approx(5.1 / 10.15, rel=0.01)
    assert answers[0].interval[0] < answers[0].ratio < answers[0].interval[1] < 1
    assert answers[2].interval[0] < 1 < answers[2].interval[1]
    assert "good against bad: better, expected equal (PER 5.1 and 10.15, ratio 0.50" in answers[0].sentence


def test_p_allows_for_all_comparisons():
    table = {("g2p/english", "a"): runs(5.0, 5.2, 5.3), ("g2p/english", "b"): runs(5.3, 5.5, 5.6)}
    (alone,) = compare([planned("a", "b")], table)
    first, second = compare([planned("a", "b"), planned("b", "a")], table)
    assert first.p == second.p == pytest.approx(2 * alone.p)


def test_a_failed_run_counts_as_the_worst_of_its_task():
    table = {
        ("g2p/english", "whole"): runs(5.0, 5.1, 5.2),
        ("g2p/english", "failed"): runs(5.0, 5.1, None),
        ("g2p/english", "worst"): runs(50.0, 5.0, 5.0),
    }
    (one,) = compare([planned("failed", "whole")], table)
    assert one.means[0] == pytest.approx((5.0 * 5.1 * 50.0) ** (1 / 3))


def test_comparisons_name_settings_of_the_suites():
    suites = [read_suite(str(file)) for file in FILES]
    check_names(read_planned(HERE / "comparisons.yaml"), suites)
    with pytest.raises(UserError, match=r"no suite has pronunciation/english lokation; did you mean .* location or"):
        check_names([Planned("pronunciation/english", "lokation", "none", EQUAL, "nobody")], suites)


@pytest.mark.parametrize("file", [*FILES, *suite_names().values()], ids=lambda file: f"{file.parts[-3]}-{file.stem}")
def test_each_baseline_of_a_suite_can_be_composed_on_each_task(file, monkeypatch):
    """Of attnx's own suites, too; but for a pointer without attention. Tasks with other values of options are alike."""
    monkeypatch.setenv("ATTNX_DATA", "data")
    suite, composed = read_suite(str(file)), set[tuple[str, ...]]()
    for name, task in itertools.product(suite.baselines, suite.tasks):
        job = suite.job(task, suite.baselines[name], suite.grid[0])
        keys = (name, *(re.sub(r"(task\.\w+)=.*", r"\1", word) for word in suite.tasks[task]))
        if keys in composed and name != next(iter(suite.baselines)):
            continue
        composed.add(keys)
        if (suite.name, task, name) == ("rnn", "sorting", "none"):
            with pytest.raises(UserError, match="model=pointer needs attention"):
                compose(job)
        else:
            compose(job)


def test_the_page_advises_where_a_task_is_whole(tmp_path):
    """The first setting, unless the best is significantly better; tasks that lack a setting have no row."""
    file, problems = tmp_path / "g2p.yaml", tmp_path / "problems.yaml"
    fields = {"tasks": {"english": [], "french": []}, "baselines": {"defaults": [], "dot": ["scorer=dot"], "none": []}}
    file.write_text(yaml.safe_dump({"base": [], "seeds": 3, **fields}), encoding="utf-8")
    entries = [{"task": f"g2p/{task}", "problem": "words", "against": "none"} for task in fields["tasks"]]
    problems.write_text(yaml.safe_dump(entries), encoding="utf-8")
    table = {
        ("g2p/english", "defaults"): runs(5.0, 5.1, 5.2, 5.1),
        ("g2p/english", "dot"): runs(5.1, 5.0, 5.1, 5.1),
        ("g2p/english", "none"): runs(10.0, 10.2, 10.1, 10.3),
        ("g2p/french", "defaults"): runs(5.0, 5.1, 5.2),
        ("g2p/french", "none"): runs(9.0, 9.1, 9.2),
    }
    (((problem, taken, reached, gain, certainty, cost),), undecided) = advice_rows(
        [read_suite(str(file))], table, problems
    )
    assert (problem, taken, undecided) == ("words: `g2p/english`", "`defaults`", [])
    assert reached.startswith("PER 5.100 (5.0")
    assert gain == "none: 10.149; 0.502 times the error (0.490 to 0.515)"
    assert certainty == "p < 0.001; one of 2 that cannot be told from the best"
    assert cost == "30 s of a core, 1.0 times; 1,000 parameters"
    table["g2p/english", "dot"] = runs(2.0, 2.1, 2.1, 2.0)
    (((_, taken, *_, certainty, _),), _) = advice_rows([read_suite(str(file))], table, problems)
    assert (taken, certainty) == ("`dot`: `scorer=dot`", "p < 0.001; better than all others")
    text = problems.read_text(encoding="utf-8")
    problems.write_text(text.replace("against: none", "against: linear map"), encoding="utf-8")
    table["g2p/english", "linear map"] = [
        replace(run, results={"test_per": run.results["test_per"], "test_examples": 1000.0})
        for run in runs(1.0, 1.02, 1.01, 1.03)
    ]
    (((_, taken, _, gain, certainty, cost),), _) = advice_rows([read_suite(str(file))], table, problems)
    assert (taken, cost) == ("`linear map`", "no training")
    assert gain.startswith("dot: 2.05; 0.495 times the error (")
    assert certainty == "p < 0.001; better than the best of the settings"
    problems.write_text(text, encoding="utf-8")
    table["g2p/english", "none"] = runs(2.0, 2.1, 2.2, 2.0)
    problems.write_text(
        problems.read_text(encoding="utf-8").replace("against: none", "against: defaults"), encoding="utf-8"
    )
    table["g2p/english", "defaults"] = runs(2.0, 2.1, 2.0, 2.0)
    rows, (sentence,) = advice_rows([read_suite(str(file))], table, problems)
    assert (rows, sentence.startswith("In `g2p/english` `defaults` itself")) == ([], True)
    entries[1]["untrained"] = {"dot": "a run takes a day"}
    problems.write_text(yaml.safe_dump(entries), encoding="utf-8")
    (_, (french, *_)), (note,) = advice_rows([read_suite(str(file))], table, problems)
    assert (french, note) == ("words: `g2p/french`", "In `g2p/french` `dot` was not trained: a run takes a day.")
    table["g2p/french", "dot"] = runs(2.0, 2.1, 2.2)
    (_, (_, taken, *_)), notes = advice_rows([read_suite(str(file))], table, problems)
    assert (taken, notes) == ("`dot`: `scorer=dot`", [])
    table["g2p/english", "none"] = runs(10.0, 10.2, 10.1, 10.3)
    names = ("confirmed", "common", "questions", "expectations", "beyond", "repeats")
    page = "a" + "".join(f"\n\n<!-- {name} -->\n\nstale\n\n<!-- end -->\n\nb" for name in names)
    answers = compare([Planned("g2p/english", "none", "dot", BETTER, "us")], table)
    filled = fill_page(page, [read_suite(str(file))], answers, table, ({}, {}), problems)
    assert "stale" not in filled
    assert "| g2p/english | `none` against `dot` | better: us | **worse** |" in filled
    assert filled.startswith("a\n\n<!-- confirmed -->\n\n| your problem | take |")
    assert "Of the expectations of publications 0 of 1 hold." in filled


def test_the_tables_of_the_page_are_those_of_the_results():
    suites, page = [read_suite(str(file)) for file in FILES], PAGE.read_text(encoding="utf-8")
    counted = read_runs(sorted(RESULTS.glob("*.csv")), suites)
    answers = compare(read_planned(HERE / "comparisons.yaml"), counted)
    assert fill_page(page, suites, answers, counted, (read_repeated(suites), read_beyond(suites)), PROBLEMS) == page


def test_the_page_counts_the_seeds_that_reverse_without_an_error():
    counted = read_runs([RESULTS / "reverse.csv"], [read_suite(str(SUITES / "reverse.yaml"))])
    rates = {
        setting: [run.results["test_symbol_error_rate"] for run in counted["reverse/twice_as_long", setting]]
        for setting in ("location", "location_both_memories", "defaults")
    }
    assert [rates[setting].count(0.0) for setting in rates] == [5, 9, 0]
    assert {*map(len, rates.values())} == {10}
    assert f"{fmean(rates['defaults']):.0f}" == "11"


def test_location_is_better_on_three_tasks_and_takes_longer_on_all():
    """Why the page says that it is not the default."""
    suites = [read_suite(str(SUITES / f"{name}.yaml")) for name in ("inflection", "pronunciation", "reverse")]
    counted = read_runs([RESULTS / f"{suite.name}.csv" for suite in suites], suites)
    tasks = ["inflection/turkish", "pronunciation/english", "pronunciation/three_scripts", "reverse/twice_as_long"]
    (text,) = common_tables(suites, counted)
    head, _, *rows = ([cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.splitlines())
    (row,) = (row for row in rows if row[0] == "`location`")
    assert head[1:] == tasks
    assert [cell.startswith("**0.") for cell in row[1:]] == [True, False, True, True]  # lower, and significantly
    seconds = [
        [fmean(run.results["train_cpu_seconds"] for run in counted[task, name]) for name in ("location", "defaults")]
        for task in tasks
    ]
    ratios = [own / other for own, other in seconds]
    assert [f"{ratio:.1f}" for ratio in (min(ratios), max(ratios))] == ["1.4", "2.8"]


def test_a_setting_of_several_tasks_is_compared_with_the_first_on_each(tmp_path):
    """A setting of one task has no row; an empty cell says that a task lacks the setting."""
    suites = []
    for name, baselines in (("g2p", ("defaults", "dot", "none")), ("translation", ("defaults", "none", "wide"))):
        file = tmp_path / f"{name}.yaml"
        fields = {"base": [], "seeds": 3, "tasks": {"english": []}, "baselines": {key: [] for key in baselines}}
        file.write_text(yaml.safe_dump(fields), encoding="utf-8")
        suites.append(read_suite(str(file)))
    table = {
        ("g2p/english", "defaults"): runs(5.0, 5.1, 5.2, 5.1),
        ("g2p/english", "dot"): runs(4.0, 4.1, 4.2, 4.1),
        ("g2p/english", "none"): runs(10.0, 10.2, 10.4, 10.2),
        ("translation/english", "defaults"): runs(5.0, 5.1, 5.2, 5.1),
        ("translation/english", "none"): runs(5.0, 5.2, 5.1, 5.1),
        ("translation/english", "wide"): runs(5.0, 5.2, 5.1, 5.1),
    }
    (text,) = common_tables(suites, table)
    head, _, row = text.splitlines()
    assert head == "| error as a multiple of that of `defaults` | g2p/english | translation/english |"
    assert row == "| `none` | **2.000 (1.945 to 2.056)** | 1.000 (0.973 to 1.028) |"


def test_a_picture_shows_the_best_on_top_and_what_cannot_be_told_from_it():
    settings = [Setting(name, (name,), values, {}) for name, values in (
        ("bad", runs(10.0, 10.2, 10.1)), ("good", runs(5.0, 5.1, 5.2)), ("like it", runs(5.1, 5.2, 5.1)),
    )]  # fmt: skip
    (metric, *_) = list_metrics(settings[0].runs)
    axes = draw_task(rank_settings(settings, metric), 4.0).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["good", "like it", "bad"]
    top, bottom = axes.get_ylim()[::-1]
    assert top < bottom
    seeds, spans, means = (axes.lines[start:-1:3] for start in range(3))
    assert [line.get_color() for line in means] == [BLUE, BLUE, GRAY]
    assert [len(line.get_xdata()) for line in seeds] == [3, 3, 3]
    assert means[0].get_xdata()[0] == pytest.approx((5.0 * 5.1 * 5.2) ** (1 / 3))
    ends = [span.get_xdata() for span in spans]
    assert all(low < mean.get_xdata()[0] < high for (low, high), mean in zip(ends, means, strict=True))
    assert axes.lines[-1].get_xdata()[0] == 4.0


def test_the_linear_map_of_a_series_is_compared_like_a_setting(tmp_path):
    suite = {"suite.name": "forecasting", "suite.task": "etth1", "suite.mechanism": "defaults"}
    results = [{"test_mse": 0.4 + seed / 100, "test_linear_mse": 0.3, "test_examples": 9.0} for seed in range(3)]
    table = tmp_path / "forecasting.csv"
    seeds = replace(read_suite(str(SUITES / "forecasting.yaml")), seeds=3)
    rows = [
        replace(run, seed=seed, results=result, choices=suite)
        for run, seed, result in zip(runs(1, 2, 3), seeds.counted_seeds, results, strict=True)
    ]
    table.write_text(table_text(rows, [*suite]), encoding="utf-8")
    read = read_runs([table], [seeds])
    (one,) = compare([Planned("forecasting/etth1", "defaults", LINEAR_MAP, WORSE, "us")], read)
    assert (one.found, one.means[1]) == (WORSE, pytest.approx(0.3))


def test_a_setting_counts_once_all_its_seeds_have_ended(tmp_path):
    """The last of three seeds has failed, was interrupted, or has not begun."""
    suite = replace(read_suite(str(SUITES / "tracking.yaml")), seeds=3)
    first, second, third = (
        replace(run, seed=seed) for run, seed in zip(runs(1, 2, 3), suite.counted_seeds, strict=True)
    )
    groups = {
        "failed": [first, second, replace(third, status=RunStatus.FAILED, results={})],
        "interrupted": [first, second, replace(third, status=RunStatus.INTERRUPTED, results={})],
        "begun": [first, second],
    }
    names = ("suite.name", "suite.task", "suite.mechanism")
    rows = [
        replace(run, choices=dict(zip(names, ("tracking", "parity", name), strict=True)))
        for name, group in groups.items()
        for run in group
    ]
    table = tmp_path / "tracking.csv"
    table.write_text(table_text(rows, [*names]), encoding="utf-8")
    assert {name: len(group) for (_, name), group in read_runs([table], [suite]).items()} == {"failed": 3}


def seed_runs(*rates: float | None) -> list[RunRecord]:
    """Runs of seeds 2, 3 ... with these error rates, and the rate that was chosen for them."""
    return [
        replace(run, seed=seed, choices={"optimizer.lr": "0.012"}) for seed, run in enumerate(runs(*rates), start=2)
    ]


@pytest.fixture
def suite(tmp_path):
    file = tmp_path / "words.yaml"
    fields = {
        "base": ["model.dropout=0.2"],
        "tasks": {"english": ["task=g2p"], "french": ["task=g2p"]},
        "baselines": {"dot": ["scorer=dot"], "none": ["attention=none"]},
        "search": {"optimizer.lr": [0.004, 0.012]},
        "seeds": 4,
    }
    file.write_text(yaml.safe_dump(fields), encoding="utf-8")
    return read_suite(str(file))


def test_rates_beyond_an_end_of_the_search_are_tried(tmp_path):
    """Of each setting whose best one is the lowest or the highest; compared in validation, with equal seeds."""
    file = tmp_path / "words.yaml"
    fields = {
        "base": ["model.dropout=0.2"],
        "tasks": {"english": ["task=g2p"], "french": []},
        "baselines": {"dot": ["scorer=dot"], "mlp": ["scorer=mlp"], "none": ["attention=none"]},
        "search": {"optimizer.lr": [0.001, 0.004, 0.016]},
        "seeds": 2,
    }
    file.write_text(yaml.safe_dump(fields), encoding="utf-8")
    suite = read_suite(str(file))

    def at_rate(rate: float, *pers: float) -> list[RunRecord]:
        curves = [{"valid_per": {1: 90.0, 2: per}} for per in pers]
        return [
            replace(run, choices={"optimizer.lr": rate}, curves=curve)
            for run, curve in zip(seed_runs(*pers), curves, strict=True)
        ]

    counted = {
        ("words/english", "dot"): at_rate(0.001, 5.0, 6.0),
        ("words/english", "mlp"): at_rate(0.016, 8.0, 9.0),
        ("words/english", "none"): at_rate(0.004, 9.0, 9.0),
        ("words/french", "dot"): at_rate(0.004, 9.0, 9.0),
    }
    by_task = standings_by_task(suite, counted)
    assert write_beyond(by_task["french"], "french", tmp_path / "beyond") is None
    further = read_suite(str(write_beyond(by_task["english"], "english", tmp_path / "beyond")))
    assert further.baselines == {
        "dot": ["scorer=dot", "optimizer.lr=0.00025"],
        "mlp": ["scorer=mlp", "optimizer.lr=0.064"],
    }
    assert (further.name, further.tasks, further.base) == ("words-english", {"english": ["task=g2p"]}, suite.base)
    assert (further.grid, [*further.counted_seeds]) == ([[]], [2])
    beyond = {
        ("words-english/english", "dot"): at_rate(0.00025, 5.1),
        ("words-english/english", "mlp"): at_rate(0.064, 7.5),
    }
    assert beyond_rows([suite], counted, beyond) == [["words/english", "2 of 3", "1 of 2", "`mlp`: 7.50, not 8.00"]]
    assert beyond_rows([suite], counted, {}) == [["words/english", "2 of 3", "not tried", ""]]


def test_the_results_of_equal_seeds_are_compared(suite):
    """Of seeds 2 to 4: the fifth was trained once, the sixth failed on the other machine."""
    counted = {
        ("words/english", "dot"): seed_runs(5.0, 5.1, 5.2, 9.0, 5.0),
        ("words/french", "dot"): seed_runs(7.0, 7.1),
    }
    repeated = {("words/english", "dot"): [*seed_runs(5.1, 5.1, 5.4), *seed_runs(*[None] * 5)[4:]]}
    assert repeat_rows([suite], counted, repeated) == [
        ["words/english", "`dot`", "3", "PER 5.10", "5.20", "0.10", "0.10, at most 0.20"]
    ]


def test_the_first_setting_is_trained_again_with_what_was_chosen(suite, tmp_path):
    counted = {("words/english", "dot"): seed_runs(5.0, 5.1), ("words/english", "none"): seed_runs(9.0, 9.1)}
    again = read_suite(str(write_repeat(suite, counted, 3, tmp_path / "repeats")))
    assert again.baselines == {"dot": ["scorer=dot"]}
    assert again.tasks == {"english": ["task=g2p", "optimizer.lr=0.012"]}
    assert (again.base, again.grid, [*again.counted_seeds]) == (suite.base, [[]], [2, 3, 4])


def test_what_the_page_says_of_two_machines():
    suites = [read_suite(str(file)) for file in sorted((HERE / "suites").glob("*.yaml"))]
    counted, repeated = read_runs(sorted((HERE / "results").glob("*.csv")), suites), read_repeated(suites)
    rows = {row[0]: row for row in repeat_rows(suites, counted, repeated)}
    for task in ("forecasting/etth1", "tracking/parity"):
        assert float(rows[task][-1].rpartition(" ")[2]) == 0.0
    *_, deviation, moved = rows["tracking/permutations"]
    assert float(moved.partition(",")[0]) == pytest.approx(float(deviation), abs=0.05)
    recalled = [
        {run.seed for run in group["recall/mixed", "attention"] if run.results["test_accuracy_128x32"] == 100.0}
        for group in (counted, repeated)
    ]
    assert len(repeated["recall/mixed", "attention"]) == 3
    assert len(recalled[1]) == 1
    assert recalled[0].isdisjoint(recalled[1])
