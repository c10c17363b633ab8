"""Code of a plug-in may raise anything, anywhere, in every command: one line says which part, where and what."""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from attnx import registry
from attnx.errors import UserError
from attnx.inference.load import open_run
from attnx.registry.plugin_errors import find_plug_in
from tests.refusal import refused
from tests.runs.conftest import run_info, write_plug_in

PLUG_IN = """\
import sys

import torch
from torch import Tensor, nn

from attnx.registry import register


class Own(BaseException):
    pass


class Mute(Exception):
    def __str__(self) -> str:
        sys.exit(0)


def recurse() -> None:
    recurse()


@register("scorer", "mine")
class Mine(nn.Module):
    requires_equal_dims = False

    def __init__(self) -> None:
        super().__init__()
        pass  # constructor

    def project_keys(self, memory: Tensor) -> Tensor:
        pass  # project_keys
        return memory

    def project_queries(self, queries: Tensor) -> Tensor:
        return queries

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        pass  # score
        scores = queries.mean(-1, keepdim=True) + keys.mean(-1)[..., None, :] * queries.mean(-1, keepdim=True)
        if scores.requires_grad:
            scores.register_hook(self.look)
        return scores

    def look(self, grad: Tensor) -> None:
        pass  # backward hook


pass  # import
"""
RAISED = {
    "raise RuntimeError('two\\nlines')": "RuntimeError: two lines",
    "sys.exit(0)": "SystemExit: 0",
    "sys.exit()": "SystemExit",
    "raise Own": "Own",
    "recurse()": "RecursionError: maximum recursion depth exceeded",
    "raise Mute": "Mute: (its __str__ raises SystemExit)",
}
RUNTIME_ERROR, EXIT_0, EXIT, CUSTOM, RECURSION, MUTE = RAISED
WORDS_LINE = "aeb\nkab\n"
COMMANDS = {
    "run": ("scorer=mine", "folder=new"),
    "predict": ("predict", "one", "words.txt"),
    "evaluate": ("evaluate", "one"),
    "page": ("page", "one"),
    "check": ("check", "mine"),
    "sweep": ("-m", "scorer=mine,dot", "name=grid"),
}


class Case(NamedTuple):
    """A statement at a place of the plug-in, and the command that comes upon it.

    Attributes:
        place: where the statement stands.
        statement: what raises.
        command: which.
        code: how it ends.
        only_in_training: whether the statement is for more rows alone than the laws try: then a run has begun.
    """

    place: str
    statement: str
    command: str
    code: int
    only_in_training: bool = False


CASES = [
    Case("import", EXIT_0, "run", 2),
    Case("import", CUSTOM, "predict", 2),
    Case("import", RECURSION, "evaluate", 2),
    Case("import", MUTE, "sweep", 2),
    Case("import", EXIT, "page", 2),
    Case("constructor", CUSTOM, "run", 2),
    Case("constructor", RECURSION, "check", 2),
    Case("constructor", RUNTIME_ERROR, "page", 2),
    Case("project_keys", MUTE, "predict", 1),
    Case("project_keys", EXIT_0, "evaluate", 1),
    Case("score", EXIT, "page", 1),
    Case("score", EXIT_0, "run", 1, only_in_training=True),
    Case("score", CUSTOM, "sweep", 1, only_in_training=True),
    Case("backward hook", EXIT, "run", 1, only_in_training=True),
    Case("backward hook", RECURSION, "run", 1, only_in_training=True),
    Case("backward hook", CUSTOM, "check", 2),
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, write_words, train_in, sized):
    """A folder with words, a sound plug-in and a run that was trained with it, ``one``."""
    home = tmp_path_factory.mktemp("raising")
    write_words(home)
    (home / "words.txt").write_text(WORDS_LINE, encoding="utf-8")
    write_plug_in("mine", PLUG_IN, str(home / "plugins"))
    train_in(home, *sized("scorer=mine"), folder="one")
    return home


@pytest.fixture
def plug(trained, work_folder):
    """Put the plug-in into the test's folder with a statement at a place; return ``file:line`` of the statement."""
    shutil.copytree(trained, work_folder, dirs_exist_ok=True)
    path = work_folder / "plugins" / "mine.py"

    def put(place: str, statement: str, only_in_training: bool = False) -> str:
        condition = {"score": "len(keys) >= 8", "backward hook": "len(grad) >= 8"}[place] if only_in_training else "1"
        line = next(number for number, text in enumerate(PLUG_IN.splitlines(), 1) if text.endswith(f"# {place}"))
        text = PLUG_IN.replace(f"pass  # {place}", f"if {condition}: {statement}")
        path.write_text(text, encoding="utf-8")
        recursion = 1 + PLUG_IN.splitlines().index("    recurse()")
        return f"{path}:{recursion if statement == RECURSION else line}"

    return put


