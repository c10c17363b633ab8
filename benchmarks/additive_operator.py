"""Additive attention as one operator on a CPU: attnx, the broadcast form, torch.compile of it, and keras.

All compute attention of the same projected queries, keys and values, in turn, round after round. Seconds, how many
times as fast attnx was in the same round, peak bytes and errors in float32 are printed and written as JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable
from functools import cache, partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import torch
from peers.environments import ROOT, FailedError, Peer, install
from peers.measures import Read, draw_tensors, peak, seconds, work_of
from peers.neighbors import BUSY, watch_neighbors
from peers.record import record
from rich.console import Console
from rich.table import Table
from torch import Tensor

from attnx import accel
from attnx.attention import Attention, Memory, build
from attnx.attention.types import AttentionInputs

SHAPES = ((4, 400, 400, 256), (16, 100, 100, 256), (64, 30, 30, 256), (1, 2000, 2000, 256))
"""Batch, queries, positions and hidden units."""
WAYS = {"forward": "forward", "both": "and backward"}
KERAS = Peer("keras", "3.15.1")
ATTNX, BROADCAST, COMPILED, DOT = "attnx", "broadcast", "torch.compile of it", "dot product"
HIDDEN = (BROADCAST, KERAS.row)
"""Who lays down every hidden unit of every pair."""

Shape = tuple[int, int, int, int]
Measure = Callable[[str, Shape, str], float]
"""``seconds`` or ``peak``, a shape and a way -> the number."""


def by_attnx(width: int, accelerated: bool) -> Read:
    """attnx's own attention over projected inputs."""
    attention: Any = build(query_size=width, memory_size=width, scorer=("additive", {"hidden_size": width}))
    if accelerated:
        accel.enable(attention)
    del attention.scorer.v

    def read(queries: Tensor, keys: Tensor, values: Tensor, v: Tensor) -> Tensor:
        attention.scorer.v = v
        return reading(attention, queries, keys, values)

    return read


def by_dot(width: int) -> Read:
    """Dot-product attention; it does not use v."""
    attention: Any = build(query_size=width, memory_size=width, scorer="dot")

    def read(queries: Tensor, keys: Tensor, values: Tensor, v: Tensor) -> Tensor:
        return reading(attention, queries, keys, values) + 0 * v

    return read


