"""The machine's peak in matrix products: floating-point operations per second. It needs torch alone."""

from __future__ import annotations

import json
import sys
import time

import torch

SIZE, PRODUCTS, ROUNDS = 1024, 10, 9


def peak() -> float:
    """The fastest of several rounds of products of square matrices."""
    first, second = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)
    product = first @ second
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(PRODUCTS):
            torch.mm(first, second, out=product)
        best = min(best, time.perf_counter() - started)
    return 2 * SIZE**3 * PRODUCTS / best


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]))
    print(json.dumps(peak()))
