"""A sweep's name is one folder in ``multirun/``, and nothing else is written or moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnx.cli.sweep import _sweep_folder
from attnx.errors import UserError
from attnx.runs.layout import check_name


@pytest.fixture
def refuse_sweep(command, work_folder):
    """Ask for a sweep that must be refused without a trace; return the line."""

    def refused_message(*overrides: str) -> str:
        times_before = {path: path.lstat().st_mtime_ns for path in work_folder.rglob("*")}
        answer = command("-m", "seed=1,2", *overrides)
        assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
        assert {path: path.lstat().st_mtime_ns for path in work_folder.rglob("*")} == times_before
        return str(answer.err)

    return refused_message


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
def test_a_folder_of_other_files_is_unchanged(fresh, refuse_sweep, work_folder):
    (work_folder / "multirun" / "mine").mkdir(parents=True)
    (work_folder / "multirun" / "mine" / "README.md").write_text("not a sweep's", encoding="utf-8")
    line = refuse_sweep("name=mine", *fresh)
    assert "multirun/mine: is not the folder of a sweep, it holds README.md; choose another name=" in line


@pytest.mark.parametrize("fresh", [[], ["fresh=true"]])
@pytest.mark.parametrize("is_existing", [True, False])
def test_a_link_out_of_multirun_is_not_followed(is_existing, fresh, refuse_sweep, work_folder):
    away = work_folder / "away"
    if is_existing:
        away.mkdir()
        (away / "sweep.json").write_text("{}", encoding="utf-8")
    (work_folder / "multirun").mkdir()
    (work_folder / "multirun" / "mine").symlink_to(away)
    assert f"multirun/mine: is a link to {away}; choose another name=" in refuse_sweep("name=mine", *fresh)


def test_quoting_does_not_change_the_folder_name():
    folders = {_sweep_folder([word], {(): {"name": "a|b"}}) for word in ('name="a|b"', "name='a|b'", "+name='a|b'")}
    assert folders == {Path("multirun/a|b")}
