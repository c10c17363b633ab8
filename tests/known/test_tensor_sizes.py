"""Parts whose scores and weights need no further axis do not make one."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attnx.attention.normalizers.mocha import Mocha
from attnx.attention.normalizers.monotonic import Monotonic
from attnx.attention.scorers.gmm import Gmm

ROWS, QUERIES, POSITIONS, CHUNK = 3, 50, 70, 4


class LargestTensor(TorchDispatchMode):
    """Notes how many numbers the largest tensor has that an operator returns."""

    largest = 0

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        returned = operator(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(returned) if isinstance(leaf, Tensor)]
        self.largest = max(self.largest, *sizes, 0)
        return returned


def attend_by_gmm() -> Tensor:
    scorer = Gmm(query_size=8, hidden_size=None)
    queries, keys = scorer.project_queries(torch.randn(ROWS, QUERIES, 8)), torch.zeros(ROWS, POSITIONS, 1)
    return scorer.score(queries, keys, scorer.init_carry(keys))[0]


def attend_by(normalizer: Any) -> Tensor:
    scores = torch.randn(ROWS, QUERIES, POSITIONS, requires_grad=True)
    mask = torch.ones_like(scores, dtype=torch.bool)
    return normalizer(scores, mask, normalizer.init_carry(mask[:, 0]))[0]


@pytest.mark.parametrize(
    "attend",
    [attend_by_gmm, lambda: attend_by(Monotonic()), lambda: attend_by(Mocha(window=CHUNK))],
    ids=["gmm", "monotonic", "mocha"],
)
def test_no_tensor_has_a_further_axis(attend):
    """(b, q, m) and the padding of a chunk, forward and backward: no axis of components, of chunks or of pairs."""
    with LargestTensor() as sizes:
        attend().sum().backward()
    assert ROWS * QUERIES * POSITIONS <= sizes.largest < ROWS * QUERIES * (POSITIONS + CHUNK)
