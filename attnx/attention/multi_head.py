"""Several heads: attention side by side, each over its own narrower view of query and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.attention.attention import Attention
from attnx.attention.inputs import check_query, check_states, query_mask, query_steps, zero_padding
from attnx.attention.options import AttentionOptions
from attnx.attention.types import AttentionHistory, AttentionInputs, AttentionOutput, Memory
from attnx.ops import apply_rope, unit_vectors


class UnitLength(nn.Module):
    """Vectors (..., k) of length 1, times a learned number that starts at ``scale``, if there is one."""

    def __init__(self, scale: float | None = None) -> None:
        super().__init__()
        self.scale = None if scale is None else nn.Parameter(torch.tensor([scale]))

    def forward(self, vectors: Tensor) -> Tensor:
        """(..., k) -> (..., k)."""
        return unit_vectors(vectors) if self.scale is None else self.scale.to(vectors.dtype) * unit_vectors(vectors)


QK_NORMS: dict[str, Callable[[int], tuple[nn.Module, nn.Module]]] = {
    "none": lambda width: (nn.Identity(), nn.Identity()),
    "l2": lambda width: (UnitLength(width**0.5), UnitLength()),
    "rms": lambda width: (nn.RMSNorm(width), nn.RMSNorm(width)),
}
"""The norms of the queries and of the keys of each head, of so many units."""


class MultiHeadAttention(nn.Module):
    """Split query and memory among heads, let each attend, and join their contexts.

    Formula: ``context = O [c_1; ...; c_h], c_i = attention_i(Q_i q, K_i m, V_i v)``
    Source: Vaswani et al. 2017, section 3.2.2, https://arxiv.org/abs/1706.03762

    Every head has a scorer, a scope and a normalizer of its own, so that any of them may be learned. Each attends to
    queries, keys and values of the memory's (the values') width divided by the number of heads. Heads without
    parameters are folded into the batch axis and computed in one call.

    Args:
        heads: what attends, each for queries and memories of width ``memory_size / heads``; made of the same choices.
        query_size: width of the queries.
        memory_size: width of what queries are compared with.
        values_size: width of the values, and of the contexts.
        options: ``kv_heads``, how many heads of keys and values there are, each read by ``heads / kv_heads`` heads in a
            row; ``qk_norm``, which normalizes queries and keys of each head before a rotation; and the lists of parts
            of heads, if these are not made of the same choices.
        difference: makes one head of each pair of heads, which have a head of values in common
            (:mod:`attnx.attention.differential`); none if left out.
    """

    def __init__(
        self,
        heads: Iterable[Attention],
        query_size: int,
        memory_size: int,
        values_size: int,
        options: AttentionOptions = AttentionOptions(),  # noqa: B008 - frozen
        difference: Callable[[AttentionOutput], AttentionOutput] | None = None,
    ) -> None:
        super().__init__()
        self.heads: Sequence[Attention] = nn.ModuleList(heads)  # type: ignore[assignment]
        first, maps = self.heads[0], len(self.heads)
        self.difference = difference
        self.num_heads = maps if difference is None else maps // 2
        self.kv_heads = options.kv_heads or maps
        self.value_heads = self.kv_heads if difference is None else self.num_heads
        self.group_size = maps // self.kv_heads
        self.query = nn.Linear(query_size, memory_size, bias=False)
        self.keys = nn.Linear(memory_size, memory_size // self.group_size, bias=False)
        self.values = nn.Linear(values_size, values_size // self.group_size, bias=False)
        self.out = nn.Linear(values_size, values_size, bias=False)
        self.query_norm, self.key_norm = QK_NORMS[options.qk_norm](memory_size // maps)
        self.dropout, self.needs_history = first.dropout, first.needs_history
        self.is_distribution = difference is None and all(head.is_distribution for head in self.heads)
        has_history = first.needs_history or hasattr(first.scorer, "penalty")
        self.heads_are_alike = not (options.head_scorers or options.head_scopes or options.head_normalizers)
        # A bias without parameters may still be another one in each head.
        is_plain = self.heads_are_alike and not (has_history or first.bias is not None)
        self.heads_are_parameter_free = is_plain and not first.state_dict()
        # Keys of unlike scorers have widths of their own, and are padded to one.
        empty = torch.zeros(1, 0, memory_size // maps)
        self.key_sizes = [head.scorer.project_keys(empty).shape[-1] for head in self.heads if options.head_scorers]

    def make_memory(
        self,
        states: Tensor,
        memory_mask: Tensor | None = None,
        values: Tensor | None = None,
        rotation: Tensor | None = None,
    ) -> Memory:
        """As :meth:`Attention.make_memory`; keys (b, g, m, k) and values (b, g, m, v / h) of g ``kv_heads``.

        ``rotation`` (2, b or 1, m, k / 2), of :func:`attnx.ops.rope_cos_sin`, rotates the keys by their positions.
        """
        check_states(states, memory_mask, values, self.keys.in_features, self.values.in_features)
        has_padding = memory_mask is not None
        states, memory_mask, values = zero_padding(states, memory_mask, values)
        # The projections have no bias, so that padding stays zero.
        projected = _rotate(self.key_norm(_split_heads(states, self.keys, self.kv_heads)), rotation)  # (b, g, m, k)
        if self.heads_are_parameter_free or self.group_size > 1:  # what heads share has no parameters
            keys = self.heads[0].scorer.project_keys(projected)
        else:
            heads = zip(self.heads, projected.unbind(1), strict=True)
            parts = [head.scorer.project_keys(part) for head, part in heads]
            if self.key_sizes:
                parts = [F.pad(part, (0, max(self.key_sizes) - part.shape[-1])) for part in parts]
            keys = torch.stack(parts, dim=1)
        values = _split_heads(values, self.values, self.value_heads)  # (b, g, m, v / h)
        return Memory(keys, values, memory_mask, (states.shape[1],), has_padding)

    def init_history(self, memory: Memory) -> AttentionHistory | None:
        """As :meth:`Attention.init_history`; (b, h, ...) of every head."""
        if not self.needs_history:
            return None
        memories = zip(self.heads, self._memories_of_heads(memory), strict=True)
        histories = (head.init_history(memory_of_head) for head, memory_of_head in memories)
        return AttentionHistory._make(_stack_heads(history for history in histories if history is not None))

    def forward(
        self,
        queries: Tensor,
        memory: Memory,
        allowed_mask: Tensor | None = None,
        steps: Tensor | None = None,
        history: AttentionHistory | None = None,
        need_weights: bool = False,
        dropout_mask: Tensor | None = None,
        rotation: Tensor | None = None,
    ) -> AttentionOutput:
        """As :meth:`Attention.forward`, per head: weights, scores, dropout_mask (b, h, q, m) and history (b, h, m).

        ``rotation`` (2, b or 1, q, k / 2) rotates the queries, as that of :meth:`make_memory` does the keys.
        """
        check_query(queries, memory, allowed_mask, steps, self.query.in_features)
        steps = query_steps(queries, steps)
        # (b, q, query_size) -> (b, h, q, k)
        queries = _rotate(self.query_norm(_split_heads(queries, self.query, len(self.heads))), rotation)
        if self.difference is not None:  # a pair of heads reads the same values
            memory = memory._replace(values=memory.values.repeat_interleave(2, 1), cache=None)
            dropout_mask = None if dropout_mask is None else dropout_mask.repeat_interleave(2, 1)
        # every head attends: (b, h, q, k) -> (b, h, q, v / h)
        output = self.attend_heads(
            AttentionInputs(queries, queries, memory, steps, allowed_mask, history, dropout_mask, need_weights)
        )
        if self.difference is not None:
            output = self.difference(output)
        # (b, h, q, v / h) -> (b, q, v)
        context = self.out(output.context.transpose(1, 2).flatten(2))
        # What heads add to the loss, (b, h, q) -> (b, q): the mean penalty, and the joint log-probability.
        penalty = None if output.penalty is None else output.penalty.mean(1)
        log_prob = None if output.log_prob is None else output.log_prob.sum(1)
        return output._replace(context=context, penalty=penalty, log_prob=log_prob)

    if TYPE_CHECKING:  # a call of nn.Module takes and returns Any
        __call__ = forward

    def attend_heads(self, inputs: AttentionInputs) -> AttentionOutput:
        """Attend with every head: queries (b, h, q, k), which no scorer has prepared -> (b, h, q, ...)."""
        if self.heads_are_parameter_free and inputs.history is None:
            rows = self.fold_heads(inputs)
            return self.unfold_heads(
                self.heads[0](
                    rows.queries, rows.memory, rows.allowed_mask, rows.steps, None, rows.need_weights, rows.dropout_mask
                )
            )
        nothing = [None] * len(self.heads)
        parts = zip(
            self.heads,
            inputs.queries.unbind(1),
            self._memories_of_heads(inputs.memory),
            nothing if inputs.history is None else _histories_of_heads(inputs.history),
            nothing if inputs.dropout_mask is None else inputs.dropout_mask.unbind(1),
            strict=True,
        )
        outputs = [
            head(queries, memory, inputs.allowed_mask, inputs.steps, history, inputs.need_weights, dropout_mask)
            for head, queries, memory, history, dropout_mask in parts
        ]
        return AttentionOutput._make(_stack_heads(outputs))

    def fold_heads(self, inputs: AttentionInputs) -> AttentionInputs:
        """Fold the heads of keys and values, g of them, into the batch axis; queries or memory may be one row for all.

        The queries of heads that share keys become queries of one row: (b, h, q, ...) -> (b * g, h / g * q, ...).
        """
        memory = inputs.memory
        if self.group_size > 1 and (memory.is_causal or memory.mask.dim() == 3):
            mask = query_mask(memory, inputs.queries.shape[2]).repeat(1, self.group_size, 1)
            memory = memory._replace(mask=mask, is_causal=False, has_padding=True)
        keys, values, memory_mask = memory[:3]
        steps, allowed_mask = inputs.steps, inputs.allowed_mask
        rows = inputs.queries.shape[0] if memory_mask.shape[0] == 1 else memory_mask.shape[0]
        shape = rows, inputs.queries.shape[2], keys.shape[2]

        def fold(part: Tensor) -> Tensor:
            return part.expand(rows, *part.shape[1:]).flatten(0, 1)

        def fold_queries(part: Tensor) -> Tensor:
            if self.group_size == 1:  # which ONNX would take for a sequence of fixed length
                return fold(part)
            groups: Tensor = part.unflatten(1, (self.kv_heads, self.group_size))  # type: ignore[no-untyped-call]
            return fold(groups.flatten(2, 3))

        def repeat(part: Tensor) -> Tensor:
            return fold(part[:, None].expand(-1, self.kv_heads, *part.shape[1:]))

        def repeat_queries(part: Tensor) -> Tensor:
            return repeat(part.repeat(1, self.group_size, *[1] * (part.dim() - 2)) if self.group_size > 1 else part)

        queries, is_prepared = fold_queries(inputs.queries), inputs.prepared_queries is not inputs.queries
        return inputs._replace(
            queries=queries,
            prepared_queries=fold_queries(inputs.prepared_queries) if is_prepared else queries,
            memory=memory._replace(keys=fold(keys), values=fold(values), mask=repeat(memory_mask)),
            steps=steps.repeat(self.group_size) if steps.dim() == 1 else repeat_queries(steps.expand(rows, -1)),
            allowed_mask=None if allowed_mask is None else repeat_queries(allowed_mask.expand(shape)),
            dropout_mask=None if inputs.dropout_mask is None else fold_queries(inputs.dropout_mask),
        )

    def unfold_heads(self, output: AttentionOutput) -> AttentionOutput:
        """(b * g, h / g * q, ...) -> (b, h, q, ...)."""

        def unfold(part: Tensor) -> Tensor:
            unfolded: Tensor = part.unflatten(0, (-1, self.kv_heads))  # type: ignore[no-untyped-call]
            if self.group_size > 1:
                unfolded = unfolded.unflatten(2, (self.group_size, -1)).flatten(1, 2)  # type: ignore[no-untyped-call]
            return unfolded

        return AttentionOutput._make(None if part is None else unfold(part) for part in output)

    def _memories_of_heads(self, memory: Memory) -> list[Memory]:
        """Keys and values (b, g, m, ...) -> (b, m, ...) of each of the h heads."""
        # To select one head after another would fill a gradient of all heads with zeros for each.
        pairs = zip(memory.keys.unbind(1), memory.values.unbind(1), strict=True)
        memories = (memory._replace(keys=keys, values=values) for keys, values in pairs)
        if self.key_sizes:
            sized = zip(memories, self.key_sizes, strict=True)
            return [memory._replace(keys=memory.keys[..., :size]) for memory, size in sized]
        return [memory for memory in memories for _ in range(self.group_size)]


def _split_heads(states: Tensor, projection: nn.Linear, heads: int) -> Tensor:
    """(b, m, ...) -> (b, h, m, k), projected."""
    # Shapes in full: a memory may be empty, and a traced one of any length.
    shape = states.shape[0], states.shape[1], heads, projection.out_features // heads
    projected: Tensor = projection(states)
    return projected.view(shape).transpose(1, 2)


def _rotate(vectors: Tensor, rotation: Tensor | None) -> Tensor:
    """(b, h, m, k), rotated by their positions if there is a rotation."""
    return vectors if rotation is None else apply_rope(vectors, rotation[:, :, None])


def _histories_of_heads(history: AttentionHistory) -> list[AttentionHistory]:
    """(b, h, ...) -> (b, ...) of each head."""
    nothing = [None] * history.previous.shape[1]
    fields = [nothing if field is None else field.unbind(1) for field in history]
    return [AttentionHistory._make(fields_of_head) for fields_of_head in zip(*fields, strict=True)]


def _stack_heads(heads: Iterable[Sequence[Tensor | None]]) -> list[Tensor | None]:
    """The fields of each head, (b, ...) or None -> of all, (b, h, ...) or None."""
    return [None if parts[0] is None else torch.stack(parts, dim=1) for parts in zip(*heads, strict=True)]
