"""Laws of every scorer: what any of them must do, whatever it computes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnx import registry
from attnx.attention import Past

pytestmark = pytest.mark.usefixtures("float64")
Choice = tuple[str, dict[str, Any]]


def make(choice: Choice, query_size: int = 5, memory_size: int = 11) -> tuple[Any, int, int]:
    """A scorer and its two widths; the query's becomes the memory's where they must be equal."""
    if registry.part("scorer", choice[0]).declares["equal_widths"]:
        query_size = memory_size
    scorer = registry.build("scorer", choice, query_size=query_size, memory_size=memory_size)
    return scorer, query_size, memory_size


def looks_back(choice: Choice) -> bool:
    return bool(registry.part("scorer", choice[0]).declares.get("needs_past", False))


def read_before(memory: Tensor) -> Past:
    """Some past, of which every row and position has its own."""
    return Past(*torch.rand(2, *memory.shape[:-1]))


def score(scorer: Any, queries: Tensor, memory: Tensor, past: Past | None = None) -> Tensor:
    """The scores; a memory that was never read is what a scorer that looks back sees if nothing is said."""
    keys = scorer.keys(memory)
    if not getattr(scorer, "needs_past", False):
        return scorer.compare(scorer.queries(queries), keys)
    nothing = keys.new_zeros(keys.shape[:-1])
    return scorer.compare(scorer.queries(queries), keys, past or Past(nothing, nothing))


@pytest.mark.parametrize("leading", [(), (2,), (2, 13)], ids=["alone", "batch", "batch and heads"])
def test_shape(each_scorer: Choice, leading: tuple[int, ...]) -> None:
    """Any leading axes, then (q, m); one that looks back is asked with the batch's alone."""
    if looks_back(each_scorer):
        leading = (2,)
    scorer, query_size, memory_size = make(each_scorer)
    scores = score(scorer, torch.randn(*leading, 3, query_size), torch.randn(*leading, 7, memory_size))
    assert scores.shape == (*leading, 3, 7)


def test_leading_axes_are_independent(each_scorer: Choice) -> None:
    """A pair scores what it scores alone, wherever it stands among the leading axes."""
    scorer, query_size, memory_size = make(each_scorer)
    leading = (26,) if looks_back(each_scorer) else (2, 13)
    queries, memory = torch.randn(*leading, 3, query_size), torch.randn(*leading, 7, memory_size)
    past = read_before(memory)
    together = score(scorer, queries, memory, past)
    for place in itertools.product(*map(range, leading)):
        pick = (*place[:-1], slice(place[-1], place[-1] + 1))
        own = Past(past.last[pick], past.total[pick])
        torch.testing.assert_close(together[pick], score(scorer, queries[pick], memory[pick], own))


def test_pairs_are_independent(each_scorer: Choice) -> None:
    """The score of a pair is a function of its query and its memory position alone, and of how that was read."""
    scorer, query_size, memory_size = make(each_scorer)
    queries, memory = torch.randn(2, 3, query_size), torch.randn(2, 7, memory_size)
    together = score(scorer, queries, memory)
    for step in range(3):
        for position in range(7):
            alone = score(scorer, queries[:, step : step + 1], memory[:, position : position + 1])
            torch.testing.assert_close(together[:, step, position], alone[:, 0, 0])


def test_permuting_the_memory_permutes_the_scores(each_scorer: Choice) -> None:
    scorer, query_size, memory_size = make(each_scorer)
    queries, memory = torch.randn(2, 3, query_size), torch.randn(2, 7, memory_size)
    order = torch.tensor([4, 0, 6, 2, 5, 1, 3])
    torch.testing.assert_close(score(scorer, queries, memory[:, order]), score(scorer, queries, memory)[..., order])


def test_the_memory_matters(each_scorer: Choice) -> None:
    """Unlike memory positions score unlike: a scorer that is constant would leave nothing to choose."""
    scorer, query_size, memory_size = make(each_scorer)
    scores = score(scorer, torch.randn(2, 3, query_size), torch.randn(2, 7, memory_size))
    assert (scores.amax(-1) - scores.amin(-1)).min() > 1e-6


def test_gradients(each_scorer: Choice) -> None:
    """Gradients of queries, memory, past and every parameter agree with finite differences."""
    scorer, query_size, memory_size = make(each_scorer)
    given = [
        torch.randn(2, 3, query_size),
        torch.randn(2, 5, memory_size),
        *read_before(torch.empty(2, 5, memory_size)),
    ]
    parameters = [parameter for parameter in scorer.parameters() if parameter.requires_grad]
    assert torch.autograd.gradcheck(
        lambda queries, memory, last, total, *_: score(scorer, queries, memory, Past(last, total)),
        (*(tensor.requires_grad_() for tensor in given), *parameters),
        fast_mode=True,
    )


