"""The names of rows and figures, by which aims find what sections measure."""

from __future__ import annotations

Shape = tuple[int, int, int, int]

ERROR = "largest relative error"
DEFINITION_ERROR, CPU_ERROR = "the definition's in this type", "the CPU's in float32"
MILLISECONDS, KERNEL_MILLISECONDS, PEAK = "ms", "ms of kernels", "peak MB"
"""Of a call as its caller waits for it, and of its kernels alone: small calls wait for the host."""
WORDS, IDLE = "words/s", "idle %"

ATTNX, BROADCAST, LIMIT = "attnx", "broadcast form", "limit by reciprocals"
WAYS = {"forward": "forward", "both": "forward and backward"}
SHAPES: tuple[Shape, ...] = ((64, 30, 30, 256), (16, 400, 400, 256), (4, 2000, 2000, 256))
"""Batch, queries, positions and width of operators."""

BY_HAND, GRAPHS = "by hand", "trainer.compile=graphs"
WITH_GRAPHS = f"{ATTNX}, {GRAPHS}"
LOOP = "step by step"
"""The only schedule with a loop over time, which alone is compiled."""
FLOAT32 = "float32"


def operator_row(form: str, way: str, shape: Shape) -> str:
    """The row of an operator."""
    return f"{form}, {WAYS[way]}, {'x'.join(map(str, shape))}"


def training_row(row: str, schedule: str, precision: str) -> str:
    """The row of a training."""
    return f"{row}, {schedule}, {precision}"
