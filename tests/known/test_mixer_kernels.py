"""Mixers by the kernels of flash-linear-attention equal their definitions, in Triton's interpreter on a CPU."""

import builtins
import copy
import importlib
import importlib.metadata
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx import accel, registry
from attnx.accel import mixers
from attnx.accel.attention import kernels

WIDTH, STEPS = 32, 67  # a chunk of theirs has 64 positions
MASK = torch.arange(STEPS) < torch.tensor([STEPS, 5])[:, None]
MIXERS: list[tuple[str, dict[str, Any]]] = [
    ("linear", {}),
    ("retention", {}),
    ("gated_linear", {}),
    ("delta", {"negative_eigenvalues": True}),
    ("gated_delta", {"negative_eigenvalues": True}),
]


class Step(int):
    """A number of a loop in an interpreted kernel, which kernels convert as the tensor that it is when compiled."""

    def to(self, dtype: Any) -> "Step":
        return self


def steps(*limits: Any) -> Iterator[Step]:
    return map(Step, builtins.range(*map(int, limits)))


@pytest.fixture(scope="module")
def fla(triton_that):
    """Its operations, interpreted; no tile is looked for, the first serves."""
    pytest.importorskip("fla", reason="flash-linear-attention is not installed: the extra fla")
    triton_that("interprets")
    tuner: Any = importlib.import_module("triton.runtime.autotuner")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a machine without a GPU
        patch.setattr(tuner.Autotuner, "_bench", lambda *_, **__: [0.0, 0.0, 0.0])
        operations = importlib.import_module("fla.ops")
        for name, module in list(sys.modules.items()):
            if name.startswith("fla.ops.") and hasattr(module, "triton"):
                patch.setattr(module, "range", steps, raising=False)
        yield operations


@pytest.fixture(autouse=True)
def _on_a_cpu(monkeypatch):
    monkeypatch.setattr(mixers, "DEVICE", "cpu")
    monkeypatch.setattr(kernels, "_failures", {})
    forget()
    yield
    forget()


def forget() -> None:
    mixers._find.cache_clear()
    kernels.warn_once.cache_clear()


@pytest.fixture
def _tf32():
    """A GPU would round the factors of products; the interpreter does not."""
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision("highest")


@pytest.fixture
def calls(monkeypatch):
    """The arguments of each call of a kernel; kernels are not tried before, which takes time."""
    made: list[dict[str, Any]] = []
    find = mixers._find

    def record(name: str, gates: frozenset[str]) -> Any:
        function = find(name, gates)

        def call(**arguments: Any) -> Any:
            made.append(arguments)
            return function(**arguments)

        return None if function is None else call

    record.cache_clear = find.cache_clear
    monkeypatch.setattr(mixers, "_find", record)
    monkeypatch.setattr(mixers, "_failure", lambda *_: None)
    return made


def both(choice: tuple[str, dict[str, Any]], heads: int = 1) -> tuple[Any, Any]:
    """A mixer with fast paths, and as it is defined."""
    torch.manual_seed(0)
    name, options = choice
    plain = registry.build("mixer", (name, {"heads": heads, **options}), hidden_size=WIDTH)
    return accel.enable(copy.deepcopy(plain)), plain


def results(mixer: Any, mask: Tensor | None) -> dict[str, Tensor]:
    """Outputs, last state and gradients, those of the first state too."""
    torch.manual_seed(1)
    states = torch.randn(2, STEPS, WIDTH, requires_grad=True)
    start = mixer.init_state(2, states)
    start = start._make(torch.rand_like(part).requires_grad_() for part in start)
    outputs, after = mixer(states, mask, start)
    outputs = outputs if mask is None else outputs.masked_fill(~mask[..., None], 0.0)
    sum((part * torch.randn_like(part)).sum() for part in (outputs, *after) if part.requires_grad).backward()
    tensors = {"outputs": outputs, "gradients of the inputs": states.grad}
    tensors |= {f"{name} after": part for name, part in after._asdict().items()}
    tensors |= {f"gradients of {name} before": part.grad for name, part in start._asdict().items()}
    tensors |= {f"gradients of {name}": weight.grad for name, weight in mixer.named_parameters()}
    return {name: tensor.detach() for name, tensor in tensors.items() if tensor is not None}


@pytest.mark.usefixtures("fla", "_tf32")
@pytest.mark.parametrize("choice", MIXERS, ids=lambda choice: choice[0])
def test_kernels_match_the_definition(choice, calls):
    """Outputs, the state after and all gradients, from a state before, of rows of 67 positions and of 5."""
    fast, plain = both(choice)
    actual, expected = (results(mixer, MASK) for mixer in (fast, plain))
    assert [call["q"].shape[:3] for call in calls] == [(2, STEPS, 1)]
    assert actual.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(actual[name], tensor, rtol=1e-4, atol=1e-4, msg=lambda text, name=name: name + text)


