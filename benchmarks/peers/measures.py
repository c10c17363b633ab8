"""Measurement of an operator, the same for all libraries: seconds and peak bytes. It needs torch alone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler would tell of each of its starts and stops

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

Read = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Queries (b, q, d), keys and values (b, m, d), and v (d) -> contexts (b, q, d)."""
Work = Callable[[], list[Tensor]]


def draw_tensors(batch: int, queries: int, positions: int, width: int) -> list[Tensor]:
    """Queries, keys, values, v and the gradient of the contexts, from a fixed seed."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((batch, queries, width), *[(batch, positions, width)] * 2, (width,), (batch, queries, width))
    tensors = [torch.randn(shape, generator=generator) for shape in shapes]
    tensors[3] /= width**0.5
    return tensors


def work_of(read: Read, operands: Sequence[Tensor], grad_context: Tensor, way: str) -> Work:
    """The work to measure: ``forward``, the contexts; ``both``, also the gradients of all operands."""

    def forward() -> list[Tensor]:
        with torch.no_grad():
            return [read(*operands)]

    def both() -> list[Tensor]:
        context = read(*operands)
        return [context.detach(), *torch.autograd.grad(context, operands, grad_context)]

    for operand in operands:
        operand.requires_grad_()
    return forward if way == "forward" else both


def seconds(work: Work) -> float:
    """The time of a run after one untimed run."""
    work()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def peak(work: Work) -> int:
    """The peak of torch's allocated bytes in a run, results included and operands not."""
    work()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        work()
    events = [event for event in watched.profiler.kineto_results.events() if event.name() == "[memory]"]
    total = highest = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        total += event.nbytes()
        highest = max(highest, total)
    return highest
