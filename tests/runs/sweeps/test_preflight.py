"""Mistakes in the name or the jobs of a sweep are reported once in one line, before anything is written or moved."""

import functools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attnx.cli.sweep import _sweep_folder
from attnx.errors import UserError
from attnx.runs.layout import check_name
from attnx.runs.sweep import overrides_key, read_sweep
from attnx.sweeps import preflight
from attnx.sweeps.job_process import JobSpec
from attnx.sweeps.preflight import check_jobs, check_settings


@pytest.fixture
def refuse_sweep(sweep, work_folder):
    """Ask for a sweep that must be refused without a trace; return the line."""

    def refused_message(*overrides: str) -> str:
        times_before = {path: path.lstat().st_mtime_ns for path in work_folder.rglob("*")}
        answer = sweep(*overrides)
        assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
        assert {path: path.lstat().st_mtime_ns for path in work_folder.rglob("*")} == times_before
        return str(answer.err)

    return refused_message


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ("task.train=nowhere.tsv", "nowhere.tsv: no such file"),
        ("task.train=bad.tsv", "bad.tsv:1: no tab"),
        ("model.source_vectors=nowhere.txt", "nowhere.txt"),
    ],
)
def test_a_mistake_of_every_job_is_reported_as_by_a_single_run(
    overrides, message, refuse_sweep, command, small, work_folder
):
    (work_folder / "bad.tsv").write_text("kab K AA B\n", encoding="utf-8")
    line = refuse_sweep("scorer=dot,additive", "seed=1,2", overrides)
    assert message in line
    assert command(*[size for size in small if overrides.partition("=")[0] not in size], overrides).err == line


def test_a_mistake_of_some_jobs_is_reported_with_the_first(refuse_sweep):
    line = refuse_sweep("scorer=dot,additive", "task.train=words.tsv,nowhere.tsv", "seed=1,2")
    first = "scorer=dot task.train=nowhere.tsv seed=1"
    assert line.startswith(
        f"attnx: 4 of 8 jobs cannot run, the first is {first}: task.train: nowhere.tsv: no such file"
    )


def test_an_old_sweep_is_moved_only_if_the_new_one_can_run(sweep, refuse_sweep):
    """And what is finished needs its data no more."""
    assert sweep("seed=1", "name=one").code == 0
    refuse_sweep("task.train=nowhere.tsv", "name=one", "fresh=true")
    Path("words.tsv").unlink()
    assert sweep("seed=1", "name=one").code == 0
    assert "words.tsv: no such file" in refuse_sweep("seed=1,2", "name=one")
    assert [job.status for job in read_sweep("multirun/one").jobs] == ["finished"]


@pytest.mark.parametrize("name", ["scorers", "a|b", "mit-Ümlaut_2", "-j", "'quoted'", "run 3", "q.1", "x" * 128])
def test_plain_names_are_accepted(name):
    check_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *["", ".", "..", ".hidden", "../x", "/x", "x/", "a\\b", "a\0b", "a\nb", "a\x1b[31mb", "a\u202eb", "\udcff"],
        *[" x", "x ", "x" * 129, "runs", "RUNS"],
    ],
)
def test_names_with_path_parts_are_refused_in_one_line(name):
    with pytest.raises(UserError, match="expected the name of one folder") as error:
        check_name(name)
    assert str(error.value).isprintable()


@pytest.mark.parametrize("fresh", [[], ["fresh=true"]])
def test_a_folder_of_other_files_is_unchanged(fresh, refuse_sweep):
    Path("multirun/mine").mkdir(parents=True)
    Path("multirun/mine/README.md").write_text("not a sweep's", encoding="utf-8")
    line = refuse_sweep("seed=1,2", "name=mine", *fresh)
    assert "multirun/mine: is not the folder of a sweep, it holds README.md; choose another name=" in line


