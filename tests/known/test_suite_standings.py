"""A suite: the best in validation is chosen, and its new seeds alone are ranked, per task and over all tasks."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from attnx.config.suite_file import Suite, merge_overrides, read_suite
from attnx.errors import UserError
from attnx.reports.suite.standings import Entry, Standings, against_best, choose_run, verdict
from attnx.reports.suite.suite_report import (
    counted_elsewhere,
    merge_entries,
    read_entries,
    suite_tables,
    write_suite_report,
)
from attnx.reports.sweep.run_record import RunRecord
from attnx.runs.info import RunStatus
from tests.refusal import refused

SUITE = Suite(
    name="toy",
    file=Path("toy.yaml"),
    base=["recipe=mqar"],
    tasks={"easy": ["task.length=16x2"], "hard": ["task.length=16x4"]},
    baselines={"attention": [], "delta": ["model.mixer=delta"]},
    search={"optimizer.lr": ["0.001", "0.01", "0.1"]},
    seeds=3,
    check=["trainer.max_steps=2"],
)
TEXT = """\
base: [recipe=mqar]
tasks: {easy: [task.length=16x2]}
baselines: {attention: []}
seeds: 3
"""


def run(
    seed: int, test: float | None, valid: float = 50.0, rate: float = 0.01, metric: str = "accuracy", **facts: str
) -> RunRecord:
    """A run, which failed if it has no value on the test."""
    return RunRecord(
        path=Path(facts.get("path", f"runs/{seed}-{rate}-{test}")),
        label="",
        status=RunStatus.FAILED if test is None else RunStatus.FINISHED,
        seed=seed,
        choices={"task": "probe", "optimizer": "adamw", "optimizer.lr": rate},
        results={} if test is None else {f"test_{metric}": test, "test_examples": 500.0, "parameters": 7000.0},
        curves={} if test is None else {f"valid_{metric}": {5: valid - 10, 10: valid}},
        monitor=f"valid_{metric}",
        maximize=metric == "accuracy",
        commit=facts.get("commit", "abc"),
        created=facts.get("created", "2031-07-05"),
        error="it fell over" if test is None else "",
    )


def entry(task: str, mechanism: str, values: Sequence[float | None], commit: str = "abc") -> Entry:
    overrides = {"attention": "", "delta": "model.mixer=delta"}.get(mechanism, f"scorer={mechanism}")
    runs = [run(seed, value, path=f"{task}/{mechanism}/{seed}", commit=commit) for seed, value in enumerate(values, 2)]
    return Entry(task, mechanism, overrides, runs)


def standings(**values: Sequence[Sequence[float | None]]) -> Standings:
    """Of mechanisms with values on the easy and the hard task; the first is the challenger."""
    entries = [
        entry(task, name, row) for name, rows in values.items() for task, row in zip(SUITE.tasks, rows, strict=True)
    ]
    return Standings(SUITE, entries, next(iter(values)))


FAR = standings(
    capped=([99.0, 99.1, 98.9], [70.0, 71.0, 70.5]),
    attention=([90.0, 90.4, 90.2], [80.0, 80.3, 80.6]),
    delta=([50.0, 50.2, 50.4], [30.0, 30.5, 30.9]),
)


def test_validation_chooses_and_the_test_has_no_part():
    """The first run is best on the test, the second in validation, and the third has failed."""
    runs = [run(1, 90.0, valid=60.0, rate=0.001), run(1, 80.0, valid=70.0, rate=0.01), run(1, None, rate=0.1)]
    assert choose_run(runs) is runs[1]
    errors = [run(1, 9.0, valid=6.0, metric="per"), run(1, 8.0, valid=7.0, metric="per")]
    assert choose_run(errors) is errors[0]
    assert choose_run(runs[2:]) is None


def test_the_mean_is_the_one_that_its_interval_is_of():
    """Errors of 1, 1 and 64 % have the geometric mean 4 %; the usual one is 22 %."""
    ranking = standings(
        capped=([99.0, 99.0, 36.0], [70.0, 70.0, 70.0]), delta=([50.0, 50.2, 50.4], [30.0, 30.5, 30.9])
    ).rankings["easy"]
    assert [ranking.scale_mean(row) for row in ranking.rows][:1] == pytest.approx([96.0])
    assert "accuracy 96" in against_best(ranking, "capped")


def test_mechanisms_are_ranked_on_each_task_and_by_their_mean_rank():
    assert FAR.ranks == {
        "easy": {"capped": 1.0, "attention": 2.0, "delta": 3.0},
        "hard": {"attention": 1.0, "capped": 2.0, "delta": 3.0},
    }
    assert [FAR.mean_ranks[name] for name in ("capped", "attention", "delta")] == [1.5, 1.5, 3.0]
    assert verdict(FAR.rankings["easy"], "capped") == "better"
    assert verdict(FAR.rankings["hard"], "capped") == "worse"
    assert FAR.conclusions[1] == (
        "By task it is significantly better than every other on easy and significantly worse than the best other on "
        "hard."
    )


def test_the_mean_over_tasks_is_tested_over_seeds():
    """The mean of capped with seed 2 is (99 + 70) / 2."""
    means = {row.setting.name: row.values for row in FAR.overall.rows}
    assert means["capped"] == {2: 84.5, 3: pytest.approx(85.05), 4: pytest.approx(84.7)}
    assert FAR.conclusions[0].startswith(
        "**capped** is first of 3, like **attention**, by its mean rank, 1.5 over 2 tasks: accuracy 84."
    )


def test_an_error_rate_has_a_sign_for_its_unit():
    """Not the remark that a run's table has beside it, "%  phone error rate"."""
    runs = [run(seed, 12.0 + seed / 10, metric="per") for seed in range(2, 5)]
    one = Standings(SUITE, [Entry(task, "capped", "", runs) for task in SUITE.tasks], "capped")
    assert one.rankings["easy"].metric.unit == "%"
    assert "PER 12.30 % (" in one.conclusions[0]


