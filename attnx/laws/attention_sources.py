"""The laws of attention over memories of several sources, and over one that grows."""

from __future__ import annotations

import torch

from attnx.attention import AttentionHistory
from attnx.attention.memory import concat_sources, hide_future
from attnx.laws.attention import PRESENT, M, Parts, composed, drawn, field_of, read_before, require_same_read
from attnx.laws.violation import require, require_close


def several_sources_share_a_row_of_weights(parts: Parts) -> None:
    """Each source is scored and bounded as if it were alone; one row of weights is shared among all."""
    attention, (queries, states, values) = composed(parts), drawn()
    past = read_before(states, PRESENT)
    cuts = (slice(0, 3), slice(3, M))
    memories = [attention.make_memory(states[:, cut], PRESENT[:, cut], values[:, cut]) for cut in cuts]
    pasts = [AttentionHistory(past.previous[:, cut], past.cumulative[:, cut]) for cut in cuts]
    both = concat_sources(*memories)
    require(both.lengths == (3, 4), "", f"the sources' lengths are {both.lengths}")
    found = attention(queries, both, history=past, need_weights=True)
    alone = [
        attention(queries, memory, history=known, need_weights=True).scores
        for memory, known in zip(memories, pasts, strict=True)
    ]
    require_close(found.scores, torch.cat(alone, -1), "", "a source scores otherwise beside another")
    fields = [field_of(attention, queries, memory.present) for memory in memories]
    gain = torch.cat([field.gain.expand_as(field.allowed) for field in fields if field.gain is not None], -1)
    weights = attention.normalizer(found.scores, torch.cat([field.allowed for field in fields], -1)) * gain
    require_close(found.weights, weights, "", "weights are not shared among the sources")
    require_close(found.context, weights @ both.values, "", "the context is not that of all sources")


def a_memory_that_grows(parts: Parts) -> None:
    """A query that finds the first n positions reads what a memory of n positions gives: all at once, as in a loop."""
    attention, (queries, states, values) = composed(parts), drawn()
    first = torch.tensor([2, 4, 5])
    past = read_before(states, PRESENT & (torch.arange(M) < 2))  # what is not there yet was not read
    memory = hide_future(attention.make_memory(states, PRESENT, values), first)
    found = attention(queries, memory, history=past, need_weights=True)
    for step, count in enumerate(first.tolist()):
        short = attention.make_memory(states[:, :count], PRESENT[:, :count], values[:, :count])
        known = AttentionHistory(past.previous[:, :count], past.cumulative[:, :count])
        pick = slice(step, step + 1)
        one = attention(queries[:, pick], short, steps=torch.tensor([step]), history=known, need_weights=True)
        expected = found._replace(context=found.context[:, pick])
        require_same_read(one, expected, (slice(None), pick, slice(0, count)), "in a memory that grows")
        require((found.weights[:, step, count:] == 0).all(), "", "a position that is not there yet weighs something")


LAWS = (several_sources_share_a_row_of_weights, a_memory_that_grows)
