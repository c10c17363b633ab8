"""A part registered in a script or notebook trains like one of a file, and its source is saved with the run."""

import linecache
import sys
import textwrap
import types
from pathlib import Path

import pytest

from attnx import registry
from attnx.inference.load import open_run
from attnx.registry import source_scan
from attnx.registry.python_parts import source_text
from tests.refusal import refused

IMPORTS = """
import attnx
import torch.nn.functional as F
from attnx.attention.scorers.dot import Dot
from attnx.registry import PositiveFloat
from torch import Tensor

STEEP = 3.0
table = object()
"""
HELPERS = """
def steeper(scores: Tensor) -> Tensor:
    return STEEP * bounded(scores)


def bounded(scores):
    return F.softsign(scores)
"""
SCORER = '''
@attnx.register("scorer", "mine")
class Mine(Dot):
    """An inner product, bounded and made steeper."""

    def __init__(self, steep: PositiveFloat = 2.0) -> None:
        super().__init__()
        self.steep = steep

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        table = [self.steep * steeper(super().score(queries, keys))]
        return table[0]
'''
CLASS = SCORER.partition(")\n")[2]
COPY = Path("one/plugins/scorer_mine.txt")


@pytest.fixture
def cell(monkeypatch):
    """Run a cell as a notebook does: Python finds its lines under a name that is no file's."""
    notebook, names = types.ModuleType("a_notebook"), []
    monkeypatch.setitem(sys.modules, "a_notebook", notebook)

    def run(*cells: str, source: bool = True) -> None:
        for text in map(textwrap.dedent, cells):
            name = f"<cell {len(names)}>"
            names.append(name)
            if source:
                linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
            exec(compile(text, name, "exec", dont_inherit=True), vars(notebook))

    yield run
    for name in names:
        linecache.cache.pop(name, None)


def forget() -> None:
    """What a new process knows of parts that were registered in Python: nothing."""
    source_scan.by_hand.clear()
    del registry._registered["scorer", "mine"]


def test_a_registered_part_trains_and_its_source_is_kept(cell, run, capsys):
    """The run is opened where the part is registered, and elsewhere one line says what to do."""
    cell(IMPORTS, HELPERS, SCORER)
    trained = run("+scorer=mine", "scorer.steep=5", folder="one")
    assert trained.config["scorer"] == {"name": "mine", "steep": 5}
    assert COPY.read_text(encoding="utf-8") == CLASS
    assert [path.name for path in COPY.parent.iterdir()] == [COPY.name]
    log_probabilities = [prediction.log_probability for prediction in trained.predict(["dab", "kebab"])]
    opened = open_run("one").predict(["dab", "kebab"])
    assert [prediction.log_probability for prediction in opened] == log_probabilities
    assert capsys.readouterr().err == ""
    forget()
    lost = "one: its scorer 'mine' was registered in Python; register it here, too"
    with refused(f"{lost}; its source is in one/plugins"):
        open_run("one")


def test_a_redefined_part_is_changed_code(cell, run, capsys):
    cell(IMPORTS, HELPERS, SCORER)
    run("+scorer=mine", folder="one")
    cell(SCORER.replace("self.steep * steeper", "-self.steep * steeper"))
    open_run("one")
    assert "one: the code of scorer_mine.txt has changed since this run was trained" in capsys.readouterr().err


def test_the_source_of_a_script_is_that_of_the_part(work_folder, monkeypatch):
    """What the script does besides is not kept, and a change of it is no change of the part."""
    text = IMPORTS + HELPERS + SCORER + "\nraise SystemExit('it trains here')\n"
    (work_folder / "train.py").write_text(text, encoding="utf-8")
    script = types.ModuleType("a_notebook")
    monkeypatch.setitem(sys.modules, "a_notebook", script)
    with pytest.raises(SystemExit):
        exec(compile(text, str(work_folder / "train.py"), "exec", dont_inherit=True), vars(script))
    assert source_text(registry.find("scorer", "mine")) == CLASS
    assert registry.describe("scorer", "mine").file == work_folder / "train.py"


def test_a_part_without_source_trains(cell, run):
    """As after ``exec``; nothing of it is kept."""
    cell(IMPORTS, HELPERS, SCORER, source=False)
    run("+scorer=mine", folder="one")
    assert not Path("one/plugins").exists()
    forget()
    with refused("one: its scorer 'mine' was registered in Python; register it here, too"):
        open_run("one")


def test_a_part_defined_in_a_function_has_its_source(cell):
    cell(IMPORTS, "def make():\n" + textwrap.indent(SCORER, "    ") + "\n\nmake()\n")
    assert source_text(registry.find("scorer", "mine")) == CLASS


def test_a_sweep_refuses_a_part_of_a_notebook(cell, refuse, words, small):
    cell(IMPORTS, HELPERS, SCORER)
    assert refuse("-m", "scorer=mine,dot", *small, "name=grid") == (
        "attnx: the scorer 'mine' was registered in Python, where the processes of a sweep cannot see it; write it "
        "into a file in plugins/\n"
    )
