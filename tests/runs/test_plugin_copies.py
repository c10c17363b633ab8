"""The code of a plug-in is copied into the run, and changed code is always reported."""

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from attnx import registry
from attnx.config.view import varied_keys
from attnx.errors import Interrupted, UserError
from attnx.inference.load import open_run
from attnx.registry.plugin_code import plugin_parts, source_files
from attnx.reports.sweep.load_runs import load_runs
from attnx.sweeps.job_process import reject_edited_plugins
from attnx.sweeps.record import open_record, reject_other_code, save_sweep
from attnx.training import fit as fitting
from attnx.training.fit import resume
from tests.runs.conftest import change_info, file_contents, fit_run, results, run_info, write_plug_in

HELPER = "STEEP = 3.0\n"
SCORER = '''\
"""The scorer ``mine``."""

from attnx.attention.scorers.dot import Dot
from attnx.plugins import _steep
from attnx.registry import register


@register("scorer", "mine")
class Mine(Dot):
    def score(self, queries, keys):
        return _steep.STEEP * super().score(queries, keys)
'''
NEGATED = SCORER.replace("return _steep", "return -_steep")
UNUSED = SCORER.replace('"mine"', '"unused"')


@pytest.fixture(scope="module")
def home(tmp_path_factory, write_words, train_in, sized):
    """A folder with words, plug-ins, and the run ``one``, which used one of them."""
    home = tmp_path_factory.mktemp("kept")
    write_words(home)
    for name, text in {"mine": SCORER, "_steep": HELPER, "unused": UNUSED}.items():
        write_plug_in(name, text, str(home / "plugins"))
    train_in(home, *sized("scorer=mine", "trainer.max_steps=60", "optimizer.lr=0.03"), folder="one")
    return home


@pytest.fixture(autouse=True)
def _copied(home, work_folder, no_pictures):
    """Each test has a copy of that, in its own folder."""
    shutil.copytree(home, work_folder, dirs_exist_ok=True)
    registry.forget_changed()


def edit(text: str, name: str = "mine") -> None:
    """Write a plug-in, and have nothing of it imported, as in the next command's process."""
    write_plug_in(name, text)
    registry.forget_changed()


def log_probabilities() -> list[float]:
    """What the run predicts for some words, by the code of now."""
    return [prediction.log_probability for prediction in open_run("one").predict(WORDS)]


WORDS = ["dab", "seked", "kab", "abede", "bakes", "dekab"]
COPY = "to use the run's copy, set ATTNX_PLUGINS=one/plugins"
CODE_CHANGED = f"one: the code of {{0}} has changed since this run was trained; {COPY}"


