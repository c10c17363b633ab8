"""A run whose kernels cannot be built succeeds, and its start table reports the missing kernels."""

import json
from pathlib import Path
from typing import Any

import pytest

from attnx.accel import c_build, modules
from attnx.accel.attention import kernels
from attnx.accel.attention.additive import cpu
from attnx.accel.attention.kernels import Kernel
from attnx.accel.lstm import bindings
from attnx.attention.scorers.additive import Additive
from attnx.reports.run.tables import start_table
from attnx.runs.run import read_run
from tests.terminal_text import terminal_text


class Unbuilt(Kernel):
    """Cannot be built."""

    name, scorers = "unbuilt", (Additive,)

    def supports(self, attention: Any, inputs: Any) -> bool:
        return True

    def build(self, device: Any) -> None:
        raise NameError("Cannot access global variable Any\nfrom within a function")

    def __call__(self, attention: Any, inputs: Any) -> Any:
        raise AssertionError


@pytest.fixture
def without_compiler(tmp_path, monkeypatch):
    """No C compiler, as if nothing had been compiled in this process."""
    cached_functions = (c_build.compile_library, cpu._library, bindings.library)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(kernels, "_failures", {})
    kernels.warn_once.cache_clear()
    for function in cached_functions:
        function.cache_clear()
    yield
    for function in cached_functions:
        function.cache_clear()


@pytest.mark.usefixtures("without_compiler")
def test_a_run_trains_without_compilers(run, monkeypatch):
    """A kernel that cannot be built is reported, and the run finishes."""
    monkeypatch.setattr(modules, "KERNELS", (Unbuilt(), *modules.KERNELS))
    reopened = run(folder="one")
    assert reopened.predict(["bad"])
    info = json.loads(Path("one", "run.json").read_text(encoding="utf-8"))
    assert info["status"] == "finished"
    assert info["kernels"].split("; ") == [
        "checkpointed",
        "other calls compute the definition",
        "unbuilt cannot be built and is left out: Cannot access global variable Any",
    ]
    text = terminal_text(start_table(read_run("one")), 400)
    (line,) = [line for line in text.splitlines() if line.startswith("compiler ")]
    assert line.split(maxsplit=1)[1].startswith("no C compiler (cc, gcc, clang) is on the PATH: ")
