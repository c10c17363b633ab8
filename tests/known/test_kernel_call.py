"""A kernel that cannot be built is replaced by the next one, with one warning."""

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx import accel
from attnx.accel.attention import additive, kernels
from attnx.accel.attention.additive.cuda import CudaAdditive
from attnx.attention.factory import build
from attnx.attention.normalizers.sparsemax import Sparsemax
from attnx.attention.scorers.mlp import Mlp
from attnx.attention.types import AttentionInputs, AttentionOutput

CPU = torch.device("cpu")


class Plain(kernels.Kernel):
    """A kernel that reads by the definition, and counts its reads and how often it was built."""

    name = "Plain"

    def __init__(self) -> None:
        self.reads = self.builds = 0

    def supports(self, attention: Any, overrides: AttentionInputs) -> bool:
        return True

    def build(self, device: torch.device) -> None:
        self.builds += 1

    def __call__(self, attention: Any, overrides: AttentionInputs) -> AttentionOutput:
        self.reads += 1
        return attention.attend_with_scores(overrides, attention.score(overrides))


class NotBuilt(Plain):
    """One whose compiler fails."""

    name = "NotBuilt"

    def build(self, device: torch.device) -> None:
        super().build(device)
        printed = b"In file included from fast.c:\nfast.c:3:1: error: no such thing\nstopped.\n"
        raise subprocess.CalledProcessError(1, ["cc"], stderr=printed)


class Raises(Plain):
    """One that compiles when it first reads, or goes wrong there for another reason."""

    name = "Raises"

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def __call__(self, attention: Any, overrides: AttentionInputs) -> AttentionOutput:
        self.reads += 1
        raise self.error


def of(module: str, text: str) -> Exception:
    """An error of a compiler that is not installed everywhere."""
    return type("CompilationError", (RuntimeError,), {"__module__": module})(text)


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch):
    """Nothing was built yet in this process."""
    monkeypatch.setattr(kernels, "_failures", {})
    kernels.warn_once.cache_clear()


@pytest.fixture
def logged_warnings(caplog):
    caplog.set_level(logging.WARNING)
    return lambda: [record.getMessage() for record in caplog.records]


@pytest.fixture
def read():
    """Read once with kernels, in this order, and once by the definition."""
    attention: Any = accel.enable(build(query_size=5, memory_size=11))
    queries, memory = torch.randn(2, 3, 5), attention.make_memory(torch.randn(2, 7, 11))

    def outcome(*line: Any) -> tuple[Tensor, Tensor]:
        attention.kernels = ()
        expected = attention(queries, memory).context
        attention.kernels = line
        return attention(queries, memory).context, expected

    return outcome


def test_the_next_kernel_takes_over(read, logged_warnings):
    broken, good = NotBuilt(), Plain()
    torch.testing.assert_close(*read(broken, good), rtol=0, atol=0)
    assert (broken.reads, good.reads) == (0, 1)
    (line,) = logged_warnings()
    assert line == (
        "the kernel NotBuilt cannot be built for cpu and is left out, the next in line computes: "
        "fast.c:3:1: error: no such thing"
    )


def test_a_failing_kernel_is_tried_and_reported_once(read, logged_warnings):
    """In a process, whatever attention has such a kernel."""
    first, second = NotBuilt(), NotBuilt()
    for line in ([first], [first], [second]):
        torch.testing.assert_close(*read(*line), rtol=0, atol=0)
    assert (first.builds, second.builds) == (1, 0)
    assert len(logged_warnings()) == 1


def test_a_long_reason_is_shortened(read, logged_warnings):
    read(Raises(ImportError("libtriton.so: " + 300 * "x")))
    (line,) = logged_warnings()
    reason = line.partition("computes: ")[2]
    assert len(reason) == 200
    assert reason.startswith("libtriton.so: x")
    assert reason.endswith("x…")


def test_a_kernel_is_built_once(read, logged_warnings):
    kernel = Plain()
    read(kernel), read(kernel)
    assert (kernel.builds, kernel.reads) == (1, 2)
    assert not logged_warnings()


@pytest.mark.parametrize(
    "error",
    [
        of("triton.compiler.errors", "at 2:17:\ndef scores(queries: Any):\n                ^\nNameError('no Any')"),
        of("torch._inductor.exc", "NameError('no Any')"),
        subprocess.CalledProcessError(1, "cc", stderr="NameError('no Any')"),
        ImportError("NameError('no Any')"),
    ],
    ids=lambda error: type(error).__module__ + "." + type(error).__name__,
)
def test_a_kernel_that_fails_to_compile_falls_back(error, read, logged_warnings):
    broken, good = Raises(error), Plain()
    for _ in range(2):
        torch.testing.assert_close(*read(broken, good), rtol=0, atol=0)
    assert (broken.reads, good.reads) == (1, 2)
    (line,) = logged_warnings()
    assert "Raises" in line
    assert line.endswith(": NameError('no Any')")


