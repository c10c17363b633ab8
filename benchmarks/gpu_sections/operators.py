"""Additive attention as one operator: attnx, the broadcast form, torch.compile of it, and SDPA, another formula."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import torch
import torch.nn.functional as F
from additive_operator import broadcast, by_attnx, compiled
from peers.measures import Read, draw_tensors, work_of
from torch import Tensor

from gpu_sections.busy_time import covered_microseconds, device_intervals, device_profiler
from gpu_sections.cases import Case, Figures, Setting
from gpu_sections.row_names import (
    ATTNX,
    BROADCAST,
    KERNEL_MILLISECONDS,
    LIMIT,
    MILLISECONDS,
    PEAK,
    SHAPES,
    WAYS,
    Shape,
    operator_row,
)
from gpu_sections.timing import median_seconds, peak_bytes, synchronize

CHECK_SHAPES: tuple[Shape, ...] = ((2, 5, 7, 16),)
RECIPROCALS = {"forward": 1, "both": 2}
"""Reciprocals of a pair and unit: the gradients compute a hidden unit again, and exponentials are of rows alone."""
RECIPROCALS_PER_CLOCK = 16
"""Of a multiprocessor of compute capability 8.0 to 10.0 (CUDA C++ Programming Guide, arithmetic instructions)."""


def dot_product(queries: Tensor, keys: Tensor, values: Tensor, v: Tensor) -> Tensor:
    """torch's fused attention, whose scores are products; v scales the queries, so that it has a gradient, too."""
    return F.scaled_dot_product_attention(queries * v, keys, values)


FORMS: dict[str, Callable[[int], Read]] = {
    ATTNX: partial(by_attnx, accelerated=True),
    BROADCAST: lambda _: broadcast,
    "torch.compile of it": lambda _: compiled(),
    "SDPA": lambda _: dot_product,
}


def cases(setting: Setting) -> Iterator[Case]:
    """Every form at every shape, forward alone and with gradients; and what the chip allows."""
    shapes, ways = (CHECK_SHAPES, ["both"]) if setting.is_check else (SHAPES, list(WAYS))
    for shape, way in product(shapes, ways):
        for form, read_of in FORMS.items():
            yield Case(operator_row(form, way, shape), partial(_measure, setting.device, read_of, shape, way))
        if setting.device.type == "cuda":
            yield Case(operator_row(LIMIT, way, shape), partial(_limit, setting.device, shape, way))


def _measure(device: torch.device, read_of: Callable[[int], Read], shape: Shape, way: str) -> Figures:
    *operands, grad_context = (tensor.to(device) for tensor in draw_tensors(*shape))
    work = work_of(read_of(shape[-1]), operands, grad_context, way)
    figures = {MILLISECONDS: 1000 * median_seconds(work, device), PEAK: peak_bytes(work, device) / 1e6}
    with device_profiler(device) as profiler:
        work()
        synchronize(device)
    with contextlib.suppress(RuntimeError):  # without a profiler the other figures are there
        figures[KERNEL_MILLISECONDS] = covered_microseconds(device_intervals(profiler, device)) / 1e3
    return figures


def _limit(device: torch.device, shape: Shape, way: str) -> Figures:
    properties = torch.cuda.get_device_properties(device)
    a_second = RECIPROCALS_PER_CLOCK * properties.multi_processor_count * 1000 * properties.clock_rate
    return {KERNEL_MILLISECONDS: 1000 * RECIPROCALS[way] * torch.Size(shape).numel() / a_second}
