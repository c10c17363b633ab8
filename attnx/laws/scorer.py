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


def build(scorer: Candidate, query_size: int = QUERY) -> tuple[Any, int]:
    """A scorer for memories of width 11, and the width of its queries: the same if dims must be equal."""
    query_size = MEMORY if scorer.property_value("requires_equal_dims") else query_size
    return scorer.build(query_size=query_size, memory_size=MEMORY), query_size


def random_inputs(scorer: Candidate, leading: tuple[int, ...] = (2,), positions: int = 7) -> tuple[Any, Tensor, Tensor]:
    """A scorer, three random queries and a random memory."""
    part, query_size = build(scorer)
    return part, torch.randn(*leading, 3, query_size), torch.randn(*leading, positions, MEMORY)


def random_history(memory: Tensor) -> AttentionHistory:
    """A random history, different for each row and position."""
    return AttentionHistory(*torch.rand(2, *memory.shape[:-1]))


def score(part: Any, queries: Tensor, memory: Tensor, history: AttentionHistory | None = None) -> Tensor:
    """The scores (..., q, m), checked; without a history it is one of zeros."""
    keys = require_tensor(part.project_keys(memory), "project_keys", (*memory.shape[:-1], None))
    prepared = require_tensor(part.project_queries(queries), "project_queries", (*queries.shape[:-1], None))
    zeros = keys.new_zeros(keys.shape[:-1])
    arguments = (history or AttentionHistory(zeros, zeros),) if getattr(part, "needs_history", False) else ()
    shape = (*queries.shape[:-1], memory.shape[-2])
    return require_tensor(part.score(prepared, keys, *arguments), "score", shape)


def declarations(scorer: Candidate) -> None:
    """A scorer is an nn.Module with project_keys, project_queries and score, and declares ``requires_equal_dims``."""
    part = scorer.build(query_size=MEMORY, memory_size=MEMORY)
    require_declarations(scorer, part)
    require_methods(part, ("project_keys", "project_queries", "score"))
    history = scorer.property_value("needs_history", False)
    require(getattr(part, "needs_history", False) is history, "needs_history", f"its source declares {history!r}")


def shapes(scorer: Candidate) -> None:
    """Scores have the shape (..., q, m): one for each pair of a query and a memory position."""
    score(*random_inputs(scorer))


def any_leading_axes(scorer: Candidate) -> None:
    """Any leading axes are accepted: none, a batch, a batch and heads; with a history a batch alone."""
    for leading in [(2,)] if scorer.property_value("needs_history") else [(), (2,), (2, 13)]:
        score(*random_inputs(scorer, leading))


def rows_are_independent(scorer: Candidate) -> None:
    """The scores of a row do not depend on other rows."""
    _require_independent_rows(scorer, (4,))


def leading_axes_are_independent(scorer: Candidate) -> None:
    """The scores of a row do not depend on other rows of any leading axis."""
    _require_independent_rows(scorer, (26,) if scorer.property_value("needs_history") else (2, 13))


def _require_independent_rows(scorer: Candidate, leading: tuple[int, ...]) -> None:
    part, queries, memory = random_inputs(scorer, leading)
    history = random_history(memory)
    together = score(part, queries, memory, history)
    for index in itertools.product(*map(range, leading)):
        pick: Any = (*index[:-1], slice(index[-1], index[-1] + 1))
        row_history = AttentionHistory(history.previous[pick], history.cumulative[pick])
        alone = score(part, queries[pick], memory[pick], row_history)
        require_close(together[pick], alone, "score", f"row {index[-1]} has other scores in a batch")


def pairs_are_independent(scorer: Candidate) -> None:
    """The score of a pair depends on its query, its memory position and that position's history alone."""
    part, queries, memory = random_inputs(scorer)
    together = score(part, queries, memory)
    for step, position in itertools.product(range(3), range(7)):
        alone = score(part, queries[:, step : step + 1], memory[:, position : position + 1])
        require_close(
            together[:, step, position], alone[:, 0, 0], "score", "a pair has another score next to other pairs"
        )


def permuting_the_memory_permutes_the_scores(scorer: Candidate) -> None:
    """Permuting the memory permutes the scores."""
    part, queries, memory = random_inputs(scorer)
    order = torch.tensor([4, 0, 6, 2, 5, 1, 3])
    permuted, straight = score(part, queries, memory[:, order]), score(part, queries, memory)
    require_close(permuted, straight[..., order], "score", "scores depend on the order of the memory")


def scores_depend_on_the_memory(scorer: Candidate) -> None:
    """Different memory positions have different scores."""
    scores = score(*random_inputs(scorer))
    require((scores.amax(-1) - scores.amin(-1)).min() > 1e-6, "score", "a query has the same score for all positions")


def gradients(scorer: Candidate) -> None:
    """Gradients of queries, memory, history and every parameter agree with finite differences."""
    part, queries, memory = random_inputs(scorer, positions=5)
    require_gradients(
        lambda queries, memory, last, total: score(part, queries, memory, AttentionHistory(last, total)),
        (queries, memory, *random_history(memory)),
        part,
        "score",
    )