@pytest.mark.parametrize("error", [ValueError("sizes"), RuntimeError("index out of range"), MemoryError()])
def test_other_errors_are_raised(error, read, logged_warnings):
    with pytest.raises(type(error)):
        read(Raises(error), Plain())
    assert not logged_warnings()


def test_a_kernel_for_another_device_is_skipped(read, logged_warnings, monkeypatch):
    monkeypatch.setattr(NotBuilt, "device", "cuda")
    kernel = NotBuilt()
    torch.testing.assert_close(*read(kernel), rtol=0, atol=0)
    assert (kernel.builds, kernel.reads) == (0, 0)
    assert not logged_warnings()


def test_heads_are_read_as_rows(logged_warnings, monkeypatch):
    """A kernel that would read all heads together, and cannot be built."""
    monkeypatch.setattr(NotBuilt, "supports_heads_as_batch", True)
    attention: Any = accel.enable(build(query_size=4, memory_size=6, scorer="multiplicative", heads=2))
    queries, memory = torch.randn(2, 3, 4), attention.make_memory(torch.randn(2, 7, 6))
    reads = []
    for line in ((), (NotBuilt(),)):
        for head in attention.heads:
            head.kernels = line
        reads.append(attention(queries, memory).context)
    torch.testing.assert_close(*reads)
    assert len(logged_warnings()) == 1


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"scorer": "dot"}, "normalizer"),
        ({"scorer": "dot"}, "scope"),
        ({"scope": ("local", {"window": 1})}, "scope"),
        ({"scorer": "scaled", "heads": 2}, "heads.0"),
        ({"scorer": "multiplicative", "heads": 2}, "heads.1"),
    ],
)
def test_hooks_of_parts_are_called(options, part):
    """A kernel that saves their calls is not used."""
    attention: Any = accel.enable(build(query_size=8, memory_size=8, **options))
    calls: list[Any] = []
    attention.get_submodule(part).register_forward_hook(lambda *call: calls.append(call))
    attention(torch.randn(31, 3, 8), attention.make_memory(torch.randn(31, 1063, 8)))
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("heads", "path", "name", "part"),
    [
        (1, "", "normalizer", Sparsemax()),
        (1, "", "softcap", 0.1),
        (1, "", "scorer", Mlp(8, 8, hidden_sizes=[8])),
        (2, "heads.1", "normalizer", Sparsemax()),
    ],
)
def test_a_part_that_is_put_in_later_computes(heads, path, name, part):
    attention: Any = accel.enable(build(scorer="multiplicative", query_size=8, memory_size=8, heads=heads))
    setattr(attention.get_submodule(path), name, part)
    queries, states = torch.randn(2, 3, 8), torch.randn(2, 7, 8)
    context = attention(queries, attention.make_memory(states)).context
    accel.disable(attention)
    torch.testing.assert_close(context, attention(queries, attention.make_memory(states)).context)


@pytest.fixture
def no_triton(monkeypatch):
    """Nothing of Triton was imported yet."""
    for name in [name for name in vars(additive) if name.startswith("triton_")]:
        monkeypatch.delattr(additive, name)
    prefixes = "triton.", f"{additive.__name__}.triton_"
    for name in [name for name in sys.modules if f"{name}.".startswith(prefixes)]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("no_triton")
def test_without_triton_there_is_no_kernel(monkeypatch):
    monkeypatch.setattr(sys, "path", [place for place in sys.path if not (Path(place) / "triton").is_dir()])
    reason = kernels.build_failure(CudaAdditive(), torch.device("cuda", 0))
    assert reason == "No module named 'triton'"


@pytest.mark.usefixtures("no_triton")
def test_a_broken_triton_is_reported(tmp_path, monkeypatch):
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text("raise OSError('libtriton.so: wrong ELF class')\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    reason = kernels.build_failure(CudaAdditive(), torch.device("cuda", 0))
    assert reason == "libtriton.so: wrong ELF class"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_triton_is_not_used(logged_warnings):
    """Whatever CUDA says, it is one line."""
    assert kernels.build_failure(CudaAdditive(), torch.device("cuda", 0))
    (line,) = logged_warnings()
    assert line.startswith("the kernel additive_cuda cannot be built for cuda:0")
    assert "\n" not in line


@pytest.mark.parametrize("heads", [1, 2])
def test_reads_without_triton_on_a_cpu(heads, monkeypatch):
    """Nothing of it is imported for a read on a CPU."""
    monkeypatch.setitem(sys.modules, "attnx.accel.attention.additive.triton_kernels", None)
    attention: Any = accel.enable(build(query_size=6, memory_size=6, heads=heads))
    assert any(
        isinstance(kernel, CudaAdditive) for part in attention.modules() for kernel in getattr(part, "kernels", ())
    )
    assert attention(torch.ones(2, 3, 6), attention.make_memory(torch.ones(2, 5, 6))).context.shape == (2, 3, 6)
