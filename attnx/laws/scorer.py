"""The laws of every scorer."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from attnx.attention import AttentionHistory
from attnx.laws.candidate import Candidate
from attnx.laws.declarations import require_declarations, require_methods
from attnx.laws.gradients import require_gradients, require_used
from attnx.laws.violation import Violation, require, require_close, require_finite, require_tensor

QUERY, MEMORY = 5, 11


def built(scorer: Candidate, query_size: int = QUERY) -> tuple[Any, int]:
    """A scorer for memories of width 11, and its queries' width: the same where widths must be equal."""
    query_size = MEMORY if scorer.property_value("requires_equal_dims") else query_size
    return scorer.build(query_size=query_size, memory_size=MEMORY), query_size


def drawn(scorer: Candidate, leading: tuple[int, ...] = (2,), positions: int = 7) -> tuple[Any, Tensor, Tensor]:
    """A scorer, three random queries and a random memory."""
    part, query_size = built(scorer)
    return part, torch.randn(*leading, 3, query_size), torch.randn(*leading, positions, MEMORY)


def read_before(memory: Tensor) -> AttentionHistory:
    """A random past: each row and position has its own."""
    return AttentionHistory(*torch.rand(2, *memory.shape[:-1]))


def score(part: Any, queries: Tensor, memory: Tensor, past: AttentionHistory | None = None) -> Tensor:
    """The scores (..., q, m); without a past a scorer that looks back sees a memory that was never read."""
    keys = require_tensor(part.project_keys(memory), "project_keys", (*memory.shape[:-1], None))
    asked = require_tensor(part.project_queries(queries), "project_queries", (*queries.shape[:-1], None))
    nothing = keys.new_zeros(keys.shape[:-1])
    known = (past or AttentionHistory(nothing, nothing),) if getattr(part, "needs_history", False) else ()
    shape = (*queries.shape[:-1], memory.shape[-2])
    return require_tensor(part.score(asked, keys, *known), "score", shape)


def declarations(scorer: Candidate) -> None:
    """A scorer is an nn.Module with project_keys, project_queries and score, and declares ``requires_equal_dims``."""
    part = scorer.build(query_size=MEMORY, memory_size=MEMORY)
    require_declarations(scorer, part)
    require_methods(part, ("project_keys", "project_queries", "score"))
    past = scorer.property_value("needs_history", False)
    require(
        getattr(part, "needs_history", False) is past, "needs_history", f"its source declares {past!r}, the object not"
    )


def shapes(scorer: Candidate) -> None:
    """Scores have the shape (..., q, m): one for each pair of a query and a memory position."""
    score(*drawn(scorer))


def any_leading_axes(scorer: Candidate) -> None:
    """Any leading axes pass through: none, a batch, a batch and heads; with a past there is a batch alone."""
    for leading in [(2,)] if scorer.property_value("needs_history") else [(), (2,), (2, 13)]:
        score(*drawn(scorer, leading))


def rows_are_independent(scorer: Candidate) -> None:
    """A row of a batch scores what it scores alone."""
    _alone(scorer, (4,))


def leading_axes_are_independent(scorer: Candidate) -> None:
    """A pair scores what it scores alone, wherever it stands among the leading axes."""
    _alone(scorer, (26,) if scorer.property_value("needs_history") else (2, 13))


def _alone(scorer: Candidate, leading: tuple[int, ...]) -> None:
    part, queries, memory = drawn(scorer, leading)
    past = read_before(memory)
    together = score(part, queries, memory, past)
    for place in itertools.product(*map(range, leading)):
        pick: Any = (*place[:-1], slice(place[-1], place[-1] + 1))
        alone = score(part, queries[pick], memory[pick], AttentionHistory(past.previous[pick], past.cumulative[pick]))
        require_close(together[pick], alone, "score", f"row {place[-1]} scores otherwise beside other rows")


def pairs_are_independent(scorer: Candidate) -> None:
    """The score of a pair is a function of its query and its memory position alone, and of how that was read."""
    part, queries, memory = drawn(scorer)
    together = score(part, queries, memory)
    for step, position in itertools.product(range(3), range(7)):
        alone = score(part, queries[:, step : step + 1], memory[:, position : position + 1])
        require_close(
            together[:, step, position], alone[:, 0, 0], "score", "a pair scores otherwise beside other pairs"
        )


def permuting_the_memory_permutes_the_scores(scorer: Candidate) -> None:
    """Permuting the memory permutes the scores."""
    part, queries, memory = drawn(scorer)
    order = torch.tensor([4, 0, 6, 2, 5, 1, 3])
    permuted, straight = score(part, queries, memory[:, order]), score(part, queries, memory)
    require_close(permuted, straight[..., order], "score", "scores depend on the order of the memory")


def the_memory_matters(scorer: Candidate) -> None:
    """Unlike memory positions score unlike."""
    scores = score(*drawn(scorer))
    require((scores.amax(-1) - scores.amin(-1)).min() > 1e-6, "score", "a query scores all positions alike")


def gradients(scorer: Candidate) -> None:
    """Gradients of queries, memory, past and every parameter agree with finite differences."""
    part, queries, memory = drawn(scorer, positions=5)
    require_gradients(
        lambda queries, memory, last, total: score(part, queries, memory, AttentionHistory(last, total)),
        (queries, memory, *read_before(memory)),
        part,
        "score",
    )