@pytest.mark.parametrize("fresh", [[], ["fresh=true"]])
@pytest.mark.parametrize("is_existing", [True, False])
def test_a_link_out_of_multirun_is_not_followed(is_existing, fresh, refuse_sweep, work_folder):
    away = work_folder / "away"
    if is_existing:
        away.mkdir()
        (away / "sweep.json").write_text("{}", encoding="utf-8")
    Path("multirun").mkdir()
    Path("multirun/mine").symlink_to(away)
    line = refuse_sweep("seed=1,2", "name=mine", *fresh)
    assert f"multirun/mine: is a link to {away}; choose another name=" in line


def test_quoting_does_not_change_the_folder_name():
    folders = {_sweep_folder([word], {(): {"name": "a|b"}}) for word in ('name="a|b"', "name='a|b'", "+name='a|b'")}
    assert folders == {Path("multirun/a|b")}


class InlineServer:
    """Runs each job at once, in this process."""

    is_ready = True

    def __init__(self) -> None:
        self.jobs: list[JobSpec] = []

    def start(self, job: int, task: JobSpec) -> None:
        self.jobs.append(task)
        check_settings(task.config, task.overrides)

    def send_signal(self, job: int, signum: int) -> None: ...

    def wait(self, seconds: float) -> list[tuple[int, int]]:
        return [(preflight.CHECK_JOB, 0)]

    def close(self) -> None: ...


def tasks_load_by(monkeypatch: pytest.MonkeyPatch, load: Callable[[Any], object]) -> None:
    """Give each task a ``load`` that gets its options."""
    monkeypatch.setattr(
        preflight.registry, "build", lambda kind, options: SimpleNamespace(load=functools.partial(load, options))
    )


def test_data_and_settings_are_prepared_once(monkeypatch):
    """Settings alternate between two tasks, of which one has a file that is refused."""
    read, prepared = [], []

    def load(task: Any) -> str:
        read.append(task["train"])
        if task["train"] == "bad":
            raise UserError("bad: is bad")
        return "data"

    monkeypatch.setattr(preflight, "check_task_files", lambda task: None)
    tasks_load_by(monkeypatch, load)
    monkeypatch.setattr(preflight, "_prepare", lambda config, data: prepared.append((config["scorer"], data[1])))
    overrides = [[f"scorer={s}", f"task.train={t}", f"seed={n}"] for s in "de" for t in ("good", "bad") for n in (1, 2)]
    configs = {
        overrides_key(job): {
            "scorer": job[0][-1],
            "task": {"name": "g2p", "train": job[1].partition("=")[2]},
            "seed": n,
            "name": None,
        }
        for n, job in enumerate(overrides)
    }
    server = InlineServer()
    with pytest.raises(UserError, match=r"4 of 8 jobs .* is scorer=d task\.train=bad seed=1: bad: is bad"):
        check_jobs(overrides, configs, {}, server)
    assert sorted(read) == ["bad", "good"]
    assert prepared == [("d", "data"), ("e", "data")]
    assert len(server.jobs[0].config["settings"]) == 4


def test_unexpected_errors_are_left_to_the_job(monkeypatch):
    """Its log then has the traceback."""

    def load(task: Any) -> None:
        raise RuntimeError("I have fallen over")

    monkeypatch.setattr(preflight, "check_task_files", lambda task: None)
    tasks_load_by(monkeypatch, load)
    check_jobs([["seed=1"]], {overrides_key(["seed=1"]): {"task": {"name": "g2p"}, "seed": 1}}, {}, InlineServer())


def test_settings_are_checked_with_few_drawn_examples(monkeypatch):
    """A million would take minutes; the settings that are trained keep them."""
    numbers: list[int] = []

    def load(task: Any) -> None:
        numbers.append(task["examples"])
        raise UserError("no data")

    tasks_load_by(monkeypatch, load)
    for examples in (1_000_000, 300):
        job, task = ["seed=1"], {"name": "pointing", "examples": examples}
        with pytest.raises(UserError, match="no data"):
            check_jobs([job], {overrides_key(job): {"task": task, "seed": 1}}, {}, InlineServer())
        assert task["examples"] == examples
    assert numbers == [preflight.MAX_DRAWN_EXAMPLES, 300]
