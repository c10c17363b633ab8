"""Laws of every kernel: a supported read has the outcome and the gradients of the definition."""

import copy
import itertools
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

import attnx.accel
from attnx import accel, registry
from attnx.accel import c_build, modules
from attnx.accel.attention import flex
from attnx.accel.attention.additive import cpu, triton_kernels
from attnx.accel.attention.kernels import Kernel
from attnx.accel.modules import FastAttention
from attnx.attention.attention import Attention
from attnx.attention.factory import build_attention
from attnx.attention.memory import concat_sources, hide_future
from attnx.attention.types import AttentionInputs, AttentionOutput
from tests.conftest import combination_name

KERNELS = {kernel.name: kernel for kernel in modules.KERNELS}
FOLDER = Path(attnx.accel.__file__).parent

# Rows, queries and positions: few, and more than a block, a window or a tile holds. The last row has no position.
SIZES = {"few": (4, 3, 7), "many": (4, 41, 149)}
WIDTH, KEYS, VALUES = 5, 17, 2

# No kernel is asked for recurrent parts.
NORMALIZERS = [
    name
    for name in registry.names("normalizer")
    if "is_recurrent" not in registry.describe("normalizer", name).declarations
]
ALIKE = ("normalizer",)  # kernels know what they declare
FACTORS: dict[str, Any] = {
    # As one, so that it is for every kernel that any memory meets any choice.
    "kernel": list(itertools.product(KERNELS, ["whole", "padded", "growing", "causal", "two sources"])),
    "scorer": "plain",
    "scope": [
        ("global", {}),
        ("local", {"window": 1}),
        ("local", {"window": 1, "center": "predictive"}),
        ("history", {}),
        ("encoder_decoder", {}),
    ],
    "normalizer": [*((name, {}) for name in NORMALIZERS), ("softmax", {"temperature": 0.5})],
    "size": ["many", "few"],
    "allowed_mask": ["all", "by pair", "by position"],
    "values": ["states", "own"],
    "need_weights": [False, True],
    "keep": [False, True],
    "heads": [1, 2],
    "bias": [None, "alibi", "distance", "relative"],
    "softcap": [None, 2.0],
    "dtype": ["float32", "float64"],
}
# What a kernel may lack where the tests run.
MISSING = {
    "additive": lambda: (
        None if c_build.compile_library(FOLDER / "attention/additive/additive.c").library else "no C compiler"
    ),
    "additive_cuda": lambda: None if torch.cuda.is_available() else "needs a GPU and ATTNX_TEST_GPU=1",
    "flex": lambda: None if torch.cuda.is_available() else "needs a GPU and ATTNX_TEST_GPU=1",
}


# What a kernel never supports: tried with it, a test would compare the definition with itself.
DECLINED: dict[str, dict[str, list[Any]]] = {
    "additive": {"dtype": ["float64"]},
    "additive_cuda": {"dtype": ["float64"]},
    "sdpa": {"need_weights": [True], "keep": [True], "values": ["own"], "bias": ["distance", "relative"]},
    "checkpointed": {"size": ["few"]},
    "window": {"size": ["few"], "need_weights": [True]},
    "flex": {
        "need_weights": [True],
        "keep": [True],
        "values": ["own"],
        "allowed_mask": ["by pair", "by position"],
        "dtype": ["float64"],
    },
}


def possible(choices: dict[str, Any]) -> bool:
    """A kernel goes with the parts that it serves, and with what it does not decline in general."""
    kernel, _ = choices.get("kernel", ("", ""))
    if any(choices.get(factor, values) in values for factor, values in DECLINED.get(kernel, {}).items()):
        return False
    if not kernel:
        return True
    serves = KERNELS[kernel]
    if (choices.get("bias") and not serves.supports_bias) or (choices.get("softcap") and not serves.supports_softcap):
        return False
    classes = {"scorer": serves.scorers, "scope": serves.scopes, "normalizer": serves.normalizers}
    return all(
        not classes[kind] or registry.find(kind, choices[kind][0]) in classes[kind]
        for kind in classes
        if kind in choices
    )


