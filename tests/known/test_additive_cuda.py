"""The Triton kernels of additive attention: on a GPU, or where there is none, in Triton's interpreter on the CPU."""

from __future__ import annotations

import importlib.util
import math
import os

import pytest
import torch
from torch import Tensor

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed", allow_module_level=True)
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # is read when triton is imported

from attnx.kernels import additive_triton  # noqa: E402
from attnx.kernels.additive_blocks import score  # noqa: E402
from attnx.kernels.additive_cuda import WAYS  # noqa: E402

# The interpreter computes with numpy, which warns of an overflow where a GPU just has inf.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def by_definition(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    return torch.tanh(queries[..., :, None, :] + keys[..., None, :, :]) @ v


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("sizes", [(2, 3, 5, 7), (1, 37, 41, 35), (3, 1, 67, 2)])
def test_scores_and_gradients(sizes: tuple[int, int, int, int], scale: float) -> None:
    """As by definition in float64, with rows, positions and hidden units that fill a tile and that do not."""
    rows, queries, positions, width = sizes
    shapes = (rows, queries, width), (rows, positions, width), (width,)
    operands = [scale * torch.randn(shape, device=DEVICE) for shape in shapes]
    of_scores = torch.randn(rows, queries, positions, device=DEVICE)
    found = [additive_triton.scores(*operands), *additive_triton.gradients(*operands, of_scores)]
    leaves = [operand.double().requires_grad_() for operand in operands]
    exact = by_definition(*leaves)
    expected = [exact.detach(), *torch.autograd.grad(exact, leaves, of_scores.double())]
    for one, right in zip(found, expected, strict=True):
        assert (one - right).abs().max() < 3e-6 * right.abs().max()


@pytest.mark.parametrize(
    ("a", "b", "tanh"),
    [
        (0.0, 0.0, 0.0),
        (1e-6, 2e-6, 3e-6),
        (60.0, -55.0, math.tanh(5.0)),
        (-1e4, 1e4 - 0.5, -math.tanh(0.5)),
        (3e38, 3e38, 1.0),
        (-math.inf, 5.0, -1.0),
        (math.inf, -math.inf, math.nan),
        (math.nan, 0.0, math.nan),
    ],
)
def test_every_number(a: float, b: float, tanh: float) -> None:
    queries, keys = torch.tensor([[[a]]], device=DEVICE), torch.tensor([[[b]]], device=DEVICE)
    found = additive_triton.scores(queries, keys, torch.tensor([10.0], device=DEVICE))
    torch.testing.assert_close(found.item(), 10 * tanh, equal_nan=True, rtol=1e-5, atol=0.0)


def test_as_a_part_of_autograd() -> None:
    operands = [torch.randn(shape, device=DEVICE, requires_grad=True) for shape in ((2, 3, 7), (2, 5, 7), (7,))]
    found, expected = (
        torch.autograd.grad(scores.pow(2).sum(), operands)
        for scores in (score(WAYS, *operands), by_definition(*operands))
    )
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
