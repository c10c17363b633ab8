"""``attnx suite``: the protocol is trained as sweeps, nothing that finished again, and mistakes are one line."""

import re
import shlex
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from attnx.cli import suite as suite_command
from attnx.config.compose import compose
from attnx.config.suite_file import Suite, merge_overrides
from attnx.reports.sweep.run_table import read_run_table
from attnx.runs.sweep import read_sweep
from attnx.sweeps.equal_budgets import CostMeter
from attnx.sweeps.match_widths import TOLERANCE
from attnx.sweeps.record import lock_folder
from tests.runs.conftest import change_info, run_info, write_plug_in

Write = Callable[..., str]
HOME = Path("multirun", "suites")


@pytest.fixture
def write(words, small, shared_server):
    """Write the file of a suite of small runs on one task, and return its path; ``fields`` change it."""

    def write_suite(**fields: Any) -> str:
        content = {
            "base": small,
            "tasks": {"words": ["trainer.max_steps=4"]},
            "baselines": {"additive": ["scorer=additive"]},
            "seeds": 1,
        }
        Path("toy.yaml").write_text(yaml.safe_dump({**content, **fields}), encoding="utf-8")
        return "toy.yaml"

    return write_suite


@pytest.fixture
def begun(write, command, make_once):
    """The plain suite, and its baseline in ``multirun``, trained once."""
    suite = write()
    make_once("begun", "multirun", lambda: command("suite", suite))
    return suite


PAGE = Path(__file__).parents[3] / "docs" / "your-own-mechanism.md"
TINY = ["task.examples=640", "task.num_held_out=32", "trainer.max_steps=3", "trainer.num_validations=1"]
TINY += ["lr_schedule.warmup_steps=0", "trainer.test_examples=2"]


def attempts(suite: str) -> dict[str, list[int]]:
    """How often each job was started, by mechanism and stage."""
    folders = sorted((HOME / suite).glob("*/*/sweep.json"))
    return {
        f"{file.parts[-3]}/{file.parts[-2]}": [job.attempts for job in read_sweep(file.parent).jobs] for file in folders
    }


def test_a_check_runs_the_whole_protocol_and_nothing_twice(write, succeed):
    """Two tasks, the challenger and a baseline: two rates with one seed, and two new seeds of the better one."""
    suite = write(
        tasks={"first": [], "second": ["decoder.hidden_size=13"]},
        baselines={"additive": ["scorer=additive"], "mlp": ["scorer=mlp"]},
        search={"optimizer.lr": [0.001, 0.01, 0.1]},
        seeds=3,
        check=["trainer.max_steps=2", "trainer.num_validations=1"],
    )
    output = succeed("suite", suite, "scorer=dot", "--check", "-j", "2")
    assert [line for line in output.splitlines() if "attnx: suite" in line] == [
        f"attnx: suite toy-check, {name}, {stage}"
        for stage in ("search", "the runs that count")
        for name in ("dot", "baselines")
    ]
    assert output.splitlines()[-4:] == [f"{HOME}/toy-check/dot{end}" for end in (".html", ".md", ".csv", ".runs.csv")]
    expected = {f"{name}/{stage}": [1] * 4 for name in ("baselines", "dot") for stage in ("search", "seeds")}
    assert attempts("toy-check") == expected
    seeds = [job.values["seed"] for job in read_sweep(HOME / "toy-check" / "dot" / "seeds").jobs]
    assert seeds == ["2", "3", "2", "3"]
    text = (HOME / "toy-check" / "dot.md").read_text(encoding="utf-8")
    assert "\n**dot** is " in text
    assert "## second\n" in text
    again = succeed("suite", suite, "scorer=dot", "--check")
    assert "job 0" not in again
    assert attempts("toy-check") == expected


def test_another_challenger_uses_the_baselines_and_a_table_replaces_them(begun, command):
    assert command("suite", begun, "scorer=dot").code == 0
    assert attempts("toy") == {"baselines/seeds": [1], "dot/seeds": [1]}
    table = (HOME / "toy" / "dot.runs.csv").rename("others.runs.csv")
    HOME.rename("elsewhere")
    assert command("suite", begun, "scorer=scaled", "+name=mine", str(table)).code == 0
    assert attempts("toy") == {"mine/seeds": [1]}
    text = (HOME / "toy" / "mine.md").read_text(encoding="utf-8")
    assert "**mine** is " in text
    assert " of 3 by its mean rank" in text


