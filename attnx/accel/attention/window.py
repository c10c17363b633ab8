"""The kernel ``window``."""

from __future__ import annotations

import functools
from typing import cast

import torch
from torch import Tensor

from attnx.accel.attention.checkpointed import attend_in_chunks, pairs_per_chunk
from attnx.accel.attention.kernels import Kernel, has_hooks
from attnx.attention.attention import Attention
from attnx.attention.inputs import query_mask
from attnx.attention.scopes.local import Local
from attnx.attention.scorers.additive import Additive
from attnx.attention.types import AttentionInputs, AttentionOutput, Memory, ScopeMask

# Minimum ratio of the memory's length to its windows'. Scores by one matrix product, or by a kernel, are so fast that
# about 30 windows are scored while one is gathered; scores with hidden units and no kernel of their own take more time.
MIN_LENGTH_RATIO, MIN_LENGTH_RATIO_OF_HIDDEN = 32, 4
# Keys' numbers below which gathering, some 30 small operations, costs more than it saves.
MIN_NUMBERS_TO_GATHER = 2**18


class WindowKernel(Kernel):
    """A local scope's window alone: its keys and values are gathered, and no other position is read.

    Formula: ``context(q) = sum_n normalize(score(q, n) over the window)(n) value(n), n within the window of q``
    Source: Luong et al. 2015, section 3.2 (what local attention is for), https://arxiv.org/abs/1508.04025

    Each query becomes a row whose memory is its window; the definition attends to it with any scorer and normalizer.
    Time and memory grow with the window, not with the memory's length. Calls that request weights, which need scores
    outside the window too, are left to the definition.

    >>> from attnx import accel
    >>> from attnx.attention import build
    >>> attention = accel.enable(build(scorer="additive", scope="local", query_size=13, memory_size=26))
    >>> attention(torch.ones(2, 3, 13), attention.make_memory(torch.ones(2, 97, 26))).context.shape
    torch.Size([2, 3, 26])
    """

    name, scopes = "window", (Local,)
    supports_softcap = True

    def supports(self, attention: Attention, inputs: AttentionInputs) -> bool:
        """Whether the memory is long compared with the windows, only the context is needed, and pairs have scores.

        Queries of global tokens read everything. Scores that depend on the order of the memory would be those of a
        window's positions, counted from its start.
        """
        if inputs.history is not None or inputs.need_weights or getattr(attention.scorer, "is_positional", False):
            return False
        scope = cast("Local", attention.scope)
        if scope.global_tokens or has_hooks(scope):
            return False
        positions, width = inputs.memory.keys.shape[-2:]
        has_slow_scores = getattr(attention.scorer, "hidden_size", 0) and not isinstance(attention.scorer, Additive)
        times = MIN_LENGTH_RATIO_OF_HIDDEN if has_slow_scores else MIN_LENGTH_RATIO
        long = positions >= times * _size(attention, inputs)
        return long and inputs.prepared_queries.shape[:2].numel() * positions * width >= MIN_NUMBERS_TO_GATHER

    def __call__(self, attention: Attention, inputs: AttentionInputs) -> AttentionOutput:
        """Attend to the windows, in chunks where hidden layers are too large for one."""
        attend = functools.partial(_attend_to_windows, attention)
        max_queries = pairs_per_chunk(attention, inputs) // _size(attention, inputs)
        has_hidden_units = getattr(attention.scorer, "hidden_size", 0)
        if has_hidden_units and inputs.prepared_queries.shape[:2].numel() > max_queries:
            return attend_in_chunks(attend, inputs, max_queries)
        return attend(inputs)


def _size(attention: Attention, inputs: AttentionInputs) -> int:
    """How many positions a query's windows have together, with the sinks."""
    scope = cast("Local", attention.scope)
    return (2 * scope.window + 1 + scope.sinks) * len(inputs.memory.source_sizes)


