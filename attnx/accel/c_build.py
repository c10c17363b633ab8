"""Compile a C file once on this machine, and load it; where that cannot be done, say so and go on without."""

from __future__ import annotations

import contextlib
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
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from attnx.errors import in_a_line

COMPILERS = ("cc", "gcc", "clang")
# No option here changes what arithmetic means: inf, NaN and the order of sums are as written.
FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-w")
# With OpenMP first. Its runtime is not linked: torch has loaded one, and its functions are found there or not at all.
VARIANTS = ((*FLAGS, "-fopenmp"), FLAGS)
SHARED = Path(__file__).with_name("vectors.h")  # what the C files include
TIMEOUT_S = 120  # seconds
# Who asks for a library that is just being compiled waits for it.
COMPILING = threading.Lock()


class Attempt(NamedTuple):
    """What came of compiling and loading a file.

    Attributes:
        library: what was loaded, if anything.
        reason: why nothing was, in a line.
    """

    library: ctypes.CDLL | None
    reason: str = ""


def load_library(source: Path) -> ctypes.CDLL | None:
    """Compile a C file, or find it compiled, and load it.

    The library is kept in ``$ATTNX_CACHE`` or ``~/.cache/attnx/kernels`` for as long as source, compiler, flags and
    processor stay the same. A folder into which someone else could write is not used; then it is compiled anew.

    Args:
        source: the file. Its loops may be parallel by OpenMP, on the threads that torch has.

    Returns:
        the library; None if there is no compiler, if it fails, or if C is not compiled here (:func:`refusal`).
    """
    return attempt(source).library


def failure(source: Path) -> str:
    """Why :func:`load` finds no library, in a line; nothing if it finds one."""
    return attempt(source).reason


def refusal() -> str | None:
    """Why no C file is compiled here, whatever compilers there are; None if they are compiled."""
    if os.name == "posix" and platform.machine() in ("x86_64", "amd64"):
        return None
    return "C is compiled on x86-64 with Linux or macOS alone"


@functools.cache
def attempt(source: Path) -> Attempt:
    """What :func:`load` finds, tried once in a process."""
    reason = refusal() or f"no C compiler ({', '.join(COMPILERS)}) is on the PATH"
    for compiler, flags in _compiler_candidates():
        try:
            return Attempt(_loaded(compiler, flags, source))
        except (OSError, subprocess.SubprocessError) as error:
            reason = f"{compiler} does not compile {source.name}: {in_a_line(error)}"
    return Attempt(None, reason)


def lazy_functions(
    source: Path, takes: Mapping[str, Sequence[Any]], returns: Mapping[str, Any] = MappingProxyType({})
) -> Callable[[], Any]:
    """What finds the functions of a C file, compiled when they are first asked for; None where :func:`load` finds none.

    Args:
        source: the file.
        takes: of each function the types of its arguments.
        returns: of those that return something its type.
    """

    @functools.cache
    def loaded() -> ctypes.CDLL | None:
        library = load_library(source)
        if library is not None:
            for name, types in takes.items():
                getattr(library, name).argtypes = types
            for name, type_ in returns.items():
                getattr(library, name).restype = type_
        return library

    return loaded


def compile_ahead(source: Path) -> None:
    """Compile a C file into the cache, so that :func:`load` finds it there; if that cannot be done, do nothing."""
    for compiler, flags in _compiler_candidates():
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            _cached_library(compiler, flags, source)
            return


def _compiler_candidates() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Compilers and flags to try, the best first."""
    if refusal() is None:
        yield from itertools.product(filter(None, map(shutil.which, COMPILERS)), VARIANTS)


def _loaded(compiler: str, flags: tuple[str, ...], source: Path) -> ctypes.CDLL:
    """The library, from the cache if it can be there.

    Raises:
        OSError: it cannot be written or loaded.
        subprocess.SubprocessError: the compiler fails.
    """
    try:
        library = _cached_library(compiler, flags, source)
    except OSError:  # no such folder
        with tempfile.TemporaryDirectory() as private:  # once loaded the file may go
            return ctypes.CDLL(str(_compiled(compiler, flags, source, Path(private))))
    return ctypes.CDLL(str(library))


def _cached_library(compiler: str, flags: tuple[str, ...], source: Path) -> Path:
    """The library's file in the cache, compiled if it is not there."""
    with COMPILING:
        library = _cache() / f"{source.stem}-{_fingerprint(compiler, flags, source)}.so"
        if not library.exists():
            with tempfile.TemporaryDirectory(dir=library.parent) as private_folder:
                os.replace(_compiled(compiler, flags, source, Path(private_folder)), library)
    return library


def _compiled(compiler: str, flags: tuple[str, ...], source: Path, folder: Path) -> Path:
    """Compile into a folder and return the library."""
    objects, library = folder / "compiled.o", folder / "library.so"
    compiling = [*flags, f"-I{SHARED.parent}", "-c", str(source), "-o", str(objects)]
    for command in (compiling, ["-shared", str(objects), "-o", str(library)]):
        subprocess.run([compiler, *command], check=True, capture_output=True, timeout=TIMEOUT_S)
    return library


def _fingerprint(compiler: str, flags: tuple[str, ...], source: Path) -> str:
    """Of all that the library depends on."""
    output = subprocess.run([compiler, "--version"], check=True, capture_output=True, timeout=TIMEOUT_S).stdout
    parts = (
        source.read_bytes(),
        SHARED.read_bytes(),
        compiler.encode(),
        output,
        " ".join(flags).encode(),
        _processor().encode(),
    )
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


@functools.cache
def _processor() -> str:
    """What the processor can do, as far as it is told."""
    output = Path("/proc/cpuinfo")
    lines = output.read_text(encoding="utf-8", errors="replace").splitlines() if output.exists() else []
    model = [next((line for line in lines if line.startswith(word)), "") for word in ("model name", "flags")]
    return "\n".join([platform.platform(), platform.processor(), *model])


def _cache() -> Path:
    """The folder of libraries, made if need be.

    Raises:
        OSError: it cannot be made, or someone else could put a file into it.
    """
    override = os.environ.get("ATTNX_CACHE")
    try:
        folder = Path(override) if override else Path.home() / ".cache" / "attnx" / "kernels"
    except RuntimeError as error:
        raise FileNotFoundError("this user has no home") from error
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = folder.resolve()
    for place in (folder, *folder.parents):
        status = place.stat()
        shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        # In a folder like /tmp nobody can replace what is another's; the library's own folder is no such folder.
        if status.st_uid not in (0, os.getuid()) or (
            shared and not (place != folder and status.st_mode & stat.S_ISVTX)
        ):
            raise PermissionError(f"others can write into {place}")
    return folder