def reading(attention: Attention, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """The contexts of projected queries and keys, with every position valid."""
    memory = Memory(keys, values, keys.new_ones(keys.shape[:2], dtype=torch.bool), (keys.shape[1],))
    steps = torch.arange(queries.shape[1], device=queries.device)
    return attention.attend(AttentionInputs(queries, queries, memory, steps)).context


def broadcast(queries: Tensor, keys: Tensor, values: Tensor, v: Tensor) -> Tensor:
    """The definition, for torch.compile and for exact numbers."""
    return torch.softmax(torch.tanh(queries[:, :, None] + keys[:, None]) @ v, -1) @ values


@cache
def compiled() -> Read:
    """The definition compiled by Inductor, again for each shape."""
    read: Read = torch.compile(broadcast, dynamic=False)
    return read


def measure_here(read_of: Callable[[int], Read], measure: str, shape: Shape, way: str) -> float:
    """Measure in this process."""
    *operands, grad_context = draw_tensors(*shape)
    work = work_of(read_of(shape[-1]), operands, grad_context, way)
    return float({"seconds": seconds, "peak": peak}[measure](work))


class Elsewhere:
    """Keras in a process of its own, which answers one line per request."""

    def __init__(self, python: Path, threads: int) -> None:
        command = [str(python), str(Path(__file__).with_name("peers") / "keras_operator.py"), str(threads)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def __call__(self, measure: str, shape: Shape, way: str) -> float:
        """Send a request and wait for the answer.

        Raises:
            FailedError: it does not answer.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps({"measure": measure, "shape": shape, "way": way}) + "\n")
            self.process.stdin.flush()
            return float(self.process.stdout.readline())
        except (OSError, ValueError) as error:
            raise FailedError("it ended without an answer") from error


def contenders(options: argparse.Namespace, console: Console) -> tuple[dict[str, Measure], dict[str, str]]:
    """The libraries to compare, in the order of a round, and why others cannot take part."""
    ready: dict[str, Measure] = {
        ATTNX: partial(measure_here, partial(by_attnx, accelerated=True)),
        BROADCAST: partial(measure_here, partial(by_attnx, accelerated=False)),
    }
    if "compile" in options.also:
        ready[COMPILED] = partial(measure_here, lambda _: compiled())
    if "keras" not in options.also:
        return ready, {}
    try:
        with console.status("keras: looking for it, installing it if need be"):
            return ready | {KERAS.row: Elsewhere(install(KERAS, options.envs), options.threads)}, {}
    except FailedError as error:
        return ready, {KERAS.row: f"cannot be installed: {error}"}


def measure_shape(
    shape: Shape, ready: dict[str, Measure], options: argparse.Namespace, console: Console
) -> dict[str, Any]:
    """Seconds of all libraries per round, peaks and errors at one shape, and why some have none."""
    hidden = 4 * torch.Size(shape).numel()
    too_large = {
        name: f"each of its (b, q, m, d) tensors takes {hidden / 1e9:.1f} GB" for name in HIDDEN if name in ready
    }
    problems = too_large if hidden > options.largest * 1e9 else {}
    results: dict[str, Any] = {"shape": shape, "seconds": {}, "peak": {}, "problems": problems}
    for way in WAYS:
        for number in range(options.rounds):
            for name in (name for name in ready if name not in problems):
                with console.status(f"{shape}, {WAYS[way]}, round {number + 1} of {options.rounds}: {name}"):
                    try:
                        took = ready[name]("seconds", shape, way)
                    except (FailedError, RuntimeError) as error:
                        problems[name] = f"failed: {str(error).splitlines()[0]}"
                        continue
                results["seconds"].setdefault(way, {}).setdefault(name, []).append(took)
        peaks = {name: measure for name, measure in ready.items() if name not in problems} | {
            DOT: partial(measure_here, by_dot)
        }
        results["peak"][way] = {name: measure("peak", shape, way) for name, measure in peaks.items()}
    results["error"] = {ATTNX: errors(shape, True)}
    if BROADCAST not in problems:
        results["error"][BROADCAST] = errors(shape, False)
    return results


def errors(shape: Shape, accelerated: bool) -> dict[str, float]:
    """The largest error of contexts and of each gradient, and the largest value: float32 and float64."""
    *operands, grad_context = draw_tensors(*shape)
    results = work_of(by_attnx(shape[-1], accelerated=accelerated), operands, grad_context, "both")()
    compared = zip(("contexts", "queries", "keys", "values", "v"), results, exact(shape), strict=True)
    return {name: ((result - right).abs().max() / right.abs().max()).item() for name, result, right in compared}


@cache
def exact(shape: Shape) -> list[Tensor]:
    """Contexts and gradients by the definition in double precision, some queries at a time."""
    queries, keys, values, v, grad_context = (tensor.double() for tensor in draw_tensors(*shape))
    results = [torch.empty_like(queries), *map(torch.zeros_like, (queries, keys, values, v))]
    for row, first in product(range(shape[0]), range(0, shape[1], 50)):
        block = slice(row, row + 1), slice(first, first + 50)
        leaves = [part.requires_grad_() for part in (queries[block], keys[block[:1]], values[block[:1]], v.detach())]
        context = broadcast(*leaves)
        results[0][block] = context.detach()
        gradients = torch.autograd.grad(context, leaves, grad_context[block])
        totals = (results[1][block], results[2][row], results[3][row], results[4])
        for total, part in zip(totals, gradients, strict=True):
            total += part.reshape(total.shape)
    return results


def ratios(rounds: dict[str, list[float]]) -> dict[str, list[float]]:
    """For each round, how many times as fast attnx was as each other library."""
    attnx = rounds[ATTNX]
    peers = {name: times for name, times in rounds.items() if name != ATTNX}
    return {name: [them / us for us, them in zip(attnx, times, strict=False)] for name, times in peers.items()}


def show(results: dict[str, Any], console: Console) -> None:
    batch, queries, positions, width = results["shape"]
    title = f"batch {batch}, {queries} queries, {positions} positions, {width} hidden units"
    table = Table(title=title, title_justify="left")
    table.add_column("", no_wrap=True)
    for way in WAYS.values():
        for heading in (f"{way} ms", "attnx is faster by", "peak MB"):
            table.add_column("\n".join(heading.split()), justify="right")
    for name in results["peak"]["both"]:
        cells = []
        for way in WAYS:
            rounds, peaks = results["seconds"][way], results["peak"][way]
            compared = ratios(rounds).get(name)
            cells.append(f"{1e3 * median(rounds[name]):.1f}" if name in rounds else "-")
            cells.append(f"{median(compared):.1f}" if compared else "-")
            cells.append(f"{peaks[name] / 1e6:.1f}")
        table.add_row(name, *cells)
    console.print(table)
    for name, error in results["error"].items():
        listed = ", ".join(f"{of} {largest:.0e}" for of, largest in error.items())
        console.print(f"{name}: errors in float32 of {listed}", highlight=False)
    for name, problem in results["problems"].items():
        console.print(f"{name}: {problem}", style="red", highlight=False, markup=False)


def read_options() -> argparse.Namespace:
    cached = ROOT / ".benchmarks"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    shapes = ["x".join(map(str, shape)) for shape in SHAPES]
    add("--shapes", nargs="+", default=shapes, metavar="BxQxMxD", help="batch, queries, positions, hidden units")
    add("--rounds", type=int, default=5, help="all are measured once per round")
    add("--threads", type=int, default=2, help="CPU threads")
    add("--also", nargs="*", choices=("compile", "keras"), default=["compile", "keras"], help="peers to compare with")
    add("--largest", type=float, default=3.0, help="gigabytes of the largest tensor to try")
    add("--envs", type=Path, default=cached, help="folder of the peers' environments")
    add("--out", type=Path, default=cached / "additive_operator.json", help="JSON file to write")
    options = parser.parse_args()
    if min(options.rounds, options.threads) < 1:
        parser.error("--rounds and --threads must be at least 1")
    try:
        options.shapes = [tuple(map(int, shape.split("x"))) for shape in options.shapes]
    except ValueError:
        parser.error("a shape is four numbers, such as 4x400x400x256")
    if any(len(shape) != 4 or min(shape) < 1 for shape in options.shapes):
        parser.error("a shape is four numbers, such as 4x400x400x256")
    return options


def main() -> None:
    options, console = read_options(), Console()
    torch.set_num_threads(options.threads)
    cpus_used = watch_neighbors()
    ready, problems = contenders(options, console)
    measured = []
    for shape in options.shapes:
        measured.append(measure_shape(shape, ready, options, console))
        show(measured[-1], console)
    for name, problem in problems.items():
        console.print(f"{name} {problem}", style="red", highlight=False, markup=False)
    used = cpus_used()
    if used is not None and used >= BUSY:
        console.print(f"other programs used {used:.1f} CPUs: run it again on an idle machine", style="red")
    results = {
        "measured": [result | {"ratios": {way: ratios(result["seconds"][way]) for way in WAYS}} for result in measured],
        "problems": problems,
        "cpus_used_by_other_programs": used,
    }
    record(options.out, {"rounds": options.rounds, "threads": options.threads}, results)


if __name__ == "__main__":
    main()
