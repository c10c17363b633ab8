"""The formats of exported programs: ``onnx`` for ONNX runtimes, ``torch`` for ``torch.jit.load``.

Both trace. ``torch.export`` silently fixes a recurrence's length.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from attnx.export.programs import Program

OPSET = 17


def _transpose(graph: Any, matrices: Any) -> Any:
    *batch, rows, columns = range(matrices.type().dim())
    return graph.op("Transpose", matrices, perm_i=[*batch, columns, rows])


def _expm1(graph: Any, exponents: Any) -> Any:
    unit = graph.op("Constant", value_t=torch.tensor(1.0))
    return graph.op("Sub", graph.op("Exp", exponents), unit)


def _logaddexp(graph: Any, first: Any, second: Any) -> Any:
    maximum = graph.op("Max", first, second)
    exponentials = [graph.op("Exp", graph.op("Sub", term, maximum)) for term in (first, second)]
    return graph.op("Add", maximum, graph.op("Log", graph.op("Add", *exponentials)))


# Operators that the exporter lacks.
SYMBOLS: dict[str, Callable[..., Any]] = {"aten::mT": _transpose, "aten::expm1": _expm1, "aten::logaddexp": _logaddexp}


@torch.no_grad()
def save_onnx(program: Program, path: Path) -> None:
    """Trace a program and save it as ONNX."""
    names = [*program.input_names, *program.output_names]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, symbol in SYMBOLS.items():
            torch.onnx.register_custom_op_symbolic(name, symbol, OPSET)  # type: ignore[attr-defined]
        torch.onnx.export(
            program.module,
            program.inputs,
            str(path),
            dynamo=False,
            input_names=program.input_names,
            output_names=program.output_names,
            dynamic_axes={name: {axis: f"{name}_{axis}" for axis in program.axes[name]} for name in names},
            opset_version=OPSET,
        )


@torch.no_grad()
def save_torch(program: Program, path: Path) -> None:
    """Trace a program and save it as TorchScript."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about sizes, which stay dynamic; outputs are compared afterwards
        traced = torch.jit.trace(program.module, program.inputs, check_trace=False)  # type: ignore[no-untyped-call]
        traced.save(str(path))