def every_parameter_is_used(scorer: Candidate) -> None:
    """Every parameter has a gradient."""
    part, queries, memory = drawn(scorer)
    score(part, queries, memory.requires_grad_()).pow(2).sum().backward()  # type: ignore[no-untyped-call]
    require_used(part)


def the_past_is_read_where_declared(scorer: Candidate) -> None:
    """A scorer that declares ``needs_history`` scores by what was read; another takes no past."""
    part, queries, memory = drawn(scorer)
    past = read_before(memory)
    if scorer.property_value("needs_history"):
        alike = torch.allclose(score(part, queries, memory, past), score(part, queries, memory))
        require(not alike, "score", "scores do not depend on the past that it declares to need")
        return
    try:
        part.score(part.project_queries(queries), part.project_keys(memory), past)
    except TypeError:
        return
    raise Violation("score", "it takes a past, and does not declare needs_history = True")


def positions_without_a_past_change_nothing(scorer: Candidate) -> None:
    """A memory that goes on with positions that were never read scores as before where it was."""
    part, queries, memory = drawn(scorer)
    last, total = read_before(memory[:, :5])
    nothing = torch.zeros(2, 2)
    longer = score(
        part, queries, memory, AttentionHistory(torch.cat([last, nothing], 1), torch.cat([total, nothing], 1))
    )
    shorter = score(part, queries, memory[:, :5], AttentionHistory(last, total))
    require_close(longer[..., :5], shorter, "score", "further positions change the scores of the first")


def a_memory_of_no_positions(scorer: Candidate) -> None:
    """A memory of no positions has no scores: so a history begins."""
    score(*drawn(scorer, positions=0))


def a_penalty_is_a_share_of_the_loss(scorer: Candidate) -> None:
    """A penalty is (b, q), never negative, and 0 where nothing was read before."""
    part, _ = built(scorer)
    if not hasattr(part, "penalty"):
        return
    weights, past = torch.rand(2, 3, 7), AttentionHistory(*torch.rand(2, 2, 7))
    penalty = require_tensor(part.penalty(weights, past), "penalty", (2, 3))
    require((penalty >= 0).all(), "penalty", f"it returned {penalty.min().item():.3g}")
    first = part.penalty(weights, AttentionHistory(*torch.zeros(2, 2, 7)))
    require((first == 0).all(), "penalty", f"it returned {first.max().item():.3g} where nothing was read before")


def numbers_are_finite(scorer: Candidate) -> None:
    """Scores and their gradients are finite, those of zeros too: what is absent is remembered as zeros."""
    part, queries, memory = drawn(scorer)
    for given in ((queries, memory), (torch.zeros_like(queries), torch.zeros_like(memory))):
        leaves = [tensor.clone().requires_grad_() for tensor in given]
        scores = score(part, leaves[0], leaves[1])
        of = "of random numbers" if given[1] is memory else "of zeros"
        require_finite(scores, "score", f"scores {of}")
        if scores.requires_grad:
            scores.sum().backward()  # type: ignore[no-untyped-call]
        for name, leaf in zip(("queries", "memory"), leaves, strict=True):
            require_finite(leaf.grad, "score", f"gradients of the {name} {of}")
        for name, weight in part.named_parameters():
            require_finite(weight.grad, "score", f"gradients of the parameter {name} {of}")


def bfloat16(scorer: Candidate) -> None:
    """Scores of bfloat16 are bfloat16, and finite; so are gradients."""
    part, queries, memory = drawn(scorer)
    part.to(torch.bfloat16)
    queries, memory = (tensor.to(torch.bfloat16).requires_grad_() for tensor in (queries, memory))
    scores = score(part, queries, memory)
    scores.sum().backward()  # type: ignore[no-untyped-call]
    require(scores.dtype == torch.bfloat16, "score", f"scores of bfloat16 are {scores.dtype}")
    require_finite(scores, "score", "scores of bfloat16")
    require_finite(memory.grad, "score", "gradients of bfloat16")


def equal_widths_is_true(scorer: Candidate) -> None:
    """A scorer that declares equal widths cannot compare unlike ones; one that does not can, and equal ones too."""
    if not scorer.property_value("requires_equal_dims"):
        for query_size in (QUERY, MEMORY):
            part, _ = built(scorer, query_size)
            score(part, torch.randn(2, 3, query_size), torch.randn(2, 7, MEMORY))
        return
    part, _ = built(scorer)
    try:
        score(part, torch.randn(2, 3, MEMORY + 2), torch.randn(2, 7, MEMORY))
    except (RuntimeError, Violation):
        return
    raise Violation("requires_equal_dims", "it declares requires_equal_dims = True, and compares unlike widths")


QUICK = (declarations, shapes, numbers_are_finite, rows_are_independent)
LAWS = (
    *QUICK,
    any_leading_axes,
    leading_axes_are_independent,
    pairs_are_independent,
    permuting_the_memory_permutes_the_scores,
    the_memory_matters,
    gradients,
    every_parameter_is_used,
    the_past_is_read_where_declared,
    positions_without_a_past_change_nothing,
    a_memory_of_no_positions,
    a_penalty_is_a_share_of_the_loss,
    bfloat16,
    equal_widths_is_true,
)
