"""A run whose kernels cannot be built succeeds, and its start table reports the missing kernels."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from attnx.accel import c_build
from attnx.accel.attention import kernels
from attnx.accel.attention.additive import cpu
from attnx.accel.lstm import bindings
from attnx.reports.run.tables import start_table
from attnx.runs.run import read_run

KERNEL = '''\
"""The kernel ``{name}``."""

{imports}
from attnx.registry import register


@register("kernel", "{name}")
class Mine:
    """Cannot be built."""

    scorers = ("additive",)
    scopes = ()
    normalizers = ()
    priority = 1

    def supports(self, attention, asked) -> bool:
        """Any read."""
        return True

    def build(self, device) -> None:
        """Fail."""
        raise NameError("Cannot access global variable Any\\nfrom within a function")

    def __call__(self, attention, asked):
        """Never."""
        raise AssertionError
'''


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
def test_a_run_trains_without_compilers(run, tmp_path, caplog):
    """A plug-in kernel fails to build and another fails to import: each is reported once, and the run finishes."""
    (tmp_path / "plugins").mkdir()
    for name, imports in (("unbuilt", ""), ("unimported", "import no_such_library")):
        text = KERNEL.format(name=name, imports=imports)
        (tmp_path / "plugins" / f"{name}.py").write_text(text, encoding="utf-8")
    reopened = run(folder="one")
    assert reopened.predict(["bad"])
    info = json.loads(Path("one", "run.json").read_text(encoding="utf-8"))
    assert info["status"] == "finished"
    assert info["kernels"].split("; ") == [
        "checkpointed",
        "other calls compute the definition",
        "unbuilt cannot be built and is left out: Cannot access global variable Any",
    ]
    shown = Console(file=io.StringIO(), width=400)
    shown.print(start_table(read_run("one")))
    (line,) = [line for line in shown.file.getvalue().splitlines() if line.startswith("compiler ")]
    assert line.split(maxsplit=1)[1].startswith("no C compiler (cc, gcc, clang) is on the PATH: ")
    (record,) = caplog.records
    message = record.getMessage()
    assert message.startswith("the kernel unimported is left out, the next in line computes: the kernel 'unimported', ")
    assert "unimported.py:3: ModuleNotFoundError: No module named 'no_such_library'" in message