def test_an_interrupted_suite_goes_on_by_the_same_command(write, command, moody, stop_sweep, clear_moods):
    suite = write(baselines={"dot": ["scorer=dot"], "moody": ["scorer=moody"]})
    Path("wait").touch()
    stop_sweep(signal.SIGINT)
    answer = command("suite", suite)
    assert answer.code == 130
    assert answer.err == "attnx: interrupted; what has finished is kept; go on with: attnx suite toy.yaml\n"
    page = (HOME / "toy" / "baselines.md").read_text(encoding="utf-8")
    assert "| words | moody | interrupted with seed 2 |" in page
    assert "| 1 | dot |" in page
    clear_moods()
    assert command("suite", suite).code == 0
    folder = next(HOME.glob("toy/baselines-*")).name
    assert attempts("toy") == {"baselines/seeds": [1], f"{folder}/seeds": [2]}


def test_a_table_of_another_test_is_refused_before_training(write, command, moody, stop_sweep):
    suite = write(baselines={"dot": ["scorer=dot"], "moody": ["scorer=moody"]})
    assert command("suite", suite).code == 0
    (run, _) = read_run_table(HOME / "toy" / "baselines.runs.csv")
    rows = (HOME / "toy" / "baselines.runs.csv").read_text(encoding="utf-8")
    for own, foreign in ((run.test, "another"), (",dot,", ",first,"), (",moody,", ",second,")):
        rows = rows.replace(own, foreign)
    Path("others.runs.csv").write_text(rows, encoding="utf-8")
    answer = command("suite", suite, "scorer=mlp", "others.runs.csv")
    assert answer.code == 2
    assert re.fullmatch(r"attnx: others.runs.csv:\d: words was tested on other examples than \S+\n", answer.err)
    assert "mlp/seeds" not in attempts("toy")
    HOME.rename("elsewhere")
    Path("wait").touch()
    stop_sweep(signal.SIGINT)
    answer = command("suite", suite, "others.runs.csv")
    assert answer.code == 130
    assert answer.err.endswith("go on with: attnx suite toy.yaml others.runs.csv\n")


def test_a_failed_job_does_not_stop_the_others(write, command, moody, clear_moods):
    suite = write()
    Path("fall").touch()
    answer = command("suite", suite, "scorer=moody")
    assert answer.code == 1
    text = (HOME / "toy" / "moody.md").read_text(encoding="utf-8")
    assert "**moody** has no result on words." in text
    assert "| words | moody | failed with seed 2: " in text
    assert "I have fallen over" in text
    clear_moods()
    assert command("suite", suite, "scorer=moody").code == 0
    assert attempts("toy")["baselines/seeds"] == [1]


def test_baselines_that_another_command_trains_are_left_to_it(write, command):
    suite = write()
    with lock_folder(HOME / "toy" / "baselines" / "seeds"):
        answer = command("suite", suite, "scorer=dot")
    assert answer.code == 1
    assert "attnx: baselines: multirun/suites/toy/baselines/seeds: another attnx runs this sweep" in answer.out
    assert attempts("toy") == {"dot/seeds": [1]}
    assert "| words | additive | it is not trained yet |" in (HOME / "toy" / "dot.md").read_text(encoding="utf-8")