def test_the_run_copies_the_files_it_used():
    """The part's own and what that imports from the folder, with their SHA-256; no other."""
    files = {"_steep.py": HELPER.encode(), "mine.py": SCORER.encode()}
    assert file_contents("one/plugins") == files
    saved = run_info("one")["plugins"]
    assert saved["files"] == {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    assert list(saved["parts"]) == ["scorer=mine"]


def test_imports_are_followed(work_folder):
    """However they are spelled, and however deep."""
    lines = ["import attnx.plugins._a", "from attnx.plugins._b import ONE", "from . import _c", "from ._d import TWO"]
    edit("\n".join([*lines, "from ._not_there import x", "import torch", SCORER.split("\n", 2)[2]]))
    for name in "abcd":
        edit("from . import _steep\n" if name == "a" else "", f"_{name}")
    (part,) = plugin_parts({"scorer": {"name": "mine"}})
    assert list(source_files([part])) == ["_a.py", "_b.py", "_c.py", "_d.py", "_steep.py", "mine.py"]


def test_parts_built_by_plug_ins_are_copied():
    edit('def metrics(registry): return registry.build("scorer", "unused")', "_steep")
    assert [part.name for part in plugin_parts({"scorer": {"name": "mine"}})] == ["mine", "unused"]


def test_changed_code_is_reported_and_the_copy_is_usable(command, succeed, monkeypatch):
    Path("in.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    first = succeed("predict", "one", "in.txt", "--scores")
    edit(NEGATED)
    second = command("predict", "one", "in.txt", "--scores")
    assert (second.code, second.err) == (0, f"attnx: {CODE_CHANGED.format('mine.py')}\n")
    assert second.out != first
    monkeypatch.setenv("ATTNX_PLUGINS", "one/plugins")
    again = command("predict", "one", "in.txt", "--scores")
    assert again.out == first
    assert "has changed since this run was trained" not in again.err


@pytest.mark.parametrize("record", ["run.json", "sweep.json"])
def test_the_copies_in_the_working_folder_are_not_run(record, monkeypatch):
    """Neither from within a run nor from within a sweep, unless the user names the folder."""
    folder = Path("theirs").absolute()
    Path("one").rename(folder)
    ran = folder / "ran"
    for file in (folder / "plugins").glob("*.py"):
        file.write_text(f"open({str(ran)!r}, 'w').close()\n{file.read_text()}", encoding="utf-8")
    shutil.copy(folder / "run.json", folder.parent / record)
    shutil.move(folder / "plugins", folder.parent / "theirs_plugins")
    shutil.rmtree("plugins")
    Path("theirs_plugins").rename("plugins")
    registry.forget_changed()
    with pytest.raises(UserError, match=r"its scorer 'mine' was a plug-in part"):
        open_run("theirs")
    assert "alone, since this is the folder of a run or a sweep" in registry.unknown("scorer", "mine", [])
    assert not ran.exists()
    monkeypatch.setenv("ATTNX_PLUGINS", "plugins")
    registry.forget_changed()
    open_run("theirs")
    assert ran.exists()


def test_python_warns_of_changed_code_and_uses_the_current_file(capsys):
    first = log_probabilities()
    assert capsys.readouterr().err == ""
    write_plug_in("_steep", "STEEP = -3.0\n")  # the same as to negate the scorer, in what that imports
    assert log_probabilities() != first
    assert capsys.readouterr().err == f"attnx: {CODE_CHANGED.format('_steep.py')}\n"
    write_plug_in("_steep", HELPER)
    assert log_probabilities() == first
    assert capsys.readouterr().err == ""


def test_a_renamed_file_is_the_same_code(capsys):
    Path("plugins/mine.py").rename("plugins/ours.py")
    open_run("one")
    assert capsys.readouterr().err == ""


def test_a_copy_that_was_changed_is_not_offered(capsys):
    edit(NEGATED)
    Path("one/plugins/mine.py").write_text(NEGATED + "#\n", encoding="utf-8")
    open_run("one")
    message = CODE_CHANGED.format("mine.py").replace(COPY, "the run's copy of it is incomplete")
    assert capsys.readouterr().err == f"attnx: {message}\n"


def test_evaluations_of_changed_code_have_their_own_name(command):
    assert command("evaluate", "one").code == 0
    edit(NEGATED)
    answer = command("evaluate", "one")
    assert "is there already" not in answer.out
    assert CODE_CHANGED.format("mine.py") in answer.err
    folders = sorted(path.name for path in Path("one/evaluations").iterdir())
    assert [name.partition("=")[0] for name in folders] == ["test", "test-code"]
    assert results(f"one/evaluations/{folders[0]}") != results(f"one/evaluations/{folders[1]}")
    assert f"{folders[1]}: exists already" in command("evaluate", "one").out
    edit(SCORER)
    assert "evaluations/test: exists already" in command("evaluate", "one").out


def test_changed_code_does_not_resume_a_run(refuse):
    change_info("one", status="interrupted")
    edit(NEGATED)
    assert refuse("resume", "one") == f"attnx: {CODE_CHANGED.format('mine.py')}, restore that, or start a new run\n"
    with pytest.raises(UserError, match="restore that, or start a new run"):
        resume("one")


def test_removed_options_are_reported_with_the_code(command):
    config = Path("one/config.yaml")
    config.write_text(config.read_text().replace("scorer:\n  name: mine\n", "scorer:\n  name: mine\n  cap: 1.0\n"))
    edit(NEGATED)
    with pytest.raises(UserError, match=r"the scorer 'mine' has no option 'cap'.*; one: the code of mine\.py has"):
        open_run("one")


def test_a_plug_in_that_is_a_folder_is_copied_and_reopened(run, interrupt_at, succeed, refuse, monkeypatch):
    """With the files it imports and those it names to be loaded later; predict and resume use the copy."""
    files = {
        "__init__": "",
        "scorers": SCORER.replace('"mine"', '"foldered"').replace("attnx.plugins", "."),
        "_steep": 'FIGURES = ".figures"\n' + HELPER,
        "figures": "",
        "unused": UNUSED.replace('"unused"', '"other"'),
    }
    for name, text in files.items():
        write_plug_in(name, text, "plugins/pack")
    interrupt_at(3)
    with pytest.raises(Interrupted, match="two"):
        run("scorer=foldered", "trainer.max_steps=5", folder="two")
    saved = run_info("two")["plugins"]
    places = [f"pack/{name}.py" for name in ("__init__", "_steep", "figures", "scorers")]
    assert (saved["parts"]["scorer=foldered"]["origin"], list(saved["files"])) == ("plug-in pack/scorers.py", places)
    assert list(file_contents("two/plugins")) == places

    shutil.rmtree("plugins/pack")
    registry.forget_changed()
    for words in (("predict", "two", "in.txt"), ("resume", "two")):
        line = refuse(*words)
        assert "its scorer 'foldered' was a plug-in part, plug-in pack/scorers.py, which is missing" in line
        assert "set ATTNX_PLUGINS=two/plugins" in line
    monkeypatch.setenv("ATTNX_PLUGINS", "two/plugins")
    succeed("resume", "two")
    Path("in.txt").write_text("dab\n", encoding="utf-8")
    succeed("predict", "two", "in.txt")
    assert open_run("two").model.attention.scorer.__module__ == "attnx.plugins.pack.scorers"


def test_a_missing_plug_in_is_reported(refuse, monkeypatch):
    predictions_before = log_probabilities()
    Path("plugins/mine.py").unlink()
    assert refuse("predict", "one") == (
        "attnx: one: its scorer 'mine' was a plug-in part, plug-in mine.py, which is missing; plug-ins were searched "
        "in plugins/, and $ATTNX_PLUGINS is not set; to use the run's copy, set ATTNX_PLUGINS=one/plugins\n"
    )
    monkeypatch.setenv("ATTNX_PLUGINS", "one/plugins")
    assert log_probabilities() == predictions_before


def test_changed_code_is_another_setting_in_a_report():
    shutil.copytree("one", "two")
    same = [run.choices for run in load_runs(["one", "two"])]
    assert varied_keys(same) == []
    saved = run_info("two")["plugins"]
    saved["parts"]["scorer=mine"]["code"] = "0" * 8
    change_info("two", plugins=saved)
    assert varied_keys([run.choices for run in load_runs(["one", "two"])]) == ["scorer.mine code"]


def test_changed_code_does_not_resume_a_sweep():
    reject_other_code(Path("one"))
    edit(NEGATED)
    with pytest.raises(
        UserError, match=r"the code of mine\.py.*, put that back, or add fresh=true to the sweep's command"
    ):
        reject_other_code(Path("one"))


def test_a_job_runs_the_code_of_the_start_of_its_sweep(work_folder):
    (work_folder / "grid").mkdir()
    save_sweep(open_record(work_folder / "grid", "attnx -m scorer=mine,dot", [], None))
    reject_edited_plugins(work_folder / "grid", {"scorer": {"name": "mine"}})
    edit("STEEP = 2.0\n", "_steep")
    reject_edited_plugins(work_folder / "grid", {"scorer": {"name": "dot"}})
    with pytest.raises(UserError, match=r"the plug-in _steep\.py was edited since this sweep began"):
        reject_edited_plugins(work_folder / "grid", {"scorer": {"name": "mine"}})


def test_training_uses_the_code_of_its_start(monkeypatch, small, capsys):
    """An edit while it trains changes neither its copy nor the run that is returned."""
    train = fitting.train

    def edit_and_run(*args: Any, **kwargs: Any) -> Any:
        write_plug_in("mine", "raise RuntimeError")
        return train(*args, **kwargs)

    monkeypatch.setattr(fitting, "train", edit_and_run)
    assert len(fit_run(["scorer=mine", *small], "two").predict(["dab"])) == 1
    assert Path("two/plugins/mine.py").read_text(encoding="utf-8") == SCORER
    assert capsys.readouterr().err == ""
