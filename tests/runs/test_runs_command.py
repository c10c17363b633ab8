"""``attnx runs``: lists, filters, and deletions."""

import csv
import fcntl
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from attnx.cli.commands import runs
from attnx.cli.commands.runs import table
from attnx.errors import UserError
from attnx.files.bounded_files import read_mapping
from attnx.runs.info import read_config
from attnx.runs.layout import SWEEP_LOCK
from attnx.runs.run import lock_run
from attnx.runs.sweep import Sweep, SweepJob
from attnx.sweeps.record import open_record, save_sweep
from tests.run_folder import write_run_folder
from tests.runs.conftest import change_info, file_contents

Command = Callable[..., Any]
HEAD = ["run", "status", "test_per", "scorer", "seed", "created", "duration", "size"]


@pytest.fixture
def write_run(work_folder, monkeypatch):
    """Write what ``attnx runs`` reads of a run folder, begun so many minutes after the last one."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    count = iter(range(60))

    def make(
        folder: str, scorer: str = "dot", per: float | None = 7.0, seed: int = 1, valid: float = 31.0, **info: Any
    ) -> Path:
        options = {"hidden_size": 64} if scorer == "additive" else {}
        path = write_run_folder(
            folder,
            {"seed": seed, "scorer": {"name": scorer, **options}, "query": {"token": {}, "last_context": {}}},
            None if per is None else {"test_per": per, "train_seconds": 67.0},
            curve=f"step,valid_per\n11,\n23,{valid}\n",
            readme="" if per is None else "# a run\n",
            **{"name": None, "created": f"2026-03-17T12:{next(count):02d}:00+0000", **info},
        )
        (path / "checkpoints").mkdir()
        for name in ("best", "best-2", "last"):
            (path / "checkpoints" / f"{name}.ckpt").write_bytes(b"w" * 1009)
        return path

    return make


@pytest.fixture
def sweep(write_run):
    """A finished sweep of three jobs, ``multirun/three``; the second is best in validation, the first in the test."""
    settings = [("dot", 5.0, 37.0), ("cosine", 11.0, 29.0), ("additive", 13.0, 41.0)]
    jobs = [SweepJob(number, [f"scorer={scorer}"], "finished") for number, (scorer, _, _) in enumerate(settings)]
    for number, (scorer, per, valid) in enumerate(settings):
        write_run(f"multirun/three/{number}", scorer, per, valid=valid)
    record = Sweep(Path("multirun/three"), "attnx -m ...", ["scorer=dot,cosine,additive"], status="finished", jobs=jobs)
    save_sweep(record)
    return record


def silent_for(folder: Path, seconds: float) -> None:
    """Let all files of a folder be so old."""
    for path in folder.rglob("*"):
        os.utime(path, (time.time() - seconds,) * 2)


def paths(command: Command, *words: str) -> list[str]:
    answer = command("runs", *words, "--paths")
    assert answer.code == 0
    return list(answer.out.split())


def files(folder: Path) -> set[str]:
    return {path.name for path in (folder / "checkpoints").iterdir()}


def test_runs_are_listed_newest_first_with_differences(write_run, command):
    write_run("multirun/runs/one", "additive", 7.0)
    write_run("multirun/runs/two", "dot", 11.238, seed=3)
    write_run("multirun/deep/er/2", "dot", 13.0)
    write_run("multirun/.hidden/3", "dot", 17.0)
    answer = command("runs")
    head, *rows = [line.split() for line in answer.out.splitlines()]
    assert (answer.code, answer.err, head) == (0, "", HEAD)
    assert [row[:5] for row in rows] == [
        ["multirun/deep/er/2", "finished", "13.00", "dot", "1"],
        ["multirun/runs/two", "finished", "11.24", "dot", "3"],
        ["multirun/runs/one", "finished", "7.00", "additive", "1"],
    ]
    assert rows[2][5:8] == ["2026-03-17", "12:00", "1:07"]
    assert command("runs").out == answer.out
    assert [line.split()[0] for line in command("runs", "multirun/deep").out.splitlines()[1:]] == ["multirun/deep/er/2"]
    assert "scorer" not in command("runs", "multirun/deep").out


def test_an_untested_run_shows_its_validation(write_run, command):
    """A small metric is shown by its significant digits, as it would be in the report."""
    write_run("multirun/a", per=0.08861, valid=31.0)
    folder = write_run("multirun/b", per=None, valid=29.0, status="interrupted")  # created at 12:01
    os.utime(folder / "metrics.csv", (datetime(2026, 3, 17, 12, 3, 6, tzinfo=UTC).timestamp(),) * 2)
    head, second, first = (line.split() for line in command("runs").out.splitlines())
    assert head[2:4] == ["test_per", "valid_per"]
    assert (first[2:4], second[2:4]) == (["0.08861", "31.00"], ["-", "29.00"])
    assert second[7] == "2:06"  # to its last row


def test_a_silent_running_run_was_stopped(write_run, command):
    """After a day, where no lock of this machine says so; a status that nobody knows can be selected, too."""
    folders = {
        name: write_run(f"multirun/{name}", per=None, status="running") for name in ("alive", "silent", "fallen")
    }
    write_run("multirun/other", status="melted")
    (folders["fallen"] / "progress.json").write_text('{"error": "out of memory"}', encoding="utf-8")
    silent_for(folders["silent"], 90000)
    silent_for(folders["alive"], 80000)
    rows = json.loads(command("runs", "--json").out)
    statuses = {"alive": "running", "silent": "stopped", "fallen": "failed", "other": "unknown"}
    assert {Path(row["path"]).name: row["status"] for row in rows} == statuses
    assert paths(command, "status=stopped") == ["multirun/silent"]
    assert paths(command, "status=unknown") == ["multirun/other"]


def test_words_filter_sort_and_limit(write_run, command):
    for number, (scorer, per, seed) in enumerate(
        [("additive", 7, 1), ("additive", 11, 2), ("dot", 5, 1), ("dot", 13, 3)]
    ):
        write_run(f"multirun/{number}", scorer, per, seed)
    write_run("multirun/4", "dot", None, 2, status="failed", name="mine")

    def listed_names(*words: str) -> str:
        return "".join(Path(path).name for path in paths(command, *words))

    assert listed_names() == "43210"
    assert listed_names("scorer=additive") == "10"
    assert listed_names("scorer=additive", "seed=1,3") == "0"
    assert listed_names("scorer!=additive", "status=finished") == "32"
    assert listed_names("test_per<11") == "20"
    assert listed_names("valid_per>=31", "seed=2") == "41"
    assert listed_names("scorer.hidden_size=64") == "10"
    assert listed_names("query=[token,last_context]", "limit=2") == "43"
    assert listed_names("name=mine") == listed_names("name=m*") == listed_names("status=fail*") == "4"
    assert listed_names("path=multirun/[0]") == ""
    assert listed_names("sort=test_per") == "20134"  # what has none comes last in either direction
    assert listed_names("sort=-test_per") == "31024"
    assert listed_names("sort=-test_per", "limit=2") == "31"
    assert listed_names("created>=2026-03-17T12:02+00:00", "until=2026-03-17T12:04+00:00") == "32"
    assert listed_names("since=3000w") == listed_names("multirun", "multirun/3", "2", "limit=5") == "43210"


def test_json_output_is_complete(write_run, command):
    write_run("multirun/a", "additive", 7.0, name="mine")
    write_run("multirun/b", "dot", None, status="interrupted")
    (Path("multirun/b") / "results.json").write_text('{"test_wer": null}', encoding="utf-8")
    second, first = json.loads(command("runs", "--json").out, parse_constant=pytest.fail)
    expected = {"path": "multirun/a", "name": "mine", "status": "finished", "created": "2026-03-17T12:00:00+0000"}
    expected |= {"duration": 67.0, "monitor": "valid_per", "maximize": False, "best": 31.0}
    assert {key: first[key] for key in expected} == expected
    assert first["size"] == sum(path.stat().st_size for path in Path("multirun/a").rglob("*") if path.is_file())
    assert first["results"] == {"test_per": 7.0, "train_seconds": 67.0}
    assert first["config"]["scorer"] == {"name": "additive", "hidden_size": 64}
    assert second["results"] == {"test_wer": None}
    rows = list(csv.DictReader(io.StringIO(command("runs", "--csv", "sort=path").out)))
    assert [(row["scorer"], row["scorer.hidden_size"], row["test_per"]) for row in rows] == [
        ("additive", "64", "7.0"),
        ("dot", "", ""),
    ]
    assert command("runs", "scorer=additive", "--paths").out == "multirun/a\n"


def test_a_terminal_shows_columns_that_fit(write_run, command, monkeypatch):
    write_run("multirun/one", "additive", 7.0)
    write_run("multirun/two", "dot", 11.0)
    monkeypatch.setenv("TERM", "xterm")  # a dumb one has no colors
    for width, missing in ((120, ""), (36, "duration"), (22, "test_per")):
        screen = io.StringIO()
        monkeypatch.setattr(
            table, "Console", lambda file=screen, width=width: Console(file=file, width=width, force_terminal=True)
        )
        command("runs")
        plain = screen.getvalue()
        assert "finished" in plain
        assert "\x1b[32m" in plain  # finished is green
        assert ("no room for" in plain) == bool(missing)
        assert missing in plain


def test_a_nested_configuration_reads_like_a_flat_one(work_folder):
    awkward = """\
