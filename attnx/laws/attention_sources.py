"""The laws of attention over several sources, and over a growing memory."""

from __future__ import annotations

import torch

from attnx.attention import AttentionHistory
from attnx.attention.memory import concat_sources, hide_future
from attnx.laws.attention import (
    MEMORY_MASK,
    M,
    Parts,
    compose,
    example_history,
    random_inputs,
    require_same_output,
    scope_mask,
)
from attnx.laws.violation import require, require_close


def sources_share_one_normalization(parts: Parts) -> None:
    """Each source is scored and masked on its own; weights are normalized over all sources together."""
    attention, (queries, states, values) = compose(parts), random_inputs()
    history = example_history(states, MEMORY_MASK)
    cuts = (slice(0, 3), slice(3, M))
    memories = [attention.make_memory(states[:, cut], MEMORY_MASK[:, cut], values[:, cut]) for cut in cuts]
    histories = [AttentionHistory(history.previous[:, cut], history.cumulative[:, cut]) for cut in cuts]
    both = concat_sources(*memories)
    require(both.lengths == (3, 4), "", f"the sources' lengths are {both.lengths}")
    output = attention(queries, both, history=history, need_weights=True)
    alone = [
        attention(queries, memory, history=source_history, need_weights=True).scores
        for memory, source_history in zip(memories, histories, strict=True)
    ]
    require_close(output.scores, torch.cat(alone, -1), "", "a source has other scores next to another")
    masks = [scope_mask(attention, queries, memory.mask) for memory in memories]
    gain = torch.cat([mask.gain.expand_as(mask.allowed_mask) for mask in masks if mask.gain is not None], -1)
    weights = attention.normalizer(output.scores, torch.cat([mask.allowed_mask for mask in masks], -1)) * gain
    require_close(output.weights, weights, "", "weights are not normalized over all sources")
    require_close(output.context, weights @ both.values, "", "the context is not that of all sources")


def growing_memory_equals_its_prefixes(parts: Parts) -> None:
    """A query that sees the first n positions gives what a memory of n positions gives."""
    attention, (queries, states, values) = compose(parts), random_inputs()
    first = torch.tensor([2, 4, 5])
    history = example_history(states, MEMORY_MASK & (torch.arange(M) < 2))  # later positions have no history
    memory = hide_future(attention.make_memory(states, MEMORY_MASK, values), first)
    output = attention(queries, memory, history=history, need_weights=True)
    for step, count in enumerate(first.tolist()):
        short = attention.make_memory(states[:, :count], MEMORY_MASK[:, :count], values[:, :count])
        prefix_history = AttentionHistory(history.previous[:, :count], history.cumulative[:, :count])
        pick = slice(step, step + 1)
        steps = torch.tensor([step])
        step_output = attention(queries[:, pick], short, steps=steps, history=prefix_history, need_weights=True)
        expected = output._replace(context=output.context[:, pick])
        require_same_output(step_output, expected, (slice(None), pick, slice(0, count)), "in a growing memory")
        require((output.weights[:, step, count:] == 0).all(), "", "a future position has a weight above 0")


LAWS = (sources_share_one_normalization, growing_memory_equals_its_prefixes)