def every_parameter_has_a_gradient(scorer: Candidate) -> None:
    """Every parameter has a gradient."""
    part, queries, memory = random_inputs(scorer)
    score(part, queries, memory.requires_grad_()).pow(2).sum().backward()  # type: ignore[no-untyped-call]
    require_used(part)


def history_is_read_if_declared(scorer: Candidate) -> None:
    """The scores of a scorer that declares ``needs_history`` depend on it; other scorers take no history."""
    part, queries, memory = random_inputs(scorer)
    history = random_history(memory)
    if scorer.property_value("needs_history"):
        alike = torch.allclose(score(part, queries, memory, history), score(part, queries, memory))
        require(not alike, "score", "scores do not depend on the history that it declares to need")
        return
    try:
        part.score(part.project_queries(queries), part.project_keys(memory), history)
    except TypeError:
        return
    raise Violation("score", "it takes a history, but does not declare needs_history = True")


def positions_without_history_have_no_effect(scorer: Candidate) -> None:
    """Further positions without a history have no effect on the scores of the first ones."""
    part, queries, memory = random_inputs(scorer)
    last, total = random_history(memory[:, :5])
    zeros = torch.zeros(2, 2)
    longer = score(part, queries, memory, AttentionHistory(torch.cat([last, zeros], 1), torch.cat([total, zeros], 1)))
    shorter = score(part, queries, memory[:, :5], AttentionHistory(last, total))
    require_close(longer[..., :5], shorter, "score", "further positions change the scores of the first")


def empty_memory_gives_no_scores(scorer: Candidate) -> None:
    """A memory of no positions gives no scores, as at the first step of a history."""
    score(*random_inputs(scorer, positions=0))


def penalties_are_valid(scorer: Candidate) -> None:
    """A penalty is (b, q), never negative, and 0 without a history."""
    part, _ = build(scorer)
    if not hasattr(part, "penalty"):
        return
    weights, history = torch.rand(2, 3, 7), AttentionHistory(*torch.rand(2, 2, 7))
    penalty = require_tensor(part.penalty(weights, history), "penalty", (2, 3))
    require((penalty >= 0).all(), "penalty", f"it returned {penalty.min().item():.3g}")
    first = part.penalty(weights, AttentionHistory(*torch.zeros(2, 2, 7)))
    require((first == 0).all(), "penalty", f"it returned {first.max().item():.3g} without a history")


def numbers_are_finite(scorer: Candidate) -> None:
    """Scores and gradients are finite, also those of zeros, which stand for padding."""
    part, queries, memory = random_inputs(scorer)
    for inputs in ((queries, memory), (torch.zeros_like(queries), torch.zeros_like(memory))):
        leaves = [tensor.clone().requires_grad_() for tensor in inputs]
        scores = score(part, leaves[0], leaves[1])
        case = "of random numbers" if inputs[1] is memory else "of zeros"
        require_finite(scores, "score", f"scores {case}")
        if scores.requires_grad:
            scores.sum().backward()  # type: ignore[no-untyped-call]
        for name, leaf in zip(("queries", "memory"), leaves, strict=True):
            require_finite(leaf.grad, "score", f"gradients of the {name} {case}")
        for name, weight in part.named_parameters():
            require_finite(weight.grad, "score", f"gradients of the parameter {name} {case}")


def bfloat16(scorer: Candidate) -> None:
    """Scores and gradients in bfloat16 are finite and bfloat16."""
    part, queries, memory = random_inputs(scorer)
    part.to(torch.bfloat16)
    queries, memory = (tensor.to(torch.bfloat16).requires_grad_() for tensor in (queries, memory))
    scores = score(part, queries, memory)
    scores.sum().backward()  # type: ignore[no-untyped-call]
    require(scores.dtype == torch.bfloat16, "score", f"scores of bfloat16 are {scores.dtype}")
    require_finite(scores, "score", "scores of bfloat16")
    require_finite(memory.grad, "score", "gradients of bfloat16")


def equal_dims_are_required_if_declared(scorer: Candidate) -> None:
    """A scorer that declares equal dims rejects different ones; other scorers accept both."""
    if not scorer.property_value("requires_equal_dims"):
        for query_size in (QUERY, MEMORY):
            part, _ = build(scorer, query_size)
            score(part, torch.randn(2, 3, query_size), torch.randn(2, 7, MEMORY))
        return
    part, _ = build(scorer)
    try:
        score(part, torch.randn(2, 3, MEMORY + 2), torch.randn(2, 7, MEMORY))
    except (RuntimeError, Violation):
        return
    raise Violation("requires_equal_dims", "it declares requires_equal_dims = True, but accepts different widths")


QUICK = (declarations, shapes, numbers_are_finite, rows_are_independent)
LAWS = (
    *QUICK,
    any_leading_axes,
    leading_axes_are_independent,
    pairs_are_independent,
    permuting_the_memory_permutes_the_scores,
    scores_depend_on_the_memory,
    gradients,
    every_parameter_has_a_gradient,
    history_is_read_if_declared,
    positions_without_history_have_no_effect,
    empty_memory_gives_no_scores,
    penalties_are_valid,
    bfloat16,
    equal_dims_are_required_if_declared,
)