# a comment
---
scorer: {name: additive,
  hidden: 64}
widths:
- 19
- 5
text: "of
  two lines"
"""
    file = Path("config.yaml")
    for text in (awkward, 'a: "x\ny: z"\nb: 1\n', "a:\n  b:\n\n    c: 1\n# end\n...\n"):
        file.write_text(text, encoding="utf-8")
        assert read_config(file) == yaml.safe_load(text), text
    file.write_text("a: 1\na: 2\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"^config.yaml:2: not valid YAML: a is written twice; leave one out$"):
        read_config(file)


def test_a_real_run_is_listed(run, command):
    run("scorer=dot", folder="multirun/real")
    (row,) = json.loads(command("runs", "--json").out)
    assert (row["status"], row["monitor"], row["config"]["scorer"]["name"]) == ("finished", "valid_per", "dot")
    assert row["best"] >= 0
    assert 0 < row["duration"] < 3600
    assert command("runs").out.split()[:3] == ["run", "status", "test_per"]
    assert files(Path("multirun/real")) == {"best.ckpt", "last.ckpt"}
    answer = command("runs", "prune", "--yes")
    assert (answer.code, answer.err, files(Path("multirun/real"))) == (0, "", {"best.ckpt"})


def test_an_unreadable_run_is_left_out_with_its_reason(write_run, command):
    write_run("multirun/good")
    write_run("multirun/new", format=99)
    (write_run("multirun/torn") / "config.yaml").write_text("seed: [1\nname: x\n", encoding="utf-8")
    (write_run("multirun/list") / "config.yaml").write_text("- 1\n", encoding="utf-8")
    (write_run("multirun/cut") / "run.json").write_text('{"format": 1', encoding="utf-8")
    answer = command("runs", "--paths")
    assert (answer.code, answer.out) == (0, "multirun/good\n")
    messages = sorted(answer.err.splitlines())
    assert [line.split(": ")[2].split(":")[0] for line in messages] == [
        "multirun/cut/run.json",
        "multirun/list/config.yaml",
        "multirun/new/run.json",
        "multirun/torn/config.yaml",
    ]
    command("runs", "prune", "keep=none", "--yes")
    assert {path.parents[1].name for path in Path("multirun").rglob("*.ckpt")} == {"cut", "list", "new", "torn"}


MISTAKES = {
    "scoerr=dot": "no run here has a key 'scoerr'; did you mean scorer?",
    "scorer.hiden=3": "no run here has a key 'scorer.hiden'; did you mean scorer.hidden_size",
    "sort=tst_per": "no run here has a key 'tst_per'; did you mean test_per",
    "sort=": "sort=: needs a key",
    "status=faild": "status=faild: no such status; did you mean failed?",
    "test_per<ten": "test_per<ten: expected a number",
    "limit=0": "limit=0: expected a whole number, 1 or more",
    "limit=1 limit=2": "limit is set twice",
    "keep=best": "keep=best goes with attnx runs prune only",
    "nowhere": "nowhere: not a folder",
    "--yaml": "unknown flag --yaml",
    "--yes": "attnx runs has no flag --yes",
    "--json --csv": "--csv and --json cannot go together",
    "prune --json": "attnx runs prune has no flag --json",
    "prune keep=bst": "keep=bst: expected one of best, last, none",
    "prune scoerr=dot --yes": "no run here has a key 'scoerr'",
    "prune --yess": "unknown flag --yess; did you mean --yes?",
    "prune nowhere --yes": "nowhere: not a folder",
}


@pytest.mark.parametrize(("words", "message"), MISTAKES.items())
def test_mistakes_give_one_line_and_delete_nothing(words, message, write_run, refuse):
    write_run("multirun/a", "additive")
    write_run("multirun/b", "dot")
    assert message in refuse("runs", *words.split())


def test_an_empty_selection_is_explained(write_run, command, refuse):
    assert refuse("runs") == "attnx: multirun: not a folder; name the folder to look into, attnx runs FOLDER\n"
    Path("multirun").mkdir()
    assert command("runs") == (0, "", "attnx: no runs in multirun\n")
    write_run("multirun/a", "additive")
    answer = command("runs", "scorer=aditive")
    assert answer == (0, "", "attnx: none left: scorer=aditive of 1 run(s); scorer is additive\n")


def test_prune_deletes_only_with_yes(write_run, command):
    done, cut = write_run("multirun/done"), write_run("multirun/cut", per=None, status="interrupted")
    files_before = file_contents()
    shown = command("runs", "prune")
    assert file_contents() == files_before
    lines = shown.out.splitlines()
    assert lines[1].split() == ["multirun/cut", "best-2.ckpt", "1.0", "kB"]  # it resumes from the last one
    assert lines[2].split() == ["multirun/done", "best-2.ckpt", "last.ckpt", "2.0", "kB"]
    assert lines[3] == "3.0 kB would be freed; nothing was deleted: add --yes to delete"
    answer = command("runs", "prune", "--yes")
    assert answer.out.splitlines() == [*lines[:3], "3.0 kB freed"]
    assert (files(done), files(cut)) == ({"best.ckpt"}, {"best.ckpt", "last.ckpt"})
    assert read_mapping(done / "run.json")["deleted"] == ["checkpoints/best-2.ckpt", "checkpoints/last.ckpt"]
    assert read_mapping(done / "run.json")["status"] == "finished"
    assert read_mapping(done / "results.json") == {"test_per": 7.0, "train_seconds": 67.0}
    assert command("runs", "prune", "--yes") == (0, "nothing to delete\n", "")


def test_a_hard_link_counts_once(write_run, command):
    """Its bytes are freed with the last link."""
    run = write_run("multirun/one")
    bytes_before = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    (run / "checkpoints" / "best.ckpt").unlink()
    (run / "checkpoints" / "best.ckpt").hardlink_to(run / "checkpoints" / "last.ckpt")
    assert json.loads(command("runs", "--json").out)[0]["size"] == bytes_before - 1009
    assert command("runs", "prune").out.splitlines()[-1].startswith("1.0 kB would be freed")
    assert command("runs", "prune", "keep=none", "--yes").out.splitlines()[-1] == "2.0 kB freed"


@pytest.mark.parametrize(
    ("keep", "stays", "unfinished"), [("last", {"last.ckpt"}, {"best.ckpt", "last.ckpt"}), ("none", set(), set())]
)
def test_the_kept_checkpoint_can_be_selected(write_run, command, keep, stays, unfinished):
    """A run that has not finished needs its best weights at its end, and the last to go on."""
    done, cut = write_run("multirun/done"), write_run("multirun/cut", per=None, status="interrupted")
    shown = command("runs", "prune", f"keep={keep}").out
    assert f"{2 - bool(unfinished)} run(s) have no best weights after this" in shown
    assert ("1 unfinished run(s) will restart from the beginning when resumed" in shown) == (keep == "none")
    command("runs", "prune", f"keep={keep}", "--yes")
    assert (files(done), files(cut)) == (stays, unfinished)


def test_without_the_selected_checkpoint_the_other_is_kept(write_run, command):
    run = write_run("multirun/a")
    (run / "checkpoints" / "best.ckpt").unlink()
    command("runs", "prune", "keep=best", "--yes")
    assert files(run) == {"last.ckpt"}


def test_running_runs_are_unchanged(write_run, command):
    alive, stopped = (write_run(f"multirun/{name}", per=None, status="running") for name in ("alive", "stopped"))
    silent_for(stopped, 90000)
    content_before = {path: (alive / path).read_bytes() for path in ("run.json", "checkpoints/last.ckpt")}
    answer = command("runs", "prune", "keep=none", "--yes")
    assert "left alone: 1 running" in answer.out
    assert files(stopped) == set()
    assert read_mapping(stopped / "run.json")["status"] == "interrupted"  # it does not look alive for being written to
    assert {path: (alive / path).read_bytes() for path in content_before} == content_before


def test_a_locked_run_is_running(write_run, command, monkeypatch):
    """Also one that is resumed between the plan and the deletion."""
    run = write_run("multirun/resumed", per=None, status="interrupted")
    content_before = file_contents()
    with lock_run(run):
        assert paths(command, "status=running") == ["multirun/resumed"]
        answer = command("runs", "prune", "keep=none", "--yes")
        assert answer.out == "left alone: 1 running\nnothing to delete\n"
        monkeypatch.setattr("attnx.runs.run.is_lock_held", lambda path: False)
        answer = command("runs", "prune", "keep=none", "--yes")
        assert (answer.code, "multirun/resumed: another process trains this run" in answer.err) == (1, True)
    assert file_contents() == content_before


def test_a_job_without_a_folder_is_repeated(sweep):
    """The user deletes run folders, and jobs without weights stay finished."""
    shutil.rmtree(sweep.path / "0")
    shutil.rmtree(sweep.path / "1" / "checkpoints")
    resumed = open_record(sweep.path, "attnx -m ...", ["scorer=dot,cosine,additive"], None)
    assert [job.status for job in resumed.jobs] == ["waiting", "finished", "finished"]


def test_a_running_sweep_is_refused(sweep, command, refuse):
    with (sweep.path / SWEEP_LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for words in (["prune"], ["prune", "--yes"], ["prune", "keep=none", "scorer=dot", "--yes"]):
            assert "this sweep is running; end it, or leave it out with 'name!=three/*'" in refuse("runs", *words)
        assert command("runs", "prune", "name!=three/*", "--yes").code == 0
    assert command("runs", "prune", "--yes").code == 0


def test_a_sweep_that_was_killed_is_not_running(sweep, command):
    """Nobody was left to write that it was killed, neither in its record nor in its job's folder."""
    folder = sweep.path / "1"
    change_info(folder, status="running")
    (folder / "progress.json").write_text('{"step": 5}', encoding="utf-8")
    silent_for(folder, 90000)
    sweep.jobs[1].status = "running"
    save_sweep(sweep)
    (sweep.path / SWEEP_LOCK).touch()
    answer = command("runs", "prune", "status=stopped", "keep=none", "--yes")
    assert (answer.code, answer.err, files(folder)) == (0, "", set())