def _attend_to_windows(attention: Attention, inputs: AttentionInputs) -> AttentionOutput:
    index, windows = _window_indices(cast("Local", attention.scope), inputs)
    keys, values = (_gather_rows(part, index) for part in (inputs.memory.keys, inputs.memory.values))
    scope_mask = ScopeMask(
        _queries_to_batch(windows.allowed_mask), None if windows.gain is None else _queries_to_batch(windows.gain)
    )
    rows = inputs._replace(
        queries=_queries_to_batch(inputs.queries),
        prepared_queries=_queries_to_batch(inputs.prepared_queries),
        memory=Memory(keys, values, scope_mask.allowed_mask, (index.shape[-1],)),
        dropout_mask=None if inputs.dropout_mask is None else _queries_to_batch(inputs.dropout_mask.gather(-1, index)),
    )
    read = attention.attend_with_scores(rows, attention.score(rows), scope_mask)
    return AttentionOutput(read.context.view(*index.shape[:2], -1))


def _window_indices(scope: Local, inputs: AttentionInputs) -> tuple[Tensor, ScopeMask]:
    """The positions (b, q, n) in each query's windows, one in each source after its sinks, and their mask."""
    memory, queries, positions = inputs.memory, inputs.queries.shape[1], inputs.memory.keys.shape[-2]
    # Of one causal source no mask of pairs is made: each query's own place says what there is.
    is_causal = memory.is_causal and len(memory.source_sizes) == 1 and memory.mask.dim() == 2
    own = torch.arange(positions - queries, positions, device=memory.mask.device)[:, None]
    memory_mask = memory.mask[:, None] if is_causal else query_mask(memory, queries)
    windows_by_source, start = [], 0
    for source in torch.split(memory_mask, list(memory.source_sizes), dim=-1):
        length = source[:, 0].cumsum(-1)[:, -queries:] if is_causal else source.sum(-1)
        nearest, predicted = scope.window_centers(inputs.queries, inputs.steps, length)
        size, reach = source.shape[-1], torch.arange(-scope.window, scope.window + 1, device=nearest.device)
        window = nearest[..., None] + scope.dilation * (reach if size else reach[:0])
        sinks = torch.arange(min(scope.sinks, size), device=nearest.device).expand(*nearest.shape, -1)
        # What lies beyond an end is read nowhere, and a sink once.
        is_real = torch.cat([sinks >= 0, (window >= scope.sinks) & (window < size)], -1)
        position = torch.cat([sinks, window.clamp(0, size - 1)], -1)
        is_in_source = source.expand(-1, nearest.shape[1], -1).gather(-1, position) & is_real
        is_in_source = is_in_source & (position <= own) if is_causal else is_in_source
        windows_by_source.append((position + start, scope.window_mask(nearest, predicted, position, is_in_source)))
        start += source.shape[-1]
    index = torch.cat([position for position, _ in windows_by_source], -1)
    allowed_mask = torch.cat([scope_mask.allowed_mask for _, scope_mask in windows_by_source], -1)
    if inputs.allowed_mask is not None:
        allowed_mask = allowed_mask & inputs.allowed_mask.expand(*index.shape[:2], start).gather(-1, index)
    gains = [scope_mask.gain for _, scope_mask in windows_by_source if scope_mask.gain is not None]
    return index, ScopeMask(allowed_mask, torch.cat(gains, -1) if gains else None)


def _gather_rows(part: Tensor, index: Tensor) -> Tensor:
    """(b, m, d) and positions (b, q, n) -> (b * q, n, d)."""
    starts = part.shape[1] * torch.arange(len(part), device=index.device)
    # Whole rows by one index: torch adds their gradients up twice as fast as those of `gather`.
    rows = part.flatten(0, 1).index_select(0, (index + starts[:, None, None]).flatten())
    return rows.view(index.shape[:2].numel(), index.shape[-1], part.shape[-1])


def _queries_to_batch(part: Tensor) -> Tensor:
    """(b, q, d) -> (b * q, 1, d)."""
    return part.flatten(0, 1)[:, None]