def test_equal_means_share_their_ranks():
    tied = standings(capped=([100.0] * 3, [70.0, 71.0, 72.0]), attention=([100.0] * 3, [60.0, 61.0, 62.0]))
    assert tied.ranks["easy"] == {"capped": 1.5, "attention": 1.5}
    assert verdict(tied.rankings["easy"], "capped") == "neither"
    nothing = standings(capped=([0.0] * 3, [0.0] * 3), attention=([0.0] * 3, [0.0] * 3))
    assert nothing.conclusions[0] == (
        "**capped** is first of 2, like **attention**, by its mean rank, 1.5 over 2 tasks: accuracy 0.00 % in the "
        "mean, equal to that of **attention**."
    )


def test_what_has_no_result_on_a_task_has_no_mean_rank():
    pale = [entry("easy", "pale", [10.0, 11.0, 12.0]), Entry("hard", "pale", "scorer=pale", reason="no")]
    partial = Standings(SUITE, [*FAR.entries, *pale], "pale")
    assert "pale" not in partial.mean_ranks
    assert partial.conclusions == ["**pale** has no result on hard."]
    (table,) = [table for table in suite_tables(partial) if table.title == "What did not work"]
    assert table.rows == [["hard", "pale", "no"]]


def test_a_cost_is_one_number_or_the_least_and_the_most_of_the_tasks():
    small = run(2, 40.0)
    small.results["parameters"] = 5000.0
    runs = {"capped": (run(2, 50.0), run(2, 60.0)), "delta": (run(2, 45.0), small)}
    entries = [
        Entry(task, name, "", [one]) for name, both in runs.items() for task, one in zip(SUITE.tasks, both, strict=True)
    ]
    (table,) = [table for table in suite_tables(Standings(SUITE, entries)) if table.title == "Costs"]
    assert (table.head, table.rows) == (["", "capped", "delta"], [["parameters", "7,000", "5,000 to 7,000"]])


def test_a_failed_seed_is_named():
    failed = standings(capped=([99.0, None, 98.0], [70.0, 71.0, 72.0]), attention=([50.0, 51.0, 52.0],) * 2)
    assert failed.entries[0].status == "failed with seed 3: it fell over"
    (table,) = [table for table in suite_tables(failed) if table.title == "easy"]
    assert [row[7] for row in table.rows] == ["2 of 3", "3"]
    assert not failed.overall.has_winner
    mean, by_task = failed.conclusions
    assert mean.endswith(", but 1 of its 3 seeds failed, which is a failure of the setting.")
    assert by_task == "By task it is significantly better than every other on hard; on easy neither is sure."


