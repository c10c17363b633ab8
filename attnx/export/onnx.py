"""Writes programs as ONNX files.

They are traced: ``torch.export`` silently fixes a recurrence's length.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from attnx.export.programs import Program

OPSET = 17
BLOCK_LEVELS = 16
"""A triangle has at most two to this power of rows, more than fit into a memory."""


def _constant(graph: Any, value: float | list[int]) -> Any:
    return graph.op("Constant", value_t=torch.tensor(value))


def _transpose(graph: Any, matrices: Any) -> Any:
    *batch, rows, columns = range(matrices.type().dim())
    return graph.op("Transpose", matrices, perm_i=[*batch, columns, rows])


def _logaddexp(graph: Any, first: Any, second: Any) -> Any:
    maximum = graph.op("Max", first, second)
    exponentials = [graph.op("Exp", graph.op("Sub", term, maximum)) for term in (first, second)]
    return graph.op("Add", maximum, graph.op("Log", graph.op("Add", *exponentials)))


def _rms_norm(graph: Any, vectors: Any, shape: Any, weight: Any, epsilon: Any) -> Any:
    """Over the last axis alone."""
    unset = _constant(graph, torch.finfo(torch.float32).eps)
    floor = unset if epsilon.type().kind() == "NoneType" else graph.op("CastLike", epsilon, vectors)
    square = graph.op("ReduceMean", graph.op("Mul", vectors, vectors), axes_i=[-1])
    normalized = graph.op("Div", vectors, graph.op("Sqrt", graph.op("Add", square, floor)))
    return normalized if weight.type().kind() == "NoneType" else graph.op("Mul", normalized, weight)


def _matmul(graph: Any, first: Any, second: Any) -> Any:
    """By a vector as by a matrix of one column: onnxruntime cannot multiply an empty memory by a vector."""
    if second.type().dim() > 1:
        return graph.op("MatMul", first, second)
    column, last = (_constant(graph, [axis]) for axis in (1, first.type().dim() - 1))
    return graph.op("Squeeze", graph.op("MatMul", first, graph.op("Unsqueeze", second, column)), last)


def _solve_triangular(
    graph: Any, triangle: Any, right: Any, is_upper: Any, is_left: Any, is_unit_triangular: Any
) -> Any:
    """Solve (1 + triangle) x = right, of a triangle below the diagonal, by its inverse, in ever larger blocks.

    Two blocks on the diagonal with inverses ``p`` and ``q`` and the block ``b`` below have the inverse
    ``[[p, 0], [-q b p, q]]``.
    """

    def is_equal(numbers: Any) -> Any:  # (n,) -> (n, n)
        return graph.op("Equal", *(graph.op("Unsqueeze", numbers, _constant(graph, [axis])) for axis in (1, 0)))

    def as_float(condition: Any) -> Any:
        return graph.op("CastLike", condition, triangle)

    rows = graph.op("Gather", graph.op("Shape", triangle), _constant(graph, -1))
    positions = graph.op("Range", _constant(graph, 0), rows, _constant(graph, 1))
    inverse = as_float(is_equal(positions))
    for level in range(BLOCK_LEVELS):
        halves, blocks = (graph.op("Div", positions, _constant(graph, 2**power)) for power in (level, level + 1))
        is_below = graph.op("And", is_equal(blocks), graph.op("Not", is_equal(halves)))
        below = graph.op("Mul", triangle, as_float(is_below))
        product = graph.op("MatMul", graph.op("MatMul", inverse, below), inverse)
        inverse = graph.op("Sub", inverse, product)
    return graph.op("MatMul", inverse, right)


# Operators that the exporter lacks, or writes otherwise than a runtime reads them.
SYMBOLS: dict[str, Callable[..., Any]] = {
    "aten::mT": _transpose,
    "aten::expm1": lambda graph, exponents: graph.op("Sub", graph.op("Exp", exponents), _constant(graph, 1.0)),
    "aten::logaddexp": _logaddexp,
    "aten::rms_norm": _rms_norm,
    "aten::matmul": _matmul,
    "aten::linalg_solve_triangular": _solve_triangular,
}


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
