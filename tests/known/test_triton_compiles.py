"""Every Triton kernel compiles without a GPU, with the types of its launches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from attnx.accel.attention.additive.blocks import SINGLE, additive_scores

GENERATIONS = {"A100": 80, "H100": 90, "B200": 100}
Signature = dict[str, str]


@pytest.fixture(scope="module")
def module(triton_that: Callable[[str], ModuleType]) -> ModuleType:
    return triton_that("compiles")


@pytest.fixture(scope="module")
def functions(module: Any) -> dict[str, Any]:
    """All that Triton compiles in the module, by name."""
    return {name: member for name, member in vars(module).items() if isinstance(member, module.triton.JITFunction)}


@pytest.fixture
def recorded_launches(module: Any, functions: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Each function as it is launched, with its signature and constants; nothing runs."""
    launches: list[tuple[str, Signature, dict[str, int]]] = []

    def kind(value: Any) -> str:
        return {torch.float32: "*fp32"}[value.dtype] if isinstance(value, torch.Tensor) else {int: "i32"}[type(value)]

    def run(function: Any, *args: Any, grid: Any, warmup: bool, **constants: int) -> None:
        by_name = dict(zip(function.arg_names, args, strict=False))
        signature = {name: kind(by_name[name]) if name in by_name else "constexpr" for name in function.arg_names}
        launches.append((function.__name__, signature, constants))

    monkeypatch.setattr(module.triton.JITFunction, "run", run)
    return launches


def launch(module: Any, dtype: torch.dtype) -> None:
    """Scores and all gradients."""
    shapes = (2, 3, 5), (2, 7, 5), (5,)
    additive_scores(
        module.BACKEND, *(torch.ones(shape, dtype=dtype, requires_grad=True) for shape in shapes)
    ).sum().backward()


@pytest.mark.parametrize("capability", GENERATIONS.values(), ids=list(GENERATIONS))
def test_every_kernel_compiles(
    module: Any,
    functions: dict[str, Any],
    recorded_launches: list[Any],
    capability: int,
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    launch(module, torch.float32)
    for name, signature, constants in {name: (name, *remaining) for name, *remaining in recorded_launches}.values():
        source = ASTSource(functions[name], signature, constants)
        compiled = module.triton.compile(source, target=GPUTarget("cuda", capability, 32))
        assert compiled.asm["cubin"]
        assert f".target sm_{capability}" in compiled.asm["ptx"]


def test_every_function_is_launched_or_called(
    module: Any, functions: dict[str, Any], recorded_launches: list[Any]
) -> None:
    launch(module, torch.float32)
    names = {name for name, *_ in recorded_launches}
    called = {name for name in functions if any(f" {name}(" in functions[caller].src for caller in names)}
    assert names | called == set(functions)


@pytest.mark.parametrize("dtype", SINGLE)
def test_all_types_share_one_program(
    module: Any, functions: dict[str, Any], recorded_launches: list[Any], dtype: torch.dtype
) -> None:
    """Narrower types are widened before, so that what is built for float32 is all there is to build."""
    launch(module, torch.float32)
    expected = sorted(map(str, recorded_launches))
    recorded_launches.clear()
    launch(module, dtype)
    assert sorted(map(str, recorded_launches)) == expected


def test_all_sizes_and_addresses_share_one_program(functions: dict[str, Any]) -> None:
    """What is built on one number serves every read: sizes of 1, or divisible by 16, are not compiled for again."""
    for function in functions.values():
        parameters = [param for param in function.params if not param.is_constexpr]
        assert parameters
        assert all(value.do_not_specialize and value.do_not_specialize_on_alignment for value in parameters)


def test_building_launches_every_kernel(module: Any, recorded_launches: list[Any]) -> None:
    """A kernel that cannot be built for the gradients is not begun with."""
    module.compile_kernels(torch.device("cpu"))
    built = sorted({str(item) for item in recorded_launches})
    recorded_launches.clear()
    launch(module, torch.float32)
    assert built == sorted({str(item) for item in recorded_launches})
