"""Laws of every scorer: what any of them must do, whatever it computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnx import registry

pytestmark = pytest.mark.usefixtures("float64")
Choice = tuple[str, dict[str, Any]]


def make(choice: Choice, query_size: int = 5, memory_size: int = 11) -> tuple[Any, int, int]:
    """A scorer and its two widths; the query's becomes the memory's where they must be equal."""
    if registry.part("scorer", choice[0]).declares["equal_widths"]:
        query_size = memory_size
    scorer = registry.build("scorer", choice, query_size=query_size, memory_size=memory_size)
    return scorer, query_size, memory_size


def score(scorer: Any, queries: Tensor, memory: Tensor) -> Tensor:
    return scorer.compare(scorer.queries(queries), scorer.keys(memory))


@pytest.mark.parametrize("leading", [(), (2,), (2, 13)], ids=["alone", "batch", "batch and heads"])
def test_shape(each_scorer: Choice, leading: tuple[int, ...]) -> None:
    """Any leading axes, then (q, m)."""
    scorer, query_size, memory_size = make(each_scorer)
    scores = score(scorer, torch.randn(*leading, 3, query_size), torch.randn(*leading, 7, memory_size))
    assert scores.shape == (*leading, 3, 7)


def test_leading_axes_are_independent(each_scorer: Choice) -> None:
    """A pair scores what it scores alone, wherever it stands among the leading axes."""
    scorer, query_size, memory_size = make(each_scorer)
    queries, memory = torch.randn(2, 13, 3, query_size), torch.randn(2, 13, 7, memory_size)
    together = score(scorer, queries, memory)
    for row in range(2):
        for head in range(13):
            torch.testing.assert_close(together[row, head], score(scorer, queries[row, head], memory[row, head]))


def test_pairs_are_independent(each_scorer: Choice) -> None:
    """The score of a pair is a function of its query and its memory position alone."""
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
    """Gradients of queries, memory and every parameter agree with finite differences."""
    scorer, query_size, memory_size = make(each_scorer)
    queries = torch.randn(2, 3, query_size, requires_grad=True)
    memory = torch.randn(2, 5, memory_size, requires_grad=True)
    parameters = [parameter for parameter in scorer.parameters() if parameter.requires_grad]
    assert torch.autograd.gradcheck(
        lambda queries, memory, *_: score(scorer, queries, memory), (queries, memory, *parameters), fast_mode=True
    )


def test_every_parameter_is_used(each_scorer: Choice) -> None:
    scorer, query_size, memory_size = make(each_scorer)
    memory = torch.randn(2, 7, memory_size, requires_grad=True)
    score(scorer, torch.randn(2, 3, query_size), memory).pow(2).sum().backward()
    unused = [name for name, value in scorer.named_parameters() if value.requires_grad and value.grad is None]
    assert not unused


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
    assert isinstance(scorer, nn.Module)