def test_every_parameter_is_used(each_scorer: Choice) -> None:
    scorer, query_size, memory_size = make(each_scorer)
    memory = torch.randn(2, 7, memory_size, requires_grad=True)
    score(scorer, torch.randn(2, 3, query_size), memory).pow(2).sum().backward()
    unused = [name for name, value in scorer.named_parameters() if value.requires_grad and value.grad is None]
    assert not unused


def test_needs_past_is_true(each_scorer: Choice) -> None:
    """One that declares it scores by what was read; another takes no past at all."""
    scorer, query_size, memory_size = make(each_scorer)
    queries, memory = torch.randn(2, 3, query_size), torch.randn(2, 7, memory_size)
    past = read_before(memory)
    if looks_back(each_scorer):
        assert not torch.allclose(score(scorer, queries, memory, past), score(scorer, queries, memory))
    else:
        with pytest.raises(TypeError):
            scorer.compare(scorer.queries(queries), scorer.keys(memory), past)


def test_what_was_not_there_changes_nothing(each_scorer: Choice) -> None:
    """A memory that goes on, with positions that were never read, scores as before where it was."""
    scorer, query_size, memory_size = make(each_scorer)
    queries, memory = torch.randn(2, 3, query_size), torch.randn(2, 7, memory_size)
    last, total = read_before(memory[:, :5])
    nothing = torch.zeros(2, 2)
    longer = score(scorer, queries, memory, Past(torch.cat([last, nothing], 1), torch.cat([total, nothing], 1)))
    torch.testing.assert_close(longer[..., :5], score(scorer, queries, memory[:, :5], Past(last, total)))


def test_a_memory_of_no_positions(each_scorer: Choice) -> None:
    """So a history begins."""
    scorer, query_size, memory_size = make(each_scorer)
    assert score(scorer, torch.randn(2, 3, query_size), torch.randn(2, 0, memory_size)).shape == (2, 3, 0)


def test_a_penalty_is_a_share_of_the_loss(each_scorer: Choice) -> None:
    """(b, q), never negative, and 0 where nothing was read before."""
    scorer, *_ = make(each_scorer)
    if hasattr(scorer, "penalty"):
        weights, past = torch.rand(2, 3, 7), Past(*torch.rand(2, 2, 7))
        assert scorer.penalty(weights, past).shape == (2, 3)
        assert (scorer.penalty(weights, past) >= 0).all()
        assert (scorer.penalty(weights, Past(*torch.zeros(2, 2, 7))) == 0).all()


def test_zeros_are_safe(each_scorer: Choice) -> None:
    """What is absent is remembered as zeros: scores and gradients there are finite."""
    scorer, query_size, memory_size = make(each_scorer)
    queries = torch.zeros(2, 3, query_size, requires_grad=True)
    memory = torch.zeros(2, 7, memory_size, requires_grad=True)
    scores = score(scorer, queries, memory)
    scores.sum().backward()
    assert scores.isfinite().all()
    assert queries.grad.isfinite().all()
    assert memory.grad.isfinite().all()


def test_bfloat16(each_scorer: Choice) -> None:
    scorer, query_size, memory_size = make(each_scorer)
    scorer.to(torch.bfloat16)
    queries = torch.randn(2, 3, query_size, dtype=torch.bfloat16, requires_grad=True)
    memory = torch.randn(2, 7, memory_size, dtype=torch.bfloat16, requires_grad=True)
    scores = score(scorer, queries, memory)
    scores.sum().backward()
    assert scores.dtype == torch.bfloat16
    assert scores.isfinite().all()
    assert memory.grad.isfinite().all()


def test_equal_widths_is_true(each_scorer: Choice) -> None:
    """A scorer that declares equal widths cannot compare unlike ones; one that does not can, and equal ones too."""
    if registry.part("scorer", each_scorer[0]).declares["equal_widths"]:
        scorer, _, memory_size = make(each_scorer)
        with pytest.raises(RuntimeError):
            score(scorer, torch.randn(2, 3, memory_size + 2), torch.randn(2, 7, memory_size))
    else:
        for query_size in (5, 11):
            scorer, *_ = make(each_scorer, query_size)
            assert score(scorer, torch.randn(2, 3, query_size), torch.randn(2, 7, 11)).shape == (2, 3, 7)


def test_the_class_and_its_source_declare_the_same(each_scorer: Choice) -> None:
    """What is read from the source before torch loads is what the class says."""
    scorer, *_ = make(each_scorer)
    declared = registry.part("scorer", each_scorer[0]).declares
    assert scorer.equal_widths is declared["equal_widths"]
    assert getattr(scorer, "needs_past", False) is looks_back(each_scorer)
    assert isinstance(scorer, nn.Module)
