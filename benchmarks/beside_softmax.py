"""A training step of attention beside plain softmax: multiples of its time.

A sink, a second map (``differential``) and unlike heads, in causal attention of 8 heads over 256 units, one thread. All
are measured once per round, in turn, by CPU time; a number is the median of the ratios of a round, with the extremes.
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import Any

import torch

from attnx import accel
from attnx.attention.factory import build_attention

WIDTH, HEADS = 256, 8
VARIANTS: dict[str, dict[str, Any]] = {
    "softmax": {},
    "softmax, definition": {},
    "softmax_with_sink": {"normalizer": "softmax_with_sink"},
    "attention=differential": {"name": "differential"},
    "attention.head_scopes=[global,local]": {"head_scopes": ["global", "local"]},
    "attention.head_scorers=[scaled,cosine]": {"head_scorers": ["scaled", "cosine"]},
}


def seconds(attention: Any, rows: int, length: int) -> float:
    """The CPU time of a forward and a backward pass."""
    states = torch.randn(rows, length, WIDTH, requires_grad=True)
    start = time.process_time()
    memory = attention.make_memory(states)._replace(is_causal=True)
    attention(states, memory).context.sum().backward()
    return time.process_time() - start


def build(name: str) -> Any:
    options = dict(VARIANTS[name])
    normalizer = options.pop("normalizer", "softmax")
    attention = build_attention("scaled", "global", normalizer, WIDTH, WIDTH, WIDTH, {"heads": HEADS, **options})
    return attention if "definition" in name else accel.enable(attention)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    options = parser.parse_args()
    torch.set_num_threads(1)
    attentions = {name: build(name) for name in VARIANTS}
    times = [
        {name: seconds(attention, options.rows, options.length) for name, attention in attentions.items()}
        for _ in range(options.rounds + 1)
    ][1:]
    for name in VARIANTS:
        ratios = [measured[name] / measured["softmax"] for measured in times]
        milliseconds = 1000 * median(measured[name] for measured in times)
        print(f"{name}: {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), {milliseconds:.0f} ms")


if __name__ == "__main__":
    main()
