"""Every attention kernel against the definition in float64: outputs and gradients in float32 and bfloat16."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from attnx import accel, registry
from attnx.accel.attention.contract import Kernel
from attnx.attention.attention import Attention
from attnx.attention.factory import build_attention
from attnx.attention.types import AttentionInputs, AttentionOutput
from gpu_sections.cases import Case, Figures, NotRunError, Setting
from gpu_sections.row_names import DEFINITION_ERROR, ERROR

TYPES = (torch.float32, torch.bfloat16)
ANY_SCORERS = ("additive", "dot")
"""The scorers tried with a kernel that serves all of them."""


class Sizes(NamedTuple):
    """Rows of a batch, queries, positions of the memory, and width."""

    rows: int
    queries: int
    positions: int
    width: int


SIZES, CHECK_SIZES = Sizes(8, 190, 701, 128), Sizes(4, 52, 161, 16)
CHUNK_MIB, CHECK_CHUNK_MIB = 64, 1
"""Of the kernel that computes in chunks, so that there are several."""
WINDOW = 2
ZERO = 1e-9
"""The share of the largest gradient below which one in float64 is rounding alone."""
Masks = tuple[Tensor, Tensor]
"""Of the memory, (b, m), and of what each query may read, (b, q, m)."""


def ragged(sizes: Sizes) -> Masks:
    """Rows of any length; the last has no position."""
    lengths = torch.linspace(sizes.positions, 0, sizes.rows).long()
    memory_mask = torch.arange(sizes.positions) < lengths[:, None]
    return memory_mask, torch.ones(sizes.rows, sizes.queries, sizes.positions, dtype=torch.bool)


def masked(sizes: Sizes) -> Masks:
    """Two thirds of all pairs, and a query without an allowed position in each row."""
    memory_mask, allowed_mask = ragged(sizes)
    allowed_mask &= torch.rand(allowed_mask.shape) < 2 / 3
    allowed_mask[:, 1] = False
    return torch.ones_like(memory_mask), allowed_mask


class Call(NamedTuple):
    """A kind of call: its scope and its masks."""

    name: str
    scope: str
    make_masks: Callable[[Sizes], Masks]


CALLS = (
    Call("ragged", "global", ragged),
    Call("queries without a position", "global", masked),
    Call("windows", "local", ragged),
)


def cases(setting: Setting) -> Iterator[Case]:
    """Every kernel of the device with every scorer, call and type that it declares."""
    for name in registry.names("kernel"):
        kernel: Any = registry.find("kernel", name)
        if getattr(kernel, "device", setting.device.type) != setting.device.type:
            yield Case(name, partial(_decline, f"it is for {kernel.device}"))
            continue
        for scorer, call, dtype in product(kernel.scorers or ANY_SCORERS, CALLS, TYPES):
            if not kernel.scopes or call.scope in kernel.scopes:
                title = f"{name}: {scorer}, {call.name}, {str(dtype).removeprefix('torch.')}"
                yield Case(title, partial(_compare, setting, kernel(), scorer, call, dtype))


def _decline(reason: str) -> Figures:
    raise NotRunError(reason)


def _compare(setting: Setting, kernel: Kernel, scorer: str, call: Call, dtype: torch.dtype) -> Figures:
    """The largest errors of a kernel's outputs and gradients, and of the definition's in the same type."""
    torch.manual_seed(0)
    sizes, chunk_mib = (CHECK_SIZES, CHECK_CHUNK_MIB) if setting.is_check else (SIZES, CHUNK_MIB)
    scope = (call.scope, {"window": WINDOW} if call.scope == "local" else {})
    attention: Any = build_attention(scorer, scope, "softmax", (sizes.width,) * 3, {"chunk_mib": chunk_mib})
    attention.to(setting.device, dtype)
    shapes = (sizes.rows, sizes.queries, sizes.width), (sizes.rows, sizes.positions, sizes.width)
    operands = [torch.randn(shape).to(setting.device, dtype) for shape in (*shapes, shapes[0])]
    masks = [mask.to(setting.device) for mask in call.make_masks(sizes)]
    results = _attend(_attending_by(kernel, attention, setting.device), operands, masks)
    definition = _attend(attention, operands, masks)
    exact = _attend(attention.double(), [tensor.double() for tensor in operands], masks)
    return {ERROR: largest_error(results, exact), DEFINITION_ERROR: largest_error(definition, exact)}


def _attending_by(kernel: Kernel, attention: Attention, device: torch.device) -> Attention:
    """The same attention by a kernel alone: what it cannot build is an error, and what it declines is not run."""
    if hasattr(kernel, "build"):
        kernel.build(device)
    accelerated: Any = accel.enable(copy.deepcopy(attention))

    def attend(inputs: AttentionInputs) -> AttentionOutput:
        if not kernel.supports(accelerated, inputs):
            raise NotRunError("the kernel declines such a call")
        return kernel(accelerated, inputs)

    accelerated.attend = attend
    return cast("Attention", accelerated)


def _attend(attention: Any, operands: list[Tensor], masks: list[Tensor]) -> list[Tensor]:
    """The contexts, and the gradients of queries, memory and parameters."""
    queries, states, grad_context = operands
    leaves = [queries.detach().requires_grad_(), states.detach().requires_grad_()]
    context = attention(leaves[0], attention.make_memory(leaves[1], masks[0]), masks[1]).context
    gradients = torch.autograd.grad(context, [*leaves, *attention.parameters()], grad_context)
    return [context.detach(), *gradients]


def largest_error(results: list[Tensor], exact: list[Tensor]) -> float:
    """The largest error of any tensor relative to its largest value.

    A gradient that is zero but for rounding, as that of a score's constant, is relative to the largest of all.

    Raises:
        ArithmeticError: a result is not finite.
    """
    if not all(result.isfinite().all() for result in results):
        raise ArithmeticError("a result is not finite")
    scales = [right.abs().max().item() for right in exact]
    scales = [scale if scale > ZERO * max(scales) else max(scales) for scale in scales]
    errors = [(result.double() - right).abs().max().item() for result, right in zip(results, exact, strict=True)]
    return max(error / scale for error, scale in zip(errors, scales, strict=True))
