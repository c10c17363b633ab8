"""A weight used at many steps: the same gradient, by one product."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from attnx.ops.one_product import OneProduct

STEPS, ROWS, SIZE = 7, 3, 5


class Products(TorchDispatchMode):
    """Counts products of two matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.count += func._overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm)
        return func(*args, **(kwargs or {}))


def loop(layer: nn.Linear, start: Tensor, mode: AbstractContextManager[object]) -> Tensor:
    """A recurrence that uses the layer twice a step."""
    state = start
    with mode:
        for _ in range(STEPS):
            state = torch.tanh(layer(state)) + 0.5 * layer(2 * state)
    return state


@pytest.fixture
def layer() -> nn.Linear:
    return nn.Linear(SIZE, SIZE).double()


@pytest.fixture
def start() -> Tensor:
    return torch.randn(ROWS, SIZE, dtype=torch.float64, requires_grad=True)


def gradients(layer: nn.Linear, start: Tensor, mode: AbstractContextManager[object]) -> list[Tensor]:
    return list(torch.autograd.grad(loop(layer, start, mode).square().sum(), [start, *layer.parameters()]))


def test_numbers_and_gradients_stay_what_they_were(layer: nn.Linear, start: Tensor) -> None:
    torch.testing.assert_close(loop(layer, start, OneProduct()), loop(layer, start, nullcontext()))
    torch.testing.assert_close(gradients(layer, start, OneProduct()), gradients(layer, start, nullcontext()))


def test_by_hand() -> None:
    """y = w (w x) + b, twice the same weight: dy/dw = 2 w x, though the second use's input depends on the first."""
    weight = torch.tensor([[3.0]], requires_grad=True)
    with OneProduct():
        y = nn.functional.linear(nn.functional.linear(torch.tensor([[5.0]]), weight), weight)
    y.sum().backward()
    assert y.item() == 45.0
    assert weight.grad is not None
    assert weight.grad.item() == 30.0


def test_there_is_one_product_for_the_weight(layer: nn.Linear, start: Tensor) -> None:
    """Backward: two products a step for what the layer read, and one for its weight instead of one a use."""

    def counted(mode: AbstractContextManager[object]) -> int:
        loss = loop(layer, start, mode).sum()
        with Products() as products:
            torch.autograd.grad(loss, [start, *layer.parameters()])
        return products.count

    uses = 2 * STEPS
    assert counted(nullcontext()) == uses + uses
    assert counted(OneProduct()) == uses + 1


def test_a_use_that_leads_nowhere(layer: nn.Linear) -> None:
    inputs = torch.ones(ROWS, SIZE, dtype=torch.float64)
    with OneProduct():
        used, _ = layer(inputs), layer(10 * inputs)
    used.sum().backward()
    assert layer.weight.grad is not None
    torch.testing.assert_close(layer.weight.grad, torch.full_like(layer.weight, ROWS))


@pytest.mark.parametrize("call", [lambda layer, x: layer(x).detach(), lambda layer, x: torch.no_grad()(layer)(x)])
def test_without_gradients_nothing_is_kept(layer: nn.Linear, call: Callable[[nn.Linear, Tensor], Tensor]) -> None:
    x = torch.ones(2, SIZE, dtype=torch.float64)
    with OneProduct():
        found = call(layer, x)
    torch.testing.assert_close(found, (x @ layer.weight.T + layer.bias).detach())


def test_a_graph_can_be_gone_through_twice(layer: nn.Linear, start: Tensor) -> None:
    loss = loop(layer, start, OneProduct()).sum()
    first = torch.autograd.grad(loss, list(layer.parameters()), retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(loss, list(layer.parameters())), first)


def test_lower_precision() -> None:
    """Under autocast a product is made in bfloat16 and the weight's gradient is float32, as without the mode."""
    layer, x = nn.Linear(SIZE, SIZE), torch.ones(ROWS, SIZE)
    with torch.autocast("cpu", torch.bfloat16), OneProduct():
        found = layer(layer(x))
    found.float().sum().backward()
    assert found.dtype == torch.bfloat16
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == torch.float32
