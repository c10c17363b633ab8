"""Additive attention as one operator: attnx, the broadcast form, SDPA, which is another formula, and torch.compile."""

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
from gpu_sections.cards import find_card
from gpu_sections.cases import Case, Figures, Setting
from gpu_sections.row_names import (
    ATTNX,
    BROADCAST,
    KERNEL_MILLISECONDS,
    MILLISECONDS,
    PEAK,
    SHAPES,
    TIMES_RECIPROCALS,
    Shape,
    operator_row,
)
from gpu_sections.timing import median_seconds, peak_bytes, synchronize

CHECK_SHAPES: tuple[Shape, ...] = ((2, 5, 7, 16),)
RECIPROCALS = {"forward": 1, "both": 2}
"""Reciprocals of a pair and unit: the gradients compute a hidden unit again, and exponentials are of rows alone."""
COMPILED = "torch.compile of it"


def dot_product(queries: Tensor, keys: Tensor, values: Tensor, v: Tensor) -> Tensor:
    """torch's fused attention, whose scores are products; v scales the queries, so that it has a gradient, too."""
    return F.scaled_dot_product_attention(queries * v, keys, values)


FORMS: dict[str, Callable[[int], Read]] = {
    ATTNX: partial(by_attnx, accelerated=True),
    BROADCAST: lambda _: broadcast,
    "SDPA": lambda _: dot_product,
    COMPILED: lambda _: compiled(),
}
PLANNED = (
    ("both", {ATTNX: 9.0, BROADCAST: 3.0}),
    ("both", {"SDPA": 3.0}),
    ("forward", {ATTNX: 4.0, BROADCAST: 3.0}),
    ("both", {COMPILED: 12.0}),
)
"""Planned seconds: tiles are compiled and tried at the first call of a shape, and Inductor compiles each shape."""


def cases(setting: Setting) -> Iterator[Case]:
    """Forms at every shape, with gradients first."""
    for way, forms in PLANNED:
        for shape, (form, seconds) in product(CHECK_SHAPES if setting.is_check else SHAPES, forms.items()):
            measure = partial(_measure, setting.device, form, shape, way)
            yield Case(operator_row(form, way, shape), measure, seconds)


def _measure(device: torch.device, form: str, shape: Shape, way: str) -> Figures:
    *operands, grad_context = (tensor.to(device) for tensor in draw_tensors(*shape))
    work = work_of(FORMS[form](shape[-1]), operands, grad_context, way)
    figures = {MILLISECONDS: 1000 * median_seconds(work, device), PEAK: peak_bytes(work, device) / 1e6}
    with device_profiler(device) as profiler:
        work()
        synchronize(device)
    with contextlib.suppress(RuntimeError):  # without a profiler the other figures are there
        figures[KERNEL_MILLISECONDS] = covered_microseconds(device_intervals(profiler, device)) / 1e3
        card = find_card(torch.cuda.get_device_name()) if device.type == "cuda" else None
        if card is not None and form == ATTNX:
            reciprocals = 1000 * RECIPROCALS[way] * torch.Size(shape).numel() / card.reciprocals
            figures[TIMES_RECIPROCALS] = figures[KERNEL_MILLISECONDS] / reciprocals
    return figures
