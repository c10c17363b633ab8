"""A cell's pointwise half: compiled and by tensor operations the same, and the same as PyTorch's own cells."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx.ops import cells
from attnx.ops.cells import CELLS, cell_step

ROWS, UNITS, INPUTS = 7, 37, 5  # 37 units: not a whole number of any processor's lanes
TORCH: dict[str, Any] = {"lstm": torch.lstm_cell, "gru": torch.gru_cell, "rnn": torch.rnn_tanh_cell}


@pytest.fixture(params=["compiled", "tensor operations"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to the same numbers."""
    if request.param == "compiled":
        if cells.load(cells.SOURCE) is None:
            pytest.skip("there is no C compiler here")
    else:
        monkeypatch.setattr(cells, "load", lambda source: None)
    return str(request.param)


def given(cell: str, dtype: torch.dtype) -> dict[str, Tensor]:
    """Inputs, state and weights, all to be differentiated."""
    wide = CELLS[cell].gates * UNITS
    sizes = {"x": (ROWS, INPUTS), "w": (wide, INPUTS), "u": (wide, UNITS), "b": (wide,), "c": (wide,)}
    sizes |= {f"state{number}": (ROWS, UNITS) for number in range(CELLS[cell].tensors)}
    return {name: torch.randn(size, dtype=dtype, requires_grad=True) for name, size in sizes.items()}


def ours(cell: str, of: dict[str, Tensor]) -> tuple[Tensor, ...]:
    state = tuple(of[f"state{number}"] for number in range(CELLS[cell].tensors))
    x = torch.nn.functional.linear(of["x"], of["w"], of["b"])
    u = torch.nn.functional.linear(state[0], of["u"], of["c"])
    return cell_step(cell, *((x, u) if CELLS[cell].apart else (x + u, None)), state)


def torchs(cell: str, of: dict[str, Tensor]) -> tuple[Tensor, ...]:
    state = tuple(of[f"state{number}"] for number in range(CELLS[cell].tensors))
    found = TORCH[cell](of["x"], state if len(state) > 1 else state[0], of["w"], of["u"], of["b"], of["c"])
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_torchs_cell(cell: str, dtype: torch.dtype, way: str) -> None:
    of = given(cell, dtype)
    found, expected = ours(cell, of), torchs(cell, of)
    torch.testing.assert_close(found, expected)
    weights = [torch.randn_like(one) for one in expected]
    torch.testing.assert_close(
        torch.autograd.grad(found, list(of.values()), weights),
        torch.autograd.grad(expected, list(of.values()), weights),
    )


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_are_those_of_the_definition(cell: str) -> None:
    of = given(cell, torch.float64)
    names = list(of)
    assert torch.autograd.gradcheck(
        lambda *tensors: ours(cell, dict(zip(names, tensors, strict=True))), list(of.values()), fast_mode=True
    )


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("large", [80.0, 1e4, float("inf")])
def test_saturated_gates_are_finite_and_closed(cell: str, large: float, way: str) -> None:
    """However large what goes in, gates are 0 or 1 and the output is within -1 and 1."""
    wide = CELLS[cell].gates * UNITS
    x = torch.full((2, wide), large)
    x[1] = -large
    u = torch.zeros_like(x) if CELLS[cell].apart else None
    state = tuple(torch.full((2, UNITS), 0.5) for _ in range(CELLS[cell].tensors))
    after = cell_step(cell, x, u, state)
    for tensor, exact in zip(after, SATURATED[cell], strict=True):
        torch.testing.assert_close(tensor, torch.tensor(exact)[:, None].expand(2, UNITS), atol=1e-6, rtol=0)


# Of a state of 1/2. All gates open: an LSTM's c = 1/2 + 1, h = tanh c; a GRU keeps its state. All closed: c = 0 + 0 and
# h = 0; a GRU takes its candidate, tanh of minus much.
SATURATED: dict[str, list[list[float]]] = {
    "lstm": [[math.tanh(1.5), 0.0], [1.5, 0.0]],
    "gru": [[0.5, -1.0]],
    "rnn": [[1.0, -1.0]],
}


@pytest.mark.parametrize("cell", CELLS)
def test_nan_stays_nan(cell: str, way: str) -> None:
    """A loss that became NaN is to be seen."""
    x = torch.zeros(1, CELLS[cell].gates * UNITS)
    x[:, ::UNITS] = torch.nan
    state = tuple(torch.zeros(1, UNITS) for _ in range(CELLS[cell].tensors))
    out = cell_step(cell, x, torch.zeros_like(x) if CELLS[cell].apart else None, state)[0]
    assert out[0, 0].isnan()
    assert not out[0, 1:].isnan().any()
