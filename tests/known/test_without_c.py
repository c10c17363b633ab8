"""The start table reports missing C code: the reason, the cost and the remedy."""

import functools

import pytest

from attnx.accel import c_build
from attnx.accel.c_build import without_c

ADDITIVE = {"attention": {"name": "standard"}, "scorer": {"name": "additive"}, "decoder": {"cell": "lstm"}}
COST = "what would be in C is computed by torch, and training takes about a quarter longer"
CURE = "install gcc or clang (Debian, Ubuntu: apt install gcc libc6-dev; macOS: xcode-select --install)"


@pytest.fixture(autouse=True)
def _anew(tmp_path, monkeypatch):
    """Nothing was compiled yet, and what these tests find is forgotten."""
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    monkeypatch.setenv("ATTNX_CACHE", str(cache))
    c_build.compile_library.cache_clear()
    yield
    c_build.compile_library.cache_clear()


def test_a_missing_compiler_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert without_c(ADDITIVE) == f"no C compiler (cc, gcc, clang) is on the PATH: {COST}; {CURE}"


@pytest.mark.parametrize("printed", ["lstm.c:7:10: fatal error: stdlib.h: No such file or directory", ""])
def test_a_failing_compiler_is_reported(printed, tmp_path, monkeypatch):
    """The message has the compiler's output, or says that it failed."""
    script = tmp_path / "gcc"
    failing = f'#!/bin/sh\n[ "$1" = --version ] && exit 0\necho "In a file:\n{printed}\n" >&2\nexit 1\n'
    script.write_text(failing, encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(c_build, "COMPILERS", ("gcc",))
    result = without_c(ADDITIVE)
    assert result.startswith(f"{script} does not compile lstm.c: {printed or 'In a file:'}")
    assert result.endswith(f": {COST}; {CURE}")


def test_another_processor_is_reported(monkeypatch):
    """What C would be worth there was not measured."""
    monkeypatch.setattr(c_build.platform, "machine", lambda: "arm64")
    assert without_c(ADDITIVE) == (
        "none is used (C is compiled on x86-64 with Linux or macOS alone): what would be in C is computed by torch"
    )


@pytest.mark.parametrize(
    "config",
    [{**ADDITIVE, "accel": "off"}, {"attention": {"name": "none"}, "decoder": {"cell": "gru"}}],
    ids=["accel off", "no C code"],
)
def test_a_run_that_uses_no_c_code_reports_nothing(config, tmp_path, monkeypatch):
    """No advice to install a compiler, which would change nothing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert without_c(config) is None


def test_compiled_code_is_not_reported(monkeypatch):
    monkeypatch.setattr(c_build, "compile_library", functools.cache(lambda source: c_build.Compilation(None)))
    assert without_c(ADDITIVE) is None
