"""The C files: compiled once on a machine, cached and loaded; without a compiler the reason is reported."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attnx.attention.options import parts_in_force
from attnx.errors import in_a_line
from attnx.files.process import read_cpuinfo

COMPILERS = ("cc", "gcc", "clang")
# No flag changes the arithmetic: inf, NaN and the order of sums are as written.
FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-w")
# OpenMP first. Its runtime is not linked: torch has loaded one, which the functions are resolved in.
VARIANTS = ((*FLAGS, "-fopenmp"), FLAGS)
SHARED = Path(__file__).with_name("vectors.h")  # the header that all C files include
LSTM, ADDITIVE = (SHARED.parent / place for place in ("lstm/lstm.c", "attention/additive/additive.c"))
TIMEOUT_S = 120  # seconds
INSTEAD = "what would be in C is computed by torch"
COST = "training takes about a quarter longer"
CURE = "install gcc or clang (Debian, Ubuntu: apt install gcc libc6-dev; macOS: xcode-select --install)"


class Compilation(NamedTuple):
    """The loaded library of a C file, or None and why there is none, in one line."""

    library: ctypes.CDLL | None
    failure: str = ""


def unsupported_platform() -> str | None:
    """Why no C file is compiled on this platform; None if it is supported."""
    if os.name == "posix" and platform.machine() in ("x86_64", "amd64"):
        return None
    return "C is compiled on x86-64 with Linux or macOS alone"


@functools.cache
def compile_library(source: Path) -> Compilation:
    """Load the library of a C file, from the cache or compiled, once in a process; its loops may use OpenMP.

    The cache is ``$ATTNX_CACHE`` or ``~/.cache/attnx/kernels``; its key is source, compiler, flags and processor. A
    cache folder that other users could write to is not used: the file is then compiled again in every process.
    """
    if failure := unsupported_platform():
        return Compilation(None, failure)
    failure = f"no C compiler ({', '.join(COMPILERS)}) is on the PATH"
    for compiler, flags in itertools.product(filter(None, map(shutil.which, COMPILERS)), VARIANTS):
        try:
            return Compilation(_load(compiler, flags, source))
        except (OSError, subprocess.SubprocessError) as error:
            failure = f"{compiler} does not compile {source.name}: {in_a_line(error)}"
    return Compilation(None, failure)


def lazy_functions(source: Path, takes: Mapping[str, Sequence[Any]], returns: Mapping[str, Any]) -> Callable[[], Any]:
    """A function that loads the library of a C file at its first call; it returns None where that fails.

    ``takes`` and ``returns`` are the types of the arguments and the result of each function of the file.
    """

    @functools.cache
    def load() -> ctypes.CDLL | None:
        library = compile_library(source).library
        if library is not None:
            for name, types in takes.items():
                getattr(library, name).argtypes = types
            for name, type_ in returns.items():
                getattr(library, name).restype = type_
        return library

    return load


def without_c(config: Mapping[str, Any]) -> str | None:
    """Why the C files that a configuration may use cannot be, the cost and the remedy, in one line; None if they can.

    What is not in the cache yet is compiled.
    """
    sources = []
    if any(isinstance(group, Mapping) and group.get("cell") == "lstm" for group in config.values()):
        sources.append(LSTM)
    attends = config.get("attention", {}).get("name", "none") != "none"
    if attends and "additive" in [part["name"] for part in parts_in_force(config, "scorer").parts]:
        sources.append(ADDITIVE)
    if not sources or config.get("accel", "auto") == "off":
        return None
    if reason := unsupported_platform():
        return f"none is used ({reason}): {INSTEAD}"
    failure = next(filter(None, (compile_library(source).failure for source in sources)), None)
    return None if failure is None else f"{failure}: {INSTEAD}, and {COST}; {CURE}"


def _load(compiler: str, flags: tuple[str, ...], source: Path) -> ctypes.CDLL:
    """The library, from the cache or a temporary folder; an OSError or SubprocessError if it cannot be had."""
    try:
        library = _cache() / f"{source.stem}-{_fingerprint(compiler, flags, source)}.so"
        if not library.exists():
            with tempfile.TemporaryDirectory(dir=library.parent) as private:
                os.replace(_compile(compiler, flags, source, Path(private)), library)
        return ctypes.CDLL(str(library))
    except OSError:  # no cache folder, or a broken file in it
        with tempfile.TemporaryDirectory() as private:  # once loaded the file may go
            return ctypes.CDLL(str(_compile(compiler, flags, source, Path(private))))


def _compile(compiler: str, flags: tuple[str, ...], source: Path, folder: Path) -> Path:
    """Compile into a folder and return the library."""
    objects, library = folder / "compiled.o", folder / "library.so"
    compiling = [*flags, f"-I{SHARED.parent}", "-c", str(source), "-o", str(objects)]
    for command in (compiling, ["-shared", str(objects), "-o", str(library)]):
        subprocess.run([compiler, *command], check=True, capture_output=True, timeout=TIMEOUT_S)
    return library


def _fingerprint(compiler: str, flags: tuple[str, ...], source: Path) -> str:
    """A hash of everything that the library depends on."""
    output = subprocess.run([compiler, "--version"], check=True, capture_output=True, timeout=TIMEOUT_S).stdout
    fields = read_cpuinfo()
    processor = (platform.platform(), platform.processor(), fields.get("model name", ""), fields.get("flags", ""))
    words = (compiler, " ".join(flags), "\n".join(processor))
    parts = (source.read_bytes(), SHARED.read_bytes(), output, *(word.encode() for word in words))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _cache() -> Path:
    """The cache folder, created if it is missing; an OSError if it cannot be, or if other users could write to it."""
    override = os.environ.get("ATTNX_CACHE")
    try:
        folder = Path(override) if override else Path.home() / ".cache" / "attnx" / "kernels"
    except RuntimeError as error:
        raise FileNotFoundError("this user has no home") from error
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = folder.resolve()
    for ancestor in (folder, *folder.parents):
        status = ancestor.stat()
        shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        # A sticky folder such as /tmp protects its entries; the cache folder itself must not be shared.
        if status.st_uid not in (0, os.getuid()) or (
            shared and not (ancestor != folder and status.st_mode & stat.S_ISVTX)
        ):
            raise PermissionError(f"other users can write into {ancestor}")
    return folder