@pytest.fixture(autouse=True)
def _drawn(monkeypatch):
    """Every test draws the same, and blocks and tiles are so small that there are several."""
    for module in (cpu, triton_kernels):
        small = module.BACKEND._replace(max_scores_to_keep=997, scores_per_block=4001)
        monkeypatch.setattr(module, "BACKEND", small)
    monkeypatch.setattr(cpu, "MIN_TERMS_FOR_C", 0)
    monkeypatch.setattr(flex, "MIN_QUERIES", 1)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


class Counted(Kernel):
    """A kernel that counts the reads it does."""

    name = "counted"

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.reads = kernel, 0

    def supports(self, attention: Attention, inputs: AttentionInputs) -> bool:
        return self.kernel.supports(attention, inputs)

    def __call__(self, attention: Attention, args: AttentionInputs) -> AttentionOutput:
        self.reads += 1
        return self.kernel(attention, args)


class ReadInputs(NamedTuple):
    """What both ways are given: tensors with gradients, and how they are to be read."""

    queries: Tensor
    states: Tensor
    values: Tensor
    memory_mask: Tensor
    options: dict[str, Any]


def random_inputs(choices: dict[str, Any], device: str) -> ReadInputs:
    rows, queries, positions = SIZES[choices["size"]]
    heads, width = choices["heads"], VALUES if choices["values"] == "own" else KEYS
    lengths = torch.tensor([positions, positions // 2, 1, 0])
    memory_mask = torch.arange(positions) < lengths[:, None]
    allowed_mask = {
        "all": None,
        "by pair": torch.rand(rows, queries, positions) < 0.7,
        "by position": torch.rand(1, 1, positions) < 0.7,
    }[choices["allowed_mask"]]
    head_shape = (heads,) if heads > 1 else ()
    keep = torch.bernoulli(torch.full((rows, *head_shape, queries, positions), 0.7)) / 0.7 if choices["keep"] else None
    options = {"allowed_mask": allowed_mask, "dropout_mask": keep, "need_weights": choices["need_weights"]}
    options = {name: value.to(device) if isinstance(value, Tensor) else value for name, value in options.items()}
    shapes = (rows, queries, WIDTH), (rows, positions, heads * KEYS), (rows, positions, heads * width)
    drawn = [torch.randn(shape).to(device).requires_grad_() for shape in shapes]
    memory_mask = torch.ones_like(memory_mask) if choices["kernel"][1] == "whole" else memory_mask
    return ReadInputs(*drawn, memory_mask.to(device), options)


def pair_of(choices: dict[str, Any], device: str) -> tuple[Any, Any, list[Counted]]:
    """The same attention twice: with this kernel alone, whose reads are counted, and by definition, in evaluation."""
    heads, width = choices["heads"], VALUES if choices["values"] == "own" else KEYS
    sizes = (WIDTH, heads * KEYS, heads * width)
    parts = choices["scorer"], choices["scope"], choices["normalizer"]
    options = {"heads": heads, "bias": choices["bias"], "softcap": choices["softcap"], "chunk_mib": 1}
    without = build_attention(*parts, *sizes, options).to(device).eval()
    with_it = accel.enable(copy.deepcopy(without))
    counted = []
    for module in with_it.modules():
        if isinstance(module, FastAttention):
            module.kernels = tuple(Counted(kernel) for kernel in module.kernels if kernel.name == choices["kernel"][0])
            counted += module.kernels
    return with_it, without, counted


def read(attention: Any, choices: dict[str, Any], what: ReadInputs) -> AttentionOutput:
    queries, states, values, memory_mask, options = what
    values = states if choices["values"] == "states" else values
    kind = choices["kernel"][1]
    if kind == "two sources":
        cuts = slice(0, 3), slice(3, None)
        memory = concat_sources(
            *(attention.make_memory(states[:, cut], memory_mask[:, cut], values[:, cut]) for cut in cuts)
        )
    else:
        memory = attention.make_memory(states, None if kind == "causal" else memory_mask, values)
    memory = memory._replace(is_causal=kind == "causal")
    if kind == "growing":
        memory = hide_future(memory, 2 * torch.arange(queries.shape[1], device=queries.device))
    return attention(queries, memory, history=attention.init_history(memory), **options)


def outcome(attention: Any, choices: dict[str, Any], what: ReadInputs) -> dict[str, Tensor | None]:
    """All that a read returns, and the gradients of a sum in which every number of it has a weight of its own."""
    result = read(attention, choices, what)._asdict()
    outputs = {name: value for name, value in result.items() if value is not None}
    torch.manual_seed(1)
    loss = sum((value * torch.randn(value.shape).to(value.device)).sum() for value in outputs.values())
    leaves = {name: getattr(what, name) for name in ("queries", "states", "values")} | dict(
        attention.named_parameters()
    )
    gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return outputs | {f"gradient of {name}": value for name, value in zip(leaves, gradients, strict=True)}


def device_of(kernel: str) -> str:
    """Where a kernel runs; skips the test, or the subtest, if that is missing here."""
    lacking = MISSING.get(kernel, lambda: None)()
    if lacking:
        pytest.skip(lacking)
    return KERNELS[kernel].device or "cpu"


def same(actual: Tensor | None, expected: Tensor | None, name: str) -> None:
    if actual is None or expected is None:
        assert actual is expected, name
        return
    digits = {torch.float32: 2e-5, torch.float64: 1e-10}[expected.dtype]
    scale = max(1.0, expected.abs().max().item()) if expected.numel() else 1.0
    torch.testing.assert_close(actual, expected, rtol=digits, atol=digits * scale, msg=lambda text: f"{name}: {text}")


def test_a_kernel_matches_the_definition(combinations, subtests):
    for combination in combinations:
        with subtests.test(combination_name(combination)):
            assert_kernel_matches(combination)


def assert_kernel_matches(combination: dict[str, Any]) -> None:
    device = device_of(combination["kernel"][0])
    torch.set_default_dtype(getattr(torch, combination["dtype"]))
    with_it, without, _ = pair_of(combination, device)
    what = random_inputs(combination, device)
    actual, expected = (outcome(attention, combination, what) for attention in (with_it, without))
    assert actual.keys() == expected.keys()
    for name, tensor in actual.items():
        same(tensor, expected[name], name)
    with torch.no_grad():
        again = read(with_it, combination, what)
    same(again.context, expected["context"], "context without gradients")


PLAIN = {"scope": ("global", {}), "normalizer": ("softmax", {}), "allowed_mask": "all", "keep": False}
PLAIN |= {
    "size": "many",
    "values": "states",
    "need_weights": False,
    "heads": 1,
    "bias": None,
    "softcap": None,
    "dtype": "float32",
}


def typical(kernel: str) -> list[dict[str, Any]]:
    """A large read by each scorer that a kernel serves, with the first of the scopes that it names or is for."""
    selected = [{**PLAIN, "kernel": (kernel, "padded"), "scorer": (name, {})} for name in registry.names("scorer")]
    if kernel in ("flex", "window"):
        selected = [{**choice, "scope": ("local", {"window": 1})} for choice in selected]
    return [choice for choice in selected if possible(choice)]


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_is_used(kernel):
    """By what is compared above it was not declined throughout: some large plain read is its own."""
    device = device_of(kernel)
    reads = 0
    for choice in typical(kernel):
        with_it, _, counted = pair_of(choice, device)
        read(with_it, choice, random_inputs(choice, device))
        reads += sum(kernel.reads for kernel in counted)
    assert reads


@pytest.mark.parametrize("kernel", KERNELS)
def test_no_kernel_runs_unless_enabled(kernel):
    choices = typical(kernel)[0]
    parts = choices["scorer"], choices["scope"], choices["normalizer"]
    attention: Any = build_attention(*parts, KEYS, KEYS, KEYS, {})
    assert not hasattr(attention, "kernels")
    accel.enable(attention)
    assert KERNELS[kernel] in attention.kernels
    accel.disable(attention)
    assert type(attention) is Attention
