"""A training step of attention with a recurrent normalizer, as a multiple of the time of one with ``softmax``.

All have the scorer ``additive``. The sizes are those of words (a query for each of 8 phones) and of longer sources. A
step is the forward and the backward pass; normalizers are measured once per round, in turn, and a number is the median
of the ratios of a round. With ``accel`` softmax has a kernel for its scores, and recurrent normalizers have none.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from attnx import accel
from attnx.attention import Attention, MultiHeadAttention, build

NORMALIZERS = ("monotonic", "mocha", "stepwise_monotonic", "forward")
WIDTH = 256


class Size(NamedTuple):
    """Rows, queries of each, and positions of the memory."""

    rows: int
    queries: int
    positions: int


SIZES = (Size(32, 8, 9), Size(16, 100, 400))


def seconds_per_step(attention: Attention | MultiHeadAttention, tensors: tuple[Tensor, Tensor], repeats: int) -> float:
    """The mean time of a forward and a backward pass over queries (b, q, d) and states (b, m, d)."""
    start = time.perf_counter()
    for _ in range(repeats):
        queries, states = (tensor.clone().requires_grad_() for tensor in tensors)
        context = attention(queries, attention.make_memory(states)).context
        context.sum().backward()  # type: ignore[no-untyped-call]
    return (time.perf_counter() - start) / repeats


def ratios(size: Size, has_accel: bool, rounds: int, repeats: int) -> dict[str, float]:
    """The median ratio to softmax of each normalizer, and the median time of softmax itself in milliseconds."""
    torch.manual_seed(0)
    tensors = torch.randn(size.rows, size.queries, WIDTH), torch.randn(size.rows, size.positions, WIDTH)
    names = ("softmax", *NORMALIZERS)
    built = {name: build(normalizer=name, query_size=WIDTH, memory_size=WIDTH) for name in names}
    attentions = {name: (accel.enable(part) if has_accel else part).train() for name, part in built.items()}
    for attention in attentions.values():
        seconds_per_step(attention, tensors, 1)
    measured = [
        {name: seconds_per_step(attention, tensors, repeats) for name, attention in attentions.items()}
        for _ in range(rounds)
    ]
    result = {name: median(times[name] / times["softmax"] for times in measured) for name in NORMALIZERS}
    return {"softmax, ms": 1e3 * median(times["softmax"] for times in measured), **result}


def main() -> None:
    """Print a line for each size, with and without accel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for size, has_accel in product(SIZES, (False, True)):
        result = ratios(size, has_accel, options.rounds, options.repeats)
        numbers = ", ".join(f"{name} {number:.2f}" for name, number in result.items())
        print(f"b {size.rows}, q {size.queries}, m {size.positions}, accel {has_accel}: {numbers}", flush=True)


if __name__ == "__main__":
    main()
