"""The formats of exported programs: ``onnx`` for ONNX runtimes, ``torch`` for ``torch.jit.load``.

Both trace. ``torch.export`` silently fixes a recurrence's length.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from attnx.export.programs import Program

LoadedProgram = Callable[[Sequence[Tensor]], Sequence[Tensor]]
"""The inputs of a program, in its order -> its outputs."""

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


def _matmul(graph: Any, first: Any, second: Any) -> Any:
    """By a vector as by a matrix of one column: onnxruntime cannot multiply an empty memory by a vector."""
    if second.type().dim() > 1:
        return graph.op("MatMul", first, second)
    column, last = (graph.op("Constant", value_t=torch.tensor([axis])) for axis in (1, first.type().dim() - 1))
    return graph.op("Squeeze", graph.op("MatMul", first, graph.op("Unsqueeze", second, column)), last)


# Operators that the exporter lacks, or writes otherwise than a runtime reads them.
SYMBOLS: dict[str, Callable[..., Any]] = {
    "aten::mT": _transpose,
    "aten::expm1": _expm1,
    "aten::logaddexp": _logaddexp,
    "aten::matmul": _matmul,
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


@torch.no_grad()
def save_torch(program: Program, path: Path) -> None:
    """Trace a program and save it as TorchScript."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about sizes, which stay dynamic; outputs are compared afterwards
        traced = torch.jit.trace(program.module, program.inputs, check_trace=False)  # type: ignore[no-untyped-call]
        traced.save(str(path))


def load_onnx(path: Path, input_names: Sequence[str]) -> LoadedProgram:
    """Open a program saved as ONNX; a session takes only those inputs that the program reads."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    read = {argument.name for argument in session.get_inputs()}

    def run(inputs: Sequence[Tensor]) -> list[Tensor]:
        arrays = {name: tensor.numpy() for name, tensor in zip(input_names, inputs, strict=True) if name in read}
        outputs = session.run(None, arrays)
        return [torch.from_numpy(output) for output in outputs]

    return run


def load_torch(path: Path, input_names: Sequence[str]) -> LoadedProgram:
    """Open a program saved as TorchScript."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch prefers torch.export
        traced = torch.jit.load(str(path))  # type: ignore[no-untyped-call]
    return lambda inputs: cast("Sequence[Tensor]", traced(*inputs))


class Format(NamedTuple):
    """How programs are written and read again: the ending of their files, and two functions."""

    ending: str
    save: Callable[[Program, Path], None]
    load: Callable[[Path, Sequence[str]], LoadedProgram]


FORMATS = {"onnx": Format("onnx", save_onnx, load_onnx), "torch": Format("pt", save_torch, load_torch)}
