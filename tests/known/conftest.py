"""Counters of what operations allocate, plug-ins, and Triton in its interpreter."""

import contextlib
import functools
import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attnx.accel.attention import additive
from attnx.accel.attention.additive.triton_jit import OLDEST_TRITON
from attnx.registry.source_scan import scan_files

OLDEST_INTERPRETER = "3.7"  # that of older ones takes arrays of one element for numbers, which NumPy 2.4 refuses


class _Made(TorchDispatchMode):
    """Notes the elements of every tensor that an operation makes; a view of one that it was given is none."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        input_storages = {_storage(tensor) for tensor in tree_leaves((args, kwargs)) if isinstance(tensor, Tensor)}
        new = [
            tensor
            for tensor in tree_leaves(made)
            if isinstance(tensor, Tensor) and _storage(tensor) not in input_storages
        ]
        self.sizes += [tensor.untyped_storage().nbytes() // tensor.element_size() for tensor in new]
        return made


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@pytest.fixture
def allocated_sizes():
    """Call a function and list how many elements each tensor has that it makes, gradients included."""

    def list_sizes(function: Callable[[], Any]) -> list[int]:
        with _Made() as mode:
            function()
        return mode.sizes

    return list_sizes


@pytest.fixture
def set_num_threads():
    """``torch.set_num_threads``, which has no effect after the test."""
    number = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(number)


@pytest.fixture
def no_plugins(monkeypatch, tmp_path):
    """No folder of plug-ins is in force that a test does not name."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.delenv("ATTNX_PLUGINS", raising=False)


@pytest.fixture
def write_plugin(monkeypatch, tmp_path):
    """Write a plug-in file into a folder that is in force."""
    folder = tmp_path / "in_force"
    folder.mkdir()
    monkeypatch.setenv("ATTNX_PLUGINS", str(folder))

    def write(name: str, text: str) -> Path:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        scan_files.cache_clear()
        return file

    return write


def _is_kernel_module(name: str) -> bool:
    return name.startswith(f"{additive.__name__}.triton_")


def _is_of_triton(name: str) -> bool:
    """Whether a module has to be imported again for Triton to do something else: all but Triton's own C++."""
    package = name.partition(".")[0]
    return _is_kernel_module(name) or (package in ("triton", "fla") and not name.startswith("triton._C"))


@contextlib.contextmanager
def _triton(interprets: bool) -> Iterator[ModuleType]:
    triton_modules = {name: module for name, module in sys.modules.items() if _is_of_triton(name)}

    def forget() -> None:
        for name in filter(_is_of_triton, list(sys.modules)):
            del sys.modules[name]
            if _is_kernel_module(name):
                vars(additive).pop(name.rpartition(".")[2], None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", str(int(interprets)))
        forget()
        try:
            yield importlib.import_module("attnx.accel.attention.additive.triton_kernels")
        finally:
            forget()
            sys.modules.update(triton_modules)


@pytest.fixture(scope="module")
def triton_that():
    """The module of Triton kernels, with a Triton that ``compiles`` or ``interprets``; one of them in a test file.

    Which of them Triton does is settled as it is imported, so it is imported anew and put back after the file.
    """
    if sys.platform != "linux":
        pytest.skip("triton is for Linux")
    pytest.importorskip("triton", OLDEST_TRITON)
    with contextlib.ExitStack() as stack:

        @functools.cache
        def import_triton(what: str) -> ModuleType:
            if what == "interprets":
                pytest.importorskip("triton", OLDEST_INTERPRETER)
            return stack.enter_context(_triton(interprets=what == "interprets"))

        yield import_triton