def test_links_are_not_followed(write_run, command):
    outside = write_run("outside/one")
    linked = outside / "checkpoints"
    Path("multirun").mkdir()
    Path("multirun/link").symlink_to(outside.resolve())
    inside = write_run("multirun/inside")
    shutil.rmtree(inside / "checkpoints")
    (inside / "checkpoints").symlink_to(linked.resolve())
    assert paths(command) == ["multirun/inside"]
    assert command("runs", "prune", "--yes") == (0, "nothing to delete\n", "")
    assert files(outside) == {"best.ckpt", "best-2.ckpt", "last.ckpt"}


def test_deleted_checkpoints_are_recorded_first(write_run, command, monkeypatch):
    run = write_run("multirun/one")
    with monkeypatch.context() as patch:

        def cut_off(file: Path, missing_ok: bool = False) -> None:
            raise KeyboardInterrupt

        patch.setattr(Path, "unlink", cut_off)
        assert command("runs", "prune", "--yes").code == 130
    assert files(run) == {"best.ckpt", "best-2.ckpt", "last.ckpt"}
    noted = ["checkpoints/best-2.ckpt", "checkpoints/last.ckpt"]
    assert read_mapping(run / "run.json")["deleted"] == noted
    command("runs", "prune", "--yes")
    assert (files(run), read_mapping(run / "run.json")["deleted"]) == ({"best.ckpt"}, noted)