def words_of(case: Case, small: list[str]) -> list[str]:
    return [*COMMANDS[case.command], *(small if case.command in ("run", "sweep") else ())]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.place}-{RAISED[case.statement][:9]}-{case.command}")
def test_one_line_says_what_a_plug_in_raised(case, plug, command, small, shared_server):
    place = plug(case.place, case.statement, case.only_in_training)
    answer = command(*words_of(case, small))
    assert answer.code == case.code
    assert "Traceback" not in answer.err
    shown = f"{answer.out}\n{answer.err}" if case.command == "check" else answer.err
    lines = [line for line in shown.splitlines() if "the scorer 'mine', " in line]
    assert len(lines) == 1
    assert f"the scorer 'mine', {place}" in lines[0]
    assert RAISED[case.statement] in lines[0]
    assert answer.out == "" or case.command != "page"  # no path: none is written
    if case.code == 2 and case.command in ("run", "sweep"):
        assert not Path("new").exists()
        assert not Path("multirun").exists()


def test_the_traceback_of_an_exit_in_a_run_is_kept(plug, command, small):
    """The run has failed; it was not interrupted."""
    place = plug("backward hook", EXIT_0, only_in_training=True)
    answer = command("scorer=mine", "folder=new", *small)
    assert answer.code == 1
    assert answer.err.count("\n") == 1
    assert answer.err.startswith(f"attnx: the scorer 'mine', {place} (look): SystemExit: 0; ")
    assert answer.err.endswith("; the traceback is in new/error.txt\n")
    file, line = place.rsplit(":", 1)
    assert f'File "{file}", line {line}, in look' in Path("new/error.txt").read_text(encoding="utf-8")
    info = run_info("new")
    assert info["status"] == "failed"
    assert "SystemExit: 0" in info["error"]


def test_an_open_run_raises_what_a_method_raises(plug):
    """From Python, so that a debugger stops there; a part that cannot be built is one line, with the cause."""
    plug("score", RUNTIME_ERROR)
    run = open_run("one")
    with pytest.raises(RuntimeError, match="two\nlines"):
        run.predict(["aeb"])
    place = plug("constructor", EXIT_0)
    with pytest.raises(UserError) as refused:
        open_run("one")
    assert str(refused.value).startswith(f"the scorer 'mine', {place} (__init__): SystemExit: 0; all its laws")
    assert isinstance(refused.value.__cause__, SystemExit)


def test_a_plug_in_that_fails_after_it_registered_fails_again(plug):
    place = plug("import", "raise SystemExit")
    for _ in range(2):
        with pytest.raises(UserError, match="SystemExit") as refused:
            registry.find("scorer", "mine")
        assert f"'mine', {place}: " in str(refused.value)


def test_a_file_without_parts_is_named():
    """What it is imported for is named if that was entered."""
    file = write_plug_in("shared", "def seven():\n    raise SystemExit(7)\n")
    from attnx.plugins.shared import seven  # type: ignore[import-not-found]

    with pytest.raises(SystemExit) as ended:
        seven()
    assert find_plug_in(ended.value) == f"the plug-in {file}:2 (seven): SystemExit: 7"
    write_plug_in("mine", PLUG_IN.replace("pass  # constructor", "from attnx.plugins.shared import seven; seven()"))
    with refused(f"the scorer 'mine', {file}:2 (seven): SystemExit: 7; ..."):
        registry.build("scorer", "mine")


def test_errors_of_the_core_are_no_plug_ins():
    with pytest.raises(ZeroDivisionError) as raised:
        1 / 0  # noqa: B018
    assert find_plug_in(raised.value) == ""


@pytest.mark.parametrize("kind", ["optimizer", "lr_schedule"])
def test_a_constructor_that_returns_nothing_is_named(kind, words, refuse, small):
    """A function that builds a part and forgets to return it."""
    parameters = {"optimizer": "parameters", "lr_schedule": "optimizer, progress"}[kind]
    text = f"from attnx.registry import register\n\n\n@register({kind!r}, 'mine')\ndef mine({parameters}):\n    pass\n"
    path = write_plug_in("mine", text)
    message = f"attnx: {path}:5: the {kind} 'mine' returned nothing; return what it builds\n"
    assert refuse(f"{kind}=mine", "folder=new", *small) == message
