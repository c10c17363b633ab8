"""The format ``torch``: programs that ``torch.jit.load`` reads, wherever torch is and attnx is not."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch

from attnx.export.programs import Program


@torch.no_grad()
def write(program: Program, path: Path) -> None:
    """Trace a program and save it.

    By tracing, though torch calls that its old way: ``torch.export``, the new one, takes a recurrence's length for a
    constant.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sizes read as numbers stay open in a trace; what was traced is run afterwards
        traced = torch.jit.trace(program.module, program.inputs, check_trace=False)  # type: ignore[no-untyped-call]
        traced.save(str(path))