@pytest.mark.usefixtures("fla")
@pytest.mark.parametrize("choice", MIXERS, ids=lambda choice: choice[0])
def test_kernels_match_the_definition_in_16_bits(choice, calls):
    """Of two heads, under autocast, within its rounding; the state stays in float32.

    In float16, since the interpreter takes the bits of a bfloat16 for a number.
    """
    fast, plain = both(choice, heads=2)
    states = torch.randn(2, 19, WIDTH)
    with torch.no_grad(), torch.autocast("cpu", torch.float16):
        (actual, after), (expected, expected_after) = (mixer(states) for mixer in (fast, plain))
    assert [call[name].dtype for call in calls for name in "qkv"] == 3 * [torch.float16]
    torch.testing.assert_close(actual, expected, rtol=0.1, atol=0.03)
    for part, expected_part in zip(after, expected_after, strict=True):
        assert part.dtype == torch.float32
        torch.testing.assert_close(part, expected_part, rtol=0.05, atol=0.05)


@pytest.fixture
def fake(monkeypatch):
    """A package whose function is this one; where it computes nothing, what is logged of it."""

    def install(function: Any) -> list[str]:
        module, _, attribute = f"fla.ops.{mixers.SIMPLE}".rpartition(".")
        for name in ("fla", "fla.ops", module):
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        setattr(sys.modules[module], attribute, function)
        lines: list[str] = []
        monkeypatch.setattr(mixers, "warn_once", lines.append)
        return lines

    return install


def require_definition(choice: tuple[str, dict[str, Any]] = ("retention", {})) -> None:
    """A mixer with fast paths gives the numbers of its definition, bit by bit."""
    fast, plain = both(choice)
    states = torch.randn(2, 5, WIDTH)
    torch.testing.assert_close(fast(states)[0], plain(states)[0], rtol=0, atol=0)


@pytest.mark.usefixtures("_tf32")
def test_an_older_version_is_left_out_with_a_line(fake):
    lines = fake(lambda q, k, v, g, scale, initial_state: None)
    require_definition()
    assert "chunk_simple_gla of flash-linear-attention is left out" in lines[0]
    assert "its parameters lack output_final_state" in lines[0]
    assert "'.[fla]'" in lines[0]


@pytest.mark.usefixtures("_tf32")
def test_a_kernel_that_cannot_be_built_is_left_out_with_a_line(fake):
    """It is tried once, with gradients, though the call has none."""
    tried = []

    def fail(q: Tensor, k: Any, v: Any, g: Any, scale: Any, initial_state: Any, output_final_state: Any) -> Any:
        tried.append(q.requires_grad)
        raise RuntimeError("out of resource: shared memory")

    lines = fake(fail)
    with torch.inference_mode():
        require_definition()
        require_definition()
    assert tried == [True]
    (line,) = lines
    assert "heads of width 32 and 64 in torch.float32 on cpu" in line
    assert "out of resource: shared memory" in line


@pytest.mark.usefixtures("_tf32")
def test_without_the_package_the_definition_computes(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("fla.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fla", None)
    require_definition()


def test_exact_products_are_left_to_the_definition(fake):
    """Of single precision without TF32, of double precision, of one position, and of none."""
    lines = fake(lambda **_: pytest.fail("called"))
    require_definition()
    torch.set_float32_matmul_precision("high")
    try:
        fast, _ = both(("retention", {}))
        for count in (0, 1):
            fast(torch.randn(2, count, WIDTH))
        fast.double()(torch.randn(2, 5, WIDTH, dtype=torch.float64))
    finally:
        torch.set_float32_matmul_precision("highest")
    assert lines == []


def test_a_faster_mixer_is_one():
    """It has the weights of its definition, and fast paths can be disabled."""
    for choice in MIXERS:
        fast, plain = both(choice)
        assert fast.state_dict().keys() == plain.state_dict().keys()
        changed = [type(part) for part in fast.modules() if type(part) in mixers.FAST_MIXERS.values()]
        assert len(changed) == 1
        accel.disable(fast)
        assert [type(part) for part in fast.modules()] == [type(part) for part in plain.modules()]


def test_the_start_table_names_what_computes(monkeypatch):
    fast, plain = both(("delta", {}))
    monkeypatch.setattr(importlib.metadata, "version", lambda package: "0.6.0")
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    monkeypatch.setattr(mixers, "DEVICE", "cuda")
    assert mixers.describe_mixers(fast, cpu) is mixers.describe_mixers(plain, gpu) is None
    assert "flash-linear-attention 0.6.0" in str(mixers.describe_mixers(fast, gpu))

    def fail(package: str) -> str:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "version", fail)
    assert "'.[fla]'" in str(mixers.describe_mixers(fast, gpu))