def test_a_folder_that_cannot_be_read_is_named(write_run, command, monkeypatch):
    write_run("multirun/one")

    def walk(root: Path, onerror: Callable[[OSError], object]) -> Iterator[Any]:
        onerror(PermissionError(13, "Permission denied", f"{root}/secret"))
        return real_walk(root)

    real_walk = os.walk
    monkeypatch.setattr(os, "walk", walk)
    answer = command("runs")
    assert answer.err == "attnx: left out: multirun/secret: Permission denied\n"
    assert "one" in answer.out


def test_the_command_imports_neither_torch_nor_hydra(write_run):
    write_run("multirun/one", "additive")
    write_run("multirun/two", "dot")
    check = """
import sys
from attnx.cli.main import run
asked = ["", "--json", "scorer=dot sort=test_per", "prune keep=none --yes"]
for words in asked:
    run(["runs", *words.split()])
found = {"torch", "lightning", "hydra", "omegaconf", "matplotlib"} & set(sys.modules)
assert not found, found
"""
    ran = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def documented_uses() -> list[list[str]]:
    """The uses of ``attnx runs`` in its help page and in docs/runs.md, of which there are some."""
    page = Path(__file__).parents[2] / "docs" / "runs.md"
    help_lines = (runs.__doc__ or "").partition("Examples:")[2].splitlines()
    lines = [*page.read_text(encoding="utf-8").splitlines(), *map(str.strip, help_lines)]
    uses = [shlex.split(line)[1:] for line in lines if re.match(r"attnx runs( |$)", line)]
    assert len(uses) >= 9
    return uses


@pytest.mark.parametrize("words", documented_uses(), ids=shlex.join)
def test_a_documented_use_works(write_run, command, words):
    for number, scorer in enumerate(("additive", "additive", "dot")):
        folder = write_run(
            f"multirun/scorers/{number}", scorer, name="g2p-full", status="failed" if number == 2 else "finished"
        )
        config = {**read_mapping(folder / "config.yaml"), "scope": {"name": "local", "window": 5}}
        (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    answer = command(*words)
    assert answer.code == 0
    assert "Traceback" not in answer.err
    assert answer.out or "none left" in answer.err


def test_opening_a_pruned_run_names_the_deletion(run, command, refuse):
    run("scorer=dot", folder="multirun/real")
    command("runs", "prune", "keep=last", "--yes")
    file = "multirun/real/checkpoints/best.ckpt"
    message = f"{file}: was deleted by attnx runs prune; results and pictures are still there"
    assert refuse("evaluate", "multirun/real") == f"attnx: {message}; choose from last\n"
    assert command("predict", "multirun/real", "words.tsv", "--checkpoint", "last").code == 0
    command("runs", "prune", "keep=none", "--yes")
    assert refuse("evaluate", "multirun/real") == f"attnx: {message}\n"
