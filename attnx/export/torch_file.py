"""The format ``torch``: programs for ``torch.jit.load``, without attnx."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch

from attnx.export.programs import Program


@torch.no_grad()
def write(program: Program, path: Path) -> None:
    """Trace a program and save it.

    Tracing is deprecated, but ``torch.export`` fixes a recurrence's length.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about sizes, which stay dynamic; outputs are compared afterwards
        traced = torch.jit.trace(program.module, program.inputs, check_trace=False)  # type: ignore[no-untyped-call]
        traced.save(str(path))
