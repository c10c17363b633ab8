"""The faster classes of modules, which :func:`enable` gives to a model in place.

Each has the parameters and the ``state_dict`` of the class that it replaces, and gives the same numbers to rounding. It
calls that class where it is no faster. ``FAST`` below lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.accel.attention.additive.cpu import CompiledAdditive
from attnx.accel.attention.additive.cuda import CudaAdditive
from attnx.accel.attention.checkpointed import CheckpointedKernel
from attnx.accel.attention.flex import Flex
from attnx.accel.attention.kernels import Kernel, call_kernels, has_hooks, is_plain
from attnx.accel.attention.sdpa import Sdpa
from attnx.accel.attention.window import WindowKernel
from attnx.accel.lstm import autograd
from attnx.accel.lstm.autograd import DirectionWeights, Lookup
from attnx.accel.lstm.bindings import can_run_lstm, lstm_step, pack_weights, packed_linear
from attnx.accel.mixers import FAST_MIXERS
from attnx.attention.attention import Attention
from attnx.attention.contracts import Scorer
from attnx.attention.multi_head import MultiHeadAttention
from attnx.attention.scopes.global_ import Global
from attnx.attention.scorers.additive import Additive
from attnx.attention.types import AttentionInputs, AttentionOutput
from attnx.nn.contracts import OutputInputs
from attnx.nn.outputs.linear import LinearOutput
from attnx.nn.recurrent import LayerState, MemoryCellLayer, concat

M = TypeVar("M", bound=nn.Module)
KERNELS: tuple[Kernel, ...] = (WindowKernel(), Flex(), CompiledAdditive(), CudaAdditive(), Sdpa(), CheckpointedKernel())
"""The kernels of attention: of those that support a call the first computes it."""
ATTENTION_PARTS = {"scorer", "scope", "normalizer", "bias", "softcap"}
"""The attributes of attention by which kernels fit it."""
MIN_ROWS_FOR_C = 512
"""From so many rows on one product is worth packing the weights for it."""


class FastEmbedding(nn.Embedding):
    """An embedding whose output has an attribute ``lookup``, the table and the ids, for an LSTM that reads it.

    A tensor computed from the output, by dropout or a mask, has none. Nor has an output in inference mode, where a
    change in place would go unnoticed. Who keeps the output can ask for its gradient, before or after the LSTM ran.
    """

    def forward(self, ids: Tensor) -> Tensor:
        """(...) ids -> (..., e)."""
        rows = super().forward(ids)
        has_plain_gradient = not (self.scale_grad_by_freq or self.sparse)
        if ids.dim() == 2 and has_plain_gradient and can_run_lstm(self.weight) and not rows.is_inference():
            lookup = Lookup(self.weight, ids.long(), self.padding_idx, rows._version)
            rows.lookup = lookup  # type: ignore[attr-defined]
        return rows


def unchanged_lookup(rows: Tensor) -> Lookup | None:
    """The lookup that a tensor is the output of, unless it was changed in place, or a hook waits for its gradient."""
    lookup: Lookup | None = getattr(rows, "lookup", None)
    if lookup is None or rows.is_inference() or rows._version != lookup.version:
        return None
    return None if rows._backward_hooks else lookup


class FastMemoryCellLayer(MemoryCellLayer):
    """The LSTM layer in C where it is faster than torch's: on a CPU, in single precision."""

    def run(
        self, inputs: Sequence[Tensor], lengths: Tensor | None, state: LayerState | None
    ) -> tuple[Tensor, LayerState]:
        """As :meth:`RecurrentLayer.run`."""
        if has_hooks(self) or not (can_run_lstm(inputs[0]) and len(inputs[0])):
            return super().run(inputs, lengths, state)
        lookup = unchanged_lookup(inputs[0])
        rows = None
        if lookup is not None and autograd.prefers_lookup(lookup):
            rows, *inputs = inputs
        else:
            lookup = None
        start = None if state is None else (state[0], state[1])
        joined = concat(inputs) if inputs else None
        outputs, finals = autograd.lstm(lookup, joined, lengths, start, self._directions(), rows)
        # (directions, b, hidden) -> (b, directions * hidden)
        return outputs, tuple(final.transpose(0, 1).flatten(1) for final in finals)

    def step(self, inputs: Sequence[Tensor], state: LayerState) -> LayerState:
        """As :meth:`RecurrentLayer.step`; in C without gradients."""
        if torch.is_grad_enabled() or not can_run_lstm(inputs[0]):
            return super().step(inputs, state)
        ((weight_ih, weight_hh, bias),) = self._directions()
        gates = torch.addmm(bias, concat(inputs), weight_ih.t()).addmm_(state[0], weight_hh.t())
        return lstm_step(state[1], gates)

    def _directions(self) -> list[DirectionWeights]:
        weights = self.all_weights
        return [(weight_ih, weight_hh, bias_ih + bias_hh) for weight_ih, weight_hh, bias_ih, bias_hh in weights]


