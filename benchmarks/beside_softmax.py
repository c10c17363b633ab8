"""A training step of attention beside plain softmax: multiples of its time, one thread.

Causal attention of 8 heads: a sink, a second map (``differential``) and unlike heads. Attention with the scorer
``additive``, for words and for longer sources: recurrent normalizers, by definition and with ``accel``, where
softmax has a kernel and they have none. All of a table are measured once per round, in turn, by CPU time; a number is
the median of the ratios of a round, with the extremes.
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import Any, NamedTuple

import torch

from attnx import accel
from attnx.attention.factory import build_attention

WIDTH = 256
CAUSAL: dict[str, dict[str, Any]] = {
    "softmax": {},
    "softmax, definition": {},
    "softmax_with_sink": {"normalizer": "softmax_with_sink"},
    "attention=differential": {"name": "differential"},
    "attention.head_scopes=[global,local]": {"head_scopes": ["global", "local"]},
    "attention.head_scorers=[scaled,cosine]": {"head_scorers": ["scaled", "cosine"]},
}
NORMALIZERS = ("softmax", "monotonic", "mocha", "stepwise_monotonic", "forward")


class Shape(NamedTuple):
    """Rows, queries of each, and positions of the memory: those of the queries, if the memory is causal."""

    rows: int
    queries: int
    positions: int
    is_causal: bool = False


def seconds(attention: Any, shape: Shape) -> float:
    """The CPU time of a forward and a backward pass."""
    states = torch.randn(shape.rows, shape.positions, WIDTH, requires_grad=True)
    queries = states if shape.is_causal else torch.randn(shape.rows, shape.queries, WIDTH, requires_grad=True)
    start = time.process_time()
    memory = attention.make_memory(states)._replace(is_causal=shape.is_causal)
    attention(queries, memory).context.sum().backward()
    return time.process_time() - start


def build(scorer: str, normalizer: str = "softmax", has_accel: bool = True, heads: int = 8, **options: Any) -> Any:
    parts = {"heads": heads, **options}
    attention = build_attention(scorer, "global", normalizer, WIDTH, WIDTH, WIDTH, parts).train()
    return accel.enable(attention) if has_accel else attention


def measure(title: str, attentions: dict[str, Any], shape: Shape, rounds: int) -> None:
    """Print a table; the first round is not counted."""
    times = [{name: seconds(part, shape) for name, part in attentions.items()} for _ in range(rounds + 1)][1:]
    print(title)
    for name in attentions:
        ratios = [measured[name] / measured["softmax"] for measured in times]
        milliseconds = 1000 * median(measured[name] for measured in times)
        print(f"  {name}: {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), {milliseconds:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    causal = {name: build("scaled", has_accel="definition" not in name, **options) for name, options in CAUSAL.items()}
    measure("causal, 4 rows of 512", causal, Shape(4, 512, 512, is_causal=True), rounds)
    for shape in (Shape(32, 8, 9), Shape(16, 100, 400)):
        for has_accel in (False, True):
            parts = {name: build("additive", name, has_accel, heads=1) for name in NORMALIZERS}
            measure(f"b {shape.rows}, q {shape.queries}, m {shape.positions}, accel {has_accel}", parts, shape, rounds)


if __name__ == "__main__":
    main()
