"""The recurrences of mixers by the kernels of flash-linear-attention, where it is installed and a GPU computes.

Its kernels keep the state in float32, as the definitions do, and round the factors of products: to the 16 bits of the
model or of autocast, or to TF32. Where such rounding was not asked for, and for one position, the definitions compute.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attnx.accel.attention.kernels import try_once, warn_once
from attnx.errors import in_a_line
from attnx.mixers.delta_rule import DeltaRule
from attnx.mixers.gated_linear import GatedLinear
from attnx.mixers.linear import SMALLEST_TOTAL, Linear, LinearState
from attnx.mixers.retention import Retention
from attnx.ops import at_least_float32, is_tracing
from attnx.registry.dependencies import install_command

DEVICE = "cuda"
"""The type of the devices that its kernels are for."""
PACKAGE = "fla-core"
SIMPLE, GATED, DELTA = "simple_gla.chunk_simple_gla", "gla.chunk_gla", "gated_delta_rule.chunk_gated_delta_rule"
"""Functions in ``fla.ops``: sums that decay by head, by unit of the keys, and the delta rule on a decaying state."""
PARAMETERS = {"q", "k", "v", "g", "scale", "initial_state", "output_final_state"}


class FastLinear(Linear):
    """Linear attention; the sums of the keys, which its outputs are divided by, are torch's."""

    def recur(self, queries: Tensor, keys: Tensor, values: Tensor, state: LinearState) -> tuple[Tensor, LinearState]:
        """As :meth:`Linear.recur`."""
        result = _run(SIMPLE, queries, keys, values, state.products)
        if result is None:
            return super().recur(queries, keys, values, state)
        sums, products = result
        summed = state.keys[:, :, None] + keys.to(state.keys.dtype).cumsum(2)
        totals = (queries * summed).sum(-1, keepdim=True)
        return sums / (totals + SMALLEST_TOTAL), LinearState(products, summed[:, :, -1])


class FastRetention(Retention):
    """Retention."""

    def recur(
        self, queries: Tensor, keys: Tensor, values: Tensor, log_decays: Tensor, products: Tensor
    ) -> tuple[Tensor, Tensor]:
        """As :meth:`Retention.recur`."""
        result = _run(SIMPLE, queries, keys, values, products, g=log_decays)
        return result or super().recur(queries, keys, values, log_decays, products)


class FastGatedLinear(GatedLinear):
    """Gated linear attention."""

    def recur(
        self, queries: Tensor, keys: Tensor, values: Tensor, log_decays: Tensor, products: Tensor
    ) -> tuple[Tensor, Tensor]:
        """As :meth:`GatedLinear.recur`."""
        result = _run(GATED, queries, keys, values, products, g=log_decays)
        return result or super().recur(queries, keys, values, log_decays, products)


class FastDeltaRule(DeltaRule):
    """The delta rule, with decays or without."""

    def recur(
        self, queries: Tensor, keys: Tensor, values: Tensor, rates: Tensor, log_decays: Tensor, products: Tensor
    ) -> tuple[Tensor, Tensor]:
        """As :meth:`DeltaRule.recur`."""
        result = _run(DELTA, queries, keys, values, products, g=log_decays, beta=rates)
        return result or super().recur(queries, keys, values, rates, log_decays, products)


FAST_MIXERS: dict[type[nn.Module], type[nn.Module]] = {
    Linear: FastLinear,
    Retention: FastRetention,
    GatedLinear: FastGatedLinear,
    DeltaRule: FastDeltaRule,
}


def describe_mixers(model: nn.Module, device: torch.device) -> str | None:
    """What computes the recurrences of a model's mixers on a device, for the start table; None where none may be fast.

    It does not wait until the package is imported.
    """
    if device.type != DEVICE or not any(type(part) in FAST_MIXERS.values() for part in model.modules()):
        return None
    try:
        version = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        install = install_command("fla")
        return f"mixers compute their definition: flash-linear-attention is not installed ({install})"
    return f"mixers by flash-linear-attention {version} where products are in 16 bits or TF32"


def _run(
    name: str, queries: Tensor, keys: Tensor, values: Tensor, state: Tensor, **gates: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Run a recurrence from a state (b, h, k, v) by one of the functions; None where its definition has to compute.

    Args:
        name: of the function.
        queries: (b, h, t, k), which are scaled already.
        keys: (b, h, t, k).
        values: (b, h, t, v), in the type in which products are computed.
        state: (b, h, k, v).
        gates: decays ``g`` as logarithms, (b, h, t) or (b, h, t, k), and rates ``beta`` (b, h, t).
    """
    dtype = values.dtype
    is_tf32 = dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest"
    is_rounding = dtype in (torch.bfloat16, torch.float16) or is_tf32
    if not is_rounding or values.device.type != DEVICE or values.shape[2] < 2 or is_tracing():
        return None
    function = _find(name, frozenset(gates))
    if function is None:
        return None
    inputs = {"q": queries.to(values.dtype), "k": keys.to(values.dtype), "v": values, **gates}
    inputs = {parameter: part.transpose(1, 2) for parameter, part in inputs.items()}  # (b, t, h, ...)
    compute = functools.partial(function, scale=1.0, output_final_state=True)
    if _failure(name, compute, inputs, state) is not None:
        return None
    context, after = compute(**inputs, initial_state=state)
    return context.transpose(1, 2).to(at_least_float32(context.dtype)), after


@functools.cache
def _find(name: str, gates: frozenset[str]) -> Callable[..., Any] | None:
    """A function of the package, or None: it is not installed, or the line that is logged says what it lacks."""
    module, _, attribute = f"fla.ops.{name}".rpartition(".")
    try:
        function = getattr(importlib.import_module(module), attribute)
        missing = (PARAMETERS | gates) - inspect.signature(function).parameters.keys()
        reason = f"its parameters lack {', '.join(sorted(missing))}" if missing else None
    except Exception as error:  # a version that has no such function, or that torch or Triton is too old for
        if isinstance(error, ModuleNotFoundError) and error.name == "fla":
            return None
        reason = in_a_line(error)
    if reason is None:
        return function  # type: ignore[no-any-return]
    what = f"{attribute} of flash-linear-attention is left out, the definition computes"
    warn_once(f"{what}: {reason}; {install_command('fla')}")
    return None


def _failure(name: str, compute: Callable[..., Any], inputs: dict[str, Tensor], state: Tensor) -> str | None:
    """Why a function cannot compute on this device, for this type and these widths; None if it can.

    It is tried once, with its gradients, on zeros of the sizes of its first call, for which it is tuned.
    """
    what, dtype = name.rpartition(".")[2], inputs["v"].dtype

    def build() -> None:
        with torch.inference_mode(False), torch.enable_grad():
            tensors = {**inputs, "initial_state": state}
            zeros = {parameter: torch.zeros_like(part, requires_grad=True) for parameter, part in tensors.items()}
            context, after = compute(**zeros)
            (context.sum() + after.sum()).backward()

    def report(reason: str) -> None:
        widths = f"heads of width {state.shape[2]} and {state.shape[3]} in {dtype}"
        warn_once(
            f"{what} of flash-linear-attention cannot be built for {widths} on {state.device} and is left out, the "
            f"definition computes: {reason}"
        )

    return try_once((name, state.device, dtype, state.shape[1:]), build, report)