def test_the_mean_over_tasks_has_the_examples_of_all():
    """Of 1,000 a half counts where none is wrong."""
    assert standings(capped=([100.0] * 3, [100.0] * 3), delta=([99.0, 99.2, 99.4],) * 2).overall.scale.least == 0.05


def test_a_value_at_an_end_of_the_search_is_named():
    at_end = Entry("easy", "capped", "", [run(2, 9.0, rate=0.1)])
    assert FAR.keys_at_an_end(at_end) == ["optimizer.lr"]
    assert FAR.keys_at_an_end(FAR.entries[0]) == []


def test_the_runs_of_others_are_merged(tmp_path):
    """Their challenger is ranked with ours; their runs of a baseline take the place of those that we lack."""
    files = write_suite_report(FAR, tmp_path / "capped")
    others = read_entries(SUITE, files[-1])
    assert [(one.task, one.mechanism) for one in others] == [(one.task, one.mechanism) for one in FAR.entries]
    mechanisms = {"mine": ["scorer=mine"], **SUITE.baselines}
    assert counted_elsewhere(SUITE, others, mechanisms) == {
        (task, name) for task in SUITE.tasks for name in SUITE.baselines
    }
    own = [entry(task, "mine", [75.0, 76.0, 77.0]) for task in SUITE.tasks]
    merged = Standings(SUITE, merge_entries(own, others), "mine")
    assert merged.ranks["hard"] == {"attention": 1.0, "mine": 2.0, "capped": 3.0, "delta": 4.0}


def test_a_mechanism_of_the_same_name_is_renamed_and_ours_count(tmp_path):
    others = read_entries(SUITE, write_suite_report(FAR, tmp_path / "theirs")[-1])
    own = [
        Entry("easy", "capped", "scorer=other", [run(2, 33.0, path="own")]),
        Entry("easy", "delta", "model.mixer=delta", [run(2, 34.0, path="own")]),
    ]
    merged = {(one.task, one.mechanism): one for one in merge_entries(own, others)}
    assert merged["easy", "capped"] is own[0]
    assert merged["easy", "capped (theirs.runs)"].finished[0].results["test_accuracy"] == 99.0
    assert merged["easy", "delta"] is own[1]


def test_an_override_with_a_space_is_the_same_in_a_table(tmp_path):
    """It is neither trained again nor ranked twice; another value is another mechanism of that name."""
    delta = "model.mixer={name: delta, heads: 2}"
    row = replace(entry("easy", "delta", [50.0, 50.2, 50.4]), overrides=f"{delta} optimizer=adam")
    others = read_entries(SUITE, write_suite_report(Standings(SUITE, [row]), tmp_path / "theirs")[-1])
    assert counted_elsewhere(SUITE, others, {"delta": [delta, "optimizer=adam"]}) == {("easy", "delta")}
    assert counted_elsewhere(SUITE, others, {"delta": [delta]}) == set()
    assert [one.mechanism for one in merge_entries([row], others)] == ["delta"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "other"}, "is of the suite 'toy', and this one is 'other'"),
        ({"tasks": {"harder": []}}, "toy.yaml has no task 'easy'; choose from harder"),
        ({"base": ["recipe=mad"]}, "was trained by another protocol: base, search or the task 'easy' differ"),
        ({"search": {}}, "was trained by another protocol"),
    ],
)
def test_runs_of_another_protocol_are_refused(change, words, tmp_path):
    table = write_suite_report(FAR, tmp_path / "capped")[-1]
    other = Suite(**{**vars(SUITE), **change})
    with pytest.raises(UserError, match=words) as refused:
        read_entries(other, table)
    assert str(refused.value).startswith(f"{table}:2: ")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (TEXT, "tasks: [", ":2: not valid YAML"),
        (TEXT, "[1]", ": expected the fields base, tasks, baselines, search, seeds, match, check"),
        ("", "task: 1", ": no field 'task'; did you mean tasks?"),
        ("3", "0", ": seeds: expected a whole number, 1 or more"),
        ("{attention: []}", "{}", ": baselines: name at least one, with a list of overrides"),
        ("[task.length=16x2]", "16x2", ": tasks.easy: expected a list of overrides"),
        ("easy", "a/b", ": tasks: name=a/b: contains a path separator"),
        ("", "search: {optimizer.lr: 0.1}", ": search: expected keys with lists of values"),
        ("recipe=mqar", "'scorer=dot,mlp'", ": base: scorer=dot,mlp: a suite compares one"),
        ("", "match: parameter", ": match: parameter; did you mean parameters?"),
        ("[]", "[task=g2p]", ": baselines.attention: task=g2p: the tasks are those of"),
        ("recipe=mqar", "budget=flops", ": base: budget=flops: would match the runs of a mech"),
        ("[]", "[scorer=dot, +scorer=mlp]", ": baselines.attention: scorer is set twice, by scorer=dot and"),
        ("", "search: {seed: [1, 2]}", ": search: seed=1: a suite sets seeds and folders itself"),
        ("", "search: {match: [parameters]}", ": search: match=parameters: would match the runs of a mech"),
        ("", "search: {+task.length: [8x2]}", ": search: +task.length=8x2: the tasks are those of"),
        ("", "search: {optimizer.lr: ['1,2']}", ": search: optimizer.lr=1,2: a suite compares one setting"),
        (
            "",
            "search: {optimizer.lr: [1], +optimizer.lr: [2]}",
            ": search: optimizer.lr is set twice, by optimizer.lr=1 and optimizer.lr=2",
        ),
        ("", "seeds: 4", ":5: not valid YAML: seeds is written twice; leave one out"),
        ("recipe=mqar", "seed=3", ": base: seed=3: a suite sets seeds and folders itself"),
    ],
)
def test_a_mistake_in_a_file_is_one_line(old, new, words, tmp_path):
    """One that replaces something, or is in a further line."""
    file = tmp_path / "toy.yaml"
    file.write_text(TEXT.replace(old, new) if old else TEXT + new, encoding="utf-8")
    with refused(f"...toy.yaml{words}..."):
        read_suite(str(file))