def fast_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """As :func:`torch.nn.functional.linear`: (..., k), a weight (u, k) and a bias (u) -> (..., u).

    Without gradients n rows of inputs (n, k) may be written to ``out`` (n, u), whose rows may be strided.
    """
    # Under tracing, which C does not support, the number of rows must not be looked at.
    is_supported = not torch.is_grad_enabled() and can_run_lstm(inputs) and weight.numel() > 0
    rows = inputs.numel() // weight.shape[1] if is_supported else 0
    packed = pack_weights(weight, rows) if rows >= MIN_ROWS_FOR_C else None
    if packed is None or packed.tiles is None:
        result = F.linear(inputs, weight, bias)
        return result if out is None else out.copy_(result)
    result = inputs.new_empty(rows, len(weight)) if out is None else out
    packed_linear(inputs.reshape(rows, -1), packed, bias, result)
    return result if out is not None else result.view(*inputs.shape[:-1], -1)


class FastLinearOutput(LinearOutput):
    """The linear output layer, in C without gradients."""

    def forward(self, vectors: Tensor, inputs: OutputInputs | None = None) -> Tensor:
        """Readouts (..., size) -> (..., width)."""
        return fast_linear(vectors, self.weight, self.bias)


class FastProjection(nn.Linear):
    """A projection of additive scores, in C without gradients."""

    def forward(self, vectors: Tensor) -> Tensor:
        """(..., in_features) -> (..., out_features)."""
        return fast_linear(vectors, self.weight, self.bias)


def kernels_that_fit(attention: Attention) -> tuple[Kernel, ...]:
    """The kernels that compute its parts, best first."""
    return tuple(kernel for kernel in KERNELS if kernel.fits(attention))


class FastAttention(Attention):
    """Attention by the first kernel that supports a call, else by its definition."""

    kernels: tuple[Kernel, ...] = ()  # those that fit its parts, also those that are put in later

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in ATTENTION_PARTS:
            self.kernels = kernels_that_fit(self)

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
        kernels = first.kernels if isinstance(first, FastAttention) and not has_hooks(first) else ()
        kernel = next((known for known in kernels if isinstance(known, Sdpa)), None)
        if kernel is None or not is_plain(first.scope, Global) or self._is_dropping(inputs):
            return None
        prepared = cast("Scorer", first.scorer).project_queries(inputs.queries)
        call = inputs._replace(queries=inputs.queries[:, 0], prepared_queries=prepared)
        has_row_each = len(prepared) == len(memory.mask) == len(memory.keys)
        return kernel.attend_heads(first, call) if has_row_each and kernel.supports(first, call) else None

    def _by_kernel(self, inputs: AttentionInputs) -> AttentionOutput | None:
        heads = [head for head in self.heads if isinstance(head, FastAttention) and not has_hooks(head)]
        if not self.heads_are_alike or len(heads) < len(self.heads):
            return None
        first = heads[0]
        if any(head.kernels != first.kernels for head in heads):
            return None
        if first.bias is not None or hasattr(first.scorer, "penalty"):
            return None
        if any(first.get_submodule(part).state_dict() for part in ("scope", "normalizer")):  # each head has its own
            return None
        kernels = [kernel for kernel in first.kernels if kernel.supports_heads_as_batch]
        if not kernels or self._is_dropping(inputs) or first.is_sampling or inputs.history is not None:
            return None
        queries = zip(heads, inputs.queries.unbind(1), strict=True)
        prepared = torch.stack([head.scorer.project_queries(part) for head, part in queries], dim=1)
        output = call_kernels(kernels, first, self.fold_heads(inputs._replace(prepared_queries=prepared)))
        return None if output is None else self.unfold_heads(output)

    def _is_dropping(self, inputs: AttentionInputs) -> bool:
        first = self.heads[0]
        return inputs.dropout_mask is not None or (first.training and first.dropout > 0)


FAST: dict[type[nn.Module], type[nn.Module]] = {
    Attention: FastAttention,
    MultiHeadAttention: FastMultiHeadAttention,
    LinearOutput: FastLinearOutput,
    MemoryCellLayer: FastMemoryCellLayer,
    nn.Embedding: FastEmbedding,
    **FAST_MIXERS,
}
"""The faster class of each; a subclass of one is left as it is."""
FAST_IN_ADDITIVE: dict[type[nn.Module], type[nn.Module]] = {nn.Linear: FastProjection}
"""The same within additive scores."""
PLAIN = {fast: plain for classes in (FAST, FAST_IN_ADDITIVE) for plain, fast in classes.items()}


def enable(model: M) -> M:
    """Give a model its fast paths, in place: C on a CPU, and attention kernels. Numbers stay equal to rounding."""
    _swap(model, FAST)
    for module in model.modules():
        if isinstance(module, FastAttention):
            module.kernels = kernels_that_fit(module)
        if type(module) is Additive:
            _swap(module, FAST_IN_ADDITIVE)
    return model


def disable(model: nn.Module) -> None:
    """Undo :func:`enable`: plain torch again."""
    _swap(model, PLAIN)


def _swap(model: nn.Module, classes: dict[type[nn.Module], type[nn.Module]]) -> None:
    for module in model.modules():
        module.__class__ = classes.get(type(module), type(module))
