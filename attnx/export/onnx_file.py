"""The format ``onnx``: programs for onnxruntime and whatever else reads ONNX."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from attnx.export.programs import Program

OPSET = 17


def _transposed(graph: Any, matrices: Any) -> Any:
    *others, rows, columns = range(matrices.type().dim())
    return graph.op("Transpose", matrices, perm_i=[*others, columns, rows])


def _expm1(graph: Any, exponents: Any) -> Any:
    one = graph.op("Constant", value_t=torch.tensor(1.0))
    return graph.op("Sub", graph.op("Exp", exponents), one)


def _logaddexp(graph: Any, one: Any, other: Any) -> Any:
    larger = graph.op("Max", one, other)
    shares = [graph.op("Exp", graph.op("Sub", part, larger)) for part in (one, other)]
    return graph.op("Add", larger, graph.op("Log", graph.op("Add", *shares)))


# What the exporter does not know of itself.
SYMBOLS: dict[str, Callable[..., Any]] = {"aten::mT": _transposed, "aten::expm1": _expm1, "aten::logaddexp": _logaddexp}


@torch.no_grad()
def write(program: Program, path: Path) -> None:
    """Trace a program and save it.

    By tracing, not by ``torch.export``: that takes a recurrence's length for a constant and says nothing of it.
    """
    named = [*program.names, *program.returns]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, symbol in SYMBOLS.items():
            torch.onnx.register_custom_op_symbolic(name, symbol, OPSET)  # type: ignore[attr-defined]
        torch.onnx.export(
            program.module,
            program.inputs,
            str(path),
            dynamo=False,
            input_names=program.names,
            output_names=program.returns,
            dynamic_axes={name: {axis: f"{name}_{axis}" for axis in program.axes[name]} for name in named},
            opset_version=OPSET,
        )
