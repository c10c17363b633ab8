"""A part registered in a script or notebook trains like one of a file, and its source is saved with the run."""

from __future__ import annotations

import linecache
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from attnx import registry
from attnx.attention import build
from attnx.config.compose import compose
from attnx.errors import UserError
from attnx.inference.load import open_run
from attnx.registry import source_scan
from attnx.registry.python_parts import part_source
from attnx.registry.source_scan import read_parts
from attnx.training.fit import fit

IMPORTS = """
import attnx
import torch.nn.functional as F
from attnx.registry import PositiveFloat
from torch import Tensor, nn

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
class Mine(nn.Module):
    """An inner product, bounded and made steeper.

    Formula: ``score(q, m) = steep softsign(q . m)``
    Source: invented for a test
    """

    requires_equal_dims = True

    def __init__(self, steep: PositiveFloat = 2.0) -> None:
        super().__init__()
        self.steep = steep

    def project_keys(self, memory: Tensor) -> Tensor:
        return memory

    def project_queries(self, queries: Tensor) -> Tensor:
        return queries

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        table = [self.steep * steeper(queries @ keys.mT) for _ in range(1)]
        return table[0]
'''
COPY = Path("one/plugins/scorer_mine.py")
Cell = Callable[..., None]


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cell]:
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


def test_a_registered_part_trains_and_its_copy_is_equal(
    cell: Cell, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cell(IMPORTS, HELPERS, SCORER)
    trained = run("+scorer=mine", "scorer.steep=5", folder="one")
    assert trained.config["scorer"] == {"name": "mine", "steep": 5}
    log_probabilities = [prediction.log_probability for prediction in trained.predict(["dab", "kebab"])]
    (registered, copied) = registry.describe("scorer", "mine"), read_parts(COPY, "copy", "plug-in")[0]
    assert [(option.name, option.annotation, option.default) for option in registered.options] == [
        (option.name, option.annotation, option.default) for option in copied.options
    ]
    assert (registered.properties, registered.injected_params, registered.doc) == (
        copied.properties,
        copied.injected_params,
        copied.doc,
    )
    open_run("one")
    assert capsys.readouterr().err == ""
    forget()
    with pytest.raises(UserError) as missing:
        open_run("one")
    assert str(missing.value) == (
        "one: its scorer 'mine' was a plug-in part, registered in Python, which is not registered; register it "
        "first; to use the run's copy, set ATTNX_PLUGINS=one/plugins"
    )
    monkeypatch.setenv("ATTNX_PLUGINS", "one/plugins")
    assert [prediction.log_probability for prediction in open_run("one").predict(["dab", "kebab"])] == log_probabilities
    assert capsys.readouterr().err == ""


def test_a_redefined_part_is_changed_code(
    cell: Cell, run: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    cell(IMPORTS, HELPERS, SCORER)
    run("+scorer=mine", folder="one")
    cell("STEEP = -3.0")
    open_run("one")
    assert "one: the code of scorer_mine.py has changed since this run was trained" in capsys.readouterr().err


def test_the_copy_contains_only_what_the_part_uses(cell: Cell) -> None:
    """Imports, constants and functions of other cells; not what only shares the name of a local variable."""
    cell(IMPORTS, HELPERS, SCORER)
    text = part_source("scorer", "mine", registry.find("scorer", "mine"))
    assert text.splitlines()[4:10] == [
        "from attnx.registry import register",
        "import torch.nn as nn",
        "from attnx.registry import PositiveFloat",
        "from torch import Tensor",
        "import torch.nn.functional as F",
        "",
    ]
    assert "STEEP = 3.0\n" in text
    assert text.index("def bounded") < text.index("def steeper") < text.index('@register("scorer", "mine")\nclass Mine')
    assert "object" not in text


def test_a_script_is_a_source(work_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its imports are kept as it has them, and what it does besides is not."""
    text = IMPORTS + HELPERS + SCORER + "\nraise SystemExit('it trains here')\n"
    (work_folder / "train.py").write_text(text, encoding="utf-8")
    script = types.ModuleType("a_notebook")
    monkeypatch.setitem(sys.modules, "a_notebook", script)
    with pytest.raises(SystemExit):
        exec(compile(text, str(work_folder / "train.py"), "exec", dont_inherit=True), vars(script))
    source = part_source("scorer", "mine", registry.find("scorer", "mine"))
    assert "from torch import nn\n" in source
    assert "it trains here" not in source
    assert registry.describe("scorer", "mine").file == work_folder / "train.py"


def test_a_part_without_source_is_built_but_not_trained(cell: Cell, words: Path, small: list[str]) -> None:
    cell(IMPORTS, HELPERS, SCORER, source=False)
    assert build(scorer="mine", query_size=3, memory_size=3).scorer.steep == 2.0
    with pytest.raises(UserError, match=r"^the scorer 'mine', which was registered in Python, has no source to keep"):
        fit(compose(["scorer=mine", *small, "folder=one"]))
    assert not Path("one").exists()


def test_an_uncopyable_object_is_reported(cell: Cell) -> None:
    cell(IMPORTS + "other = object()\n", HELPERS, SCORER.replace("[self.steep * ", "[hash(other) * "))
    with pytest.raises(UserError, match="uses other, of type object, which cannot be kept with the run"):
        part_source("scorer", "mine", registry.find("scorer", "mine"))


def test_a_part_defined_in_a_function_is_reported(cell: Cell) -> None:
    cell(IMPORTS, "def make():\n" + textwrap.indent(SCORER, "    ") + "\n\nmake()\n")
    with pytest.raises(UserError, match="is defined within a function; define it outside"):
        part_source("scorer", "mine", registry.find("scorer", "mine"))


def test_a_sweep_refuses_a_part_of_a_notebook(
    cell: Cell, command: Callable[..., Any], words: Path, small: list[str]
) -> None:
    cell(IMPORTS, HELPERS, SCORER)
    answer = command("-m", "scorer=mine,dot", *small, "name=grid")
    assert answer.code == 2
    assert answer.err == (
        "attnx: the scorer 'mine' was registered in Python, where the processes of a sweep cannot see it; write it "
        "into a file in plugins/\n"
    )
    assert not Path("multirun").exists()