def test_an_edited_mechanism_is_trained_beside_the_earlier_one(begun, command, moody):
    assert command("suite", begun, "scorer=moody").code == 0
    moody.write_text(moody.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")
    assert command("suite", begun, "scorer=moody").code == 0
    assert len(list(HOME.glob("toy/moody-*"))) == 2
    assert attempts("toy")["baselines/seeds"] == [1]


def test_a_baseline_that_cannot_do_a_task_is_listed(write, command):
    tasks = {"words": [], "monotonic": ["normalizer=monotonic", "attention.heads=1", "normalizer.noise=0.5"]}
    suite = write(tasks=tasks, baselines={"additive": ["scorer=additive"], "none": ["attention=none"]})
    assert command("suite", suite).code == 0
    text = (HOME / "toy" / "baselines.md").read_text(encoding="utf-8")
    assert "| monotonic | none | normalizer" in text


def test_runs_of_another_commit_are_marked(begun, command):
    folder = HOME / "toy" / "baselines" / "seeds" / "0"
    is_in_git = bool(run_info(folder).get("git"))
    change_info(folder, git={"commit": "7" * 40})
    assert command("suite", begun, "scorer=dot").code == 0
    if is_in_git:
        text = (HOME / "toy" / "dot.md").read_text(encoding="utf-8")
        assert "words: The runs are of 2 different commits" in text
        assert "| 777777777777 |" in text


@pytest.mark.parametrize(
    ("fields", "words", "message"),
    [
        ({}, ["scorer=dto"], "unknown scorer 'dto'; did you mean dot?"),
        ({}, ["scorer=additive"], "scorer=additive: is the baseline 'additive' of toy.yaml; leave it out"),
        ({}, ["scorer=dot,mlp"], "scorer=dot,mlp: a suite compares one setting of a mechanism; give one value"),
        (
            {"search": {"optimizer.lr": [1, 2]}},
            ["optimizer.lr=3"],
            "optimizer.lr=3: the search of toy.yaml chooses optimizer.lr; leave it out",
        ),
        (
            {"search": {"attention": ["standard", "differential"]}},
            ["scorer=dot", "+attention.heads=4"],
            "+attention.heads=4: the search of toy.yaml chooses attention; leave it out",
        ),
        (
            {"search": {"+optimizer.lr": [1, 2]}},
            ["scorer=dot", "optimizer.lr=3"],
            "optimizer.lr=3: the search of toy.yaml chooses optimizer.lr; leave it out",
        ),
        ({}, ["task.holdout=0.5"], "task.holdout=0.5: the tasks are those of toy.yaml; leave it out"),
        ({"tasks": {"a": ["trainer.max_steps=null"]}}, [], "toy.yaml: tasks.a: set trainer.max_steps or"),
        ({}, ["seed=3"], "seed=3: a suite sets seeds and folders itself; leave it out"),
        ({}, ["name=mine"], "name=mine: names the mechanism that other overrides describe; give one"),
        ({}, ["scorer=dot", "name=additive"], "name=additive: is the name of a baseline of toy.yaml; choose another"),
        ({}, ["scorer=dot", "name=baselines"], "name=baselines: the page of all baselines of toy.yaml has this name"),
        ({}, ["scorer=dot", "name=a/b"], "name=a/b: contains a path separator"),
        ({}, ["mad"], "mad: one suite at a time, and toy.yaml is one; write KEY=VALUE for a choice"),
        ({}, ["others.csv"], "others.csv: no such file; name a table of runs that attnx suite has written"),
        ({"base": ["task=g2q"]}, [], "toy.yaml: base: unknown task 'g2q'; did you mean g2p?"),
        ({"tasks": {"a": [], "b": ["task=g2q"]}}, [], "toy.yaml: tasks.b: unknown task 'g2q'; did you mean g2p?"),
        ({"baselines": {"a": ["scorer=dot"], "b": ["scorer=dto"]}}, [], "toy.yaml: baselines.b: unknown scorer 'dto'"),
        ({"search": {"optimizer.rate": [1, 2]}}, [], "toy.yaml: search: the optimizer 'adam' has no option 'rate'"),
        ({"search": {"optimizer.lr": [0.1, -1]}}, [], "toy.yaml: search: optimizer.lr=-1"),
        (
            {"baselines": {"a": ["scorer=mlp"], "b": ["scorer=mlp", "scorer.depth=1"]}},
            [],
            "toy.yaml: a and b are the same setting; leave one out",
        ),
        (
            {},
            ["scorer=additive", "attention.heads=1"],
            "toy.yaml: additive-heads=1 and additive are the same setting; leave one out",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line_and_nothing_is_trained(fields, words, message, write, refuse, monkeypatch):
    monkeypatch.setattr(suite_command, "sweep", lambda *_: pytest.fail("it was trained"))
    assert refuse("suite", write(**fields), *words).startswith(f"attnx: {message}")


def test_settings_that_are_the_same_on_some_task_are_noted_before_training(write, command, monkeypatch):
    suite = write(tasks={"words": [], "dots": ["scorer=dot"]}, baselines={"given": [], "additive": ["scorer=additive"]})
    note = "On words, additive and given are the same setting: their runs are equal."
    monkeypatch.setattr(suite_command, "sweep", lambda *_: None)
    assert command("suite", suite).out.startswith(f"note: {note}\nattnx: suite toy, baselines, ")
    assert note in (HOME / "toy" / "baselines.md").read_text(encoding="utf-8")


def test_a_check_notes_what_is_the_same_on_its_two_tasks(write, command, monkeypatch):
    tasks = {"first": [], "second": ["decoder.hidden_size=13"], "third": ["scorer=dot"]}
    suite = write(tasks=tasks, baselines={"given": [], "additive": ["scorer=additive"]})
    monkeypatch.setattr(suite_command, "sweep", lambda *_: None)
    answer = command("suite", suite, "--check")
    assert answer.out.startswith("note: On first, second, additive and given are the same setting")


def test_the_scorer_of_the_tutorial_runs_to_the_page(command, shared_server, no_pictures, monkeypatch):
    """Its file, a first run of it with a tiny budget, and the check of its suite with one seed and no search."""
    shorten = Suite.shortened
    monkeypatch.setattr(Suite, "shortened", lambda suite, count: replace(shorten(suite, count), search={}, seeds=1))
    text = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"%%writefile plugins/thin_bilinear.py\n(.*?)```", text, re.DOTALL)
    lines = [
        shlex.split(line)[1:]
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        for line in block.splitlines()
    ]
    assert [words[0] for words in lines] == ["experiment=mqar_small", "suite", "suite"]
    write_plug_in("thin_bilinear", code)
    assert command(*lines[0], *TINY).code == 0
    assert command(*lines[1]).code == 0
    page = (HOME / "recall-check" / "thin_bilinear.md").read_text(encoding="utf-8")
    assert "**thin_bilinear** is " in page


def test_mechanisms_have_the_parameters_of_the_first_baseline(write, command, monkeypatch):
    """The width is solved on each task; the jobs hold it, and the first baseline keeps its own."""
    suite = write(match="parameters", baselines={"additive": ["scorer=additive"], "dot": ["scorer=dot"]})
    trained: dict[str, Any] = {}
    monkeypatch.setattr(suite_command, "sweep", lambda args, folder, server: trained.update({str(folder): args.jobs}))
    assert command("suite", suite).code == 1  # nothing was trained
    ((additive, dot),) = trained.values()  # one sweep of both
    counts = [sum("hidden_size" in word for word in job) for job in (additive, dot)]
    assert counts == [2, 2]
    assert set(additive) ^ set(dot) > {"scorer=additive", "scorer=dot"}
    answer = command("suite", write(match="parameters", search={"decoder.hidden_size": [7, 11]}), "scorer=dot")
    assert re.fullmatch(
        r"attnx: match=parameters: decoder.hidden_size=\d+: the search of toy.yaml chooses .*\n", answer.err
    )


def test_each_value_of_a_search_has_a_width_of_its_own(write, small, command, monkeypatch):
    """The searched option changes what a model costs, and the optimizer's rate does not."""
    suite = write(
        base=merge_overrides(small, ["encoder.hidden_size=64", "decoder.hidden_size=64"]),
        baselines={"additive": ["scorer=additive"], "dot": ["scorer=dot"]},
        search={"decoder.layers": [1, 3], "optimizer.lr": [0.01, 0.1]},
        match="parameters",
    )
    trained: list[list[str]] = []
    monkeypatch.setattr(suite_command, "sweep", lambda args, folder, server: trained.extend(args.jobs))
    command("suite", suite)
    assert len(trained) == 8
    meter = CostMeter()
    counts = [meter.measure(compose(job), "parameters") for job in trained]
    assert counts == pytest.approx([counts[0]] * 8, rel=TOLERANCE)
    assert counts[::2] == counts[1::2]
