"""The modules of attention with their fast paths: the same parameters, other methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from attnx import registry
from attnx.accel.attention.contract import Kernel
from attnx.accel.attention.kernel_call import call_kernels, warn_once
from attnx.accel.attention.sdpa import Sdpa
from attnx.accel.linear_cpu import fast_linear
from attnx.attention.attention import Attention, is_recurrent
from attnx.attention.multi_head import MultiHeadAttention
from attnx.attention.scopes.global_ import Global
from attnx.attention.scorers.additive import Additive
from attnx.attention.types import AttentionInputs, AttentionOutput
from attnx.errors import UserError

if TYPE_CHECKING:
    from attnx.attention.contracts import Scorer

KINDS = ("scorer", "scope", "normalizer")
"""The kinds of parts whose supported names a kernel declares."""


class FastAttention(Attention):
    """Attention by the first kernel that supports a call, else by its definition.

    Attributes:
        kernels: those that support its scorer, scope and normalizer, best first.
    """

    kernels: tuple[Kernel, ...] = ()

    def attend(self, inputs: AttentionInputs) -> AttentionOutput:
        """Attend by a kernel if one supports the call and nothing is sampled: a kernel may compute weights twice."""
        if self.is_sampling:
            return super().attend(inputs)
        output = call_kernels(self.kernels, self, inputs)
        return super().attend(inputs) if output is None else output


class FastMultiHeadAttention(MultiHeadAttention):
    """Heads as rows of one call, too, where a kernel reads nothing of their scorers but prepared queries and keys."""

    def attend_heads(self, inputs: AttentionInputs) -> AttentionOutput:
        """Attend by a kernel for all heads at once if there is one."""
        output = self._by_shared_mask(inputs) if self.heads_are_parameter_free else self._by_kernel(inputs)
        return super().attend_heads(inputs) if output is None else output

    def _by_shared_mask(self, inputs: AttentionInputs) -> AttentionOutput | None:
        """Attend by ``sdpa`` with one mask for all heads: the scope ``global`` allows the same positions in each."""
        first, memory = self.heads[0], inputs.memory
        kernel = first.kernels[0] if isinstance(first, FastAttention) and first.kernels else None
        if not isinstance(kernel, Sdpa) or type(first.scope) is not Global or self._is_dropping(inputs):
            return None
        prepared = cast("Scorer", first.scorer).project_queries(inputs.queries)
        call = inputs._replace(queries=inputs.queries[:, 0], prepared_queries=prepared)
        has_row_each = len(prepared) == len(memory.mask) == len(memory.keys)
        return kernel.attend_heads(first, call) if has_row_each and kernel.supports(first, call) else None

    def _by_kernel(self, inputs: AttentionInputs) -> AttentionOutput | None:
        first = self.heads[0]
        if not isinstance(first, FastAttention) or not self._only_scorers_learn():
            return None
        kernels = [kernel for kernel in first.kernels if getattr(kernel, "supports_heads_as_batch", False)]
        if not kernels or self._is_dropping(inputs) or first.is_sampling or inputs.history is not None:
            return None
        heads = zip(self.heads, inputs.queries.unbind(1), strict=True)
        prepared = torch.stack([head.scorer.project_queries(part) for head, part in heads], dim=1).flatten(0, 1)
        output = call_kernels(kernels, first, self.fold_heads(inputs)._replace(prepared_queries=prepared))
        return None if output is None else self.unfold_heads(output)

    def _is_dropping(self, inputs: AttentionInputs) -> bool:
        first = self.heads[0]
        return inputs.dropout_mask is not None or (first.training and first.dropout > 0)

    def _only_scorers_learn(self) -> bool:
        first = self.heads[0]
        has_parameters = any(first.get_submodule(part).state_dict() for part in ("scope", "normalizer"))
        return not (hasattr(first.scorer, "penalty") or has_parameters or first.bias is not None)


class FastAdditive(Additive):
    """Additive scores whose projections are in C without gradients."""

    def project_keys(self, memory: Tensor) -> Tensor:
        """(..., m, memory_size) -> (..., m, hidden)."""
        return fast_linear(memory, self.memory.weight)

    def project_queries(self, queries: Tensor) -> Tensor:
        """(..., q, query_size) -> (..., q, hidden)."""
        return fast_linear(queries, self.query.weight)


def matching_kernels(attention: Attention) -> tuple[Kernel, ...]:
    """Build the kernels that support the parts of an attention module, best first.

    Recurrent parts go through the queries of a call in order, which a kernel may split unless it declares otherwise.
    """
    parts = {f"{kind}s": registry.registered_name(kind, type(getattr(attention, kind))) for kind in KINDS}
    declared = {name: registry.declarations("kernel", name) for name in registry.names("kernel")}
    matches = [name for name in declared if _lists_parts(declared[name], parts)]
    if attention.bias is not None:
        matches = [name for name in matches if declared[name].get("supports_bias")]
    kernels: list[Kernel] = []
    for name in sorted(matches, key=lambda name: declared[name]["priority"]):
        try:
            kernels.append(registry.build("kernel", name))
        except UserError as error:  # a plug-in's file cannot be imported: a package is missing
            warn_once(f"the kernel {name} is left out, the next in line computes: {error}")
    if is_recurrent(attention.scorer) or is_recurrent(attention.normalizer):
        kernels = [kernel for kernel in kernels if getattr(kernel, "supports_recurrence", False)]
    return tuple(kernels)


def _lists_parts(declared: dict[str, Sequence[str]], parts: dict[str, str | None]) -> bool:
    return all(not declared.get(kind) or name in declared[kind] for kind, name in parts.items())