def test_a_near_miss_is_named(tmp_path):
    with pytest.raises(UserError, match=r"no suite 'recal'; did you mean recall\?"):
        read_suite("recal")
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "toy.yaml").write_text(TEXT, encoding="utf-8")
    assert read_suite("toy", str(tmp_path)).tasks == {"easy": ["task.length=16x2"]}


def test_a_job_is_of_the_seed_of_the_search_that_does_not_count():
    """A check keeps the protocol and shortens it."""
    assert [*SUITE.counted_seeds] == [2, 3, 4]
    assert SUITE.job("hard", ["model.mixer=delta"], ["optimizer.lr=0.01"])[-1] == "seed=1"
    assert SUITE.grid == [["optimizer.lr=0.001"], ["optimizer.lr=0.01"], ["optimizer.lr=0.1"]]
    short = SUITE.shortened(1)
    assert (short.name, short.seeds, [*short.baselines]) == ("toy-check", 2, ["attention"])
    assert short.grid == [["optimizer.lr=0.001"], ["optimizer.lr=0.01"]]
    assert short.job("hard", [], [])[-2:] == ["trainer.max_steps=2", "seed=1"]


def test_later_overrides_win_and_another_part_takes_its_options_along():
    """A mechanism is named by what is left."""
    base = ["scorer=mlp", "scorer.depth=2", "trainer.max_steps=5"]
    assert merge_overrides(base, ["+scorer=dot"], ["trainer.max_steps=7"]) == ["scorer=dot", "trainer.max_steps=7"]
    assert merge_overrides(["scorer.depth=2", "scorer=mlp"]) == ["scorer.depth=2", "scorer=mlp"]
    assert SUITE.name_of(["+scorer=dot"]) == "dot"
    assert SUITE.name_of(["scorer=mlp", "scorer.depth=2"]) == "mlp-depth=2"
    assert SUITE.name_of(["model.mixer={name: delta, heads: 2}"]) == "mixer=delta-heads=2"
    assert SUITE.name_of(["scorer=attention"]) == "your-attention"


def test_runs_of_several_commits_and_steps_are_named():
    entries = [entry("easy", "capped", [9.0], commit="abc"), entry("easy", "delta", [8.0], commit="def")]
    for steps, one in zip((5.0, 7.0), entries, strict=True):
        one.runs[0].results["steps"] = steps
    assert Standings(SUITE, entries).caveats == [
        "easy: The runs did not train for the same number of steps (5 to 7): a difference may come from the training, "
        "not from the settings.",
        "easy: The runs are of 2 different commits: a difference may come from the code.",
    ]
    assert FAR.caveats == []
