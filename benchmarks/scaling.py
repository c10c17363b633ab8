"""How time and memory of every scorer in every scope grow with queries, positions, widths and windows.

Each composition runs once forward and backward, then again with one size doubled. Both results, and the base-2
logarithm of their ratio, are printed and written as JSON: 0 is constant, 1 linear, 2 quadratic. Memory is the peak of
torch's allocated bytes, without the inputs.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch
from peers.environments import ROOT
from peers.measures import Work, peak
from peers.neighbors import BUSY, watch_neighbors
from peers.record import record
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import track
from rich.table import Table

from attnx import accel, registry
from attnx.attention import Memory
from attnx.attention.factory import build_attention
from attnx.attention.memory import concat_sources, hide_future

SIZES = {"q": "queries", "m": "positions of each source", "d": "width of everything", "window": "of local scopes"}
"""What is doubled in turn."""

Sizes = dict[str, int]
Scope = tuple[str, dict[str, Any]]
MIB = 2**20


def compositions(only: list[str]) -> Iterator[tuple[str, Scope]]:
    """Every scorer with every scope, and with the predictive center of local."""
    scopes: list[Scope] = [*((name, {}) for name in registry.names("scope")), ("local", {"center": "predictive"})]
    for scorer in registry.names("scorer"):
        if not only or scorer in only:
            yield from ((scorer, scope) for scope in scopes)


class Read:
    """One composition at one set of sizes, ready to run."""

    def __init__(self, scorer: str, scope: Scope, batch: int, sizes: Sizes, accelerated: bool) -> None:
        steps, positions, width = (sizes[name] for name in "qmd")
        options = {option.name for option in registry.describe("scorer", scorer).options}
        widths = {"hidden_size": width, "hidden_sizes": [width]}
        hidden = {option: value for option, value in widths.items() if option in options}
        name, options = scope
        window = {"window": sizes["window"]} if name == "local" else {}
        spec = name, {**options, **window}
        scope_itself: Any = registry.build("scope", spec, query_size=width)
        self.sources = scope_itself.sources
        self.attention = build_attention((scorer, hidden), scope_itself, "softmax", width, width, width, {})
        if accelerated:
            accel.enable(self.attention)
        torch.manual_seed(0)
        self.queries = torch.randn(batch, steps, width, requires_grad=True)
        self.states = [torch.randn(batch, positions, width, requires_grad=True) for _ in self.sources]
        self.first = torch.arange(steps) * positions // steps

    def memory(self) -> Memory:
        """The sources; the decoder's states are visible up to each step."""
        memories: list[Memory] = []
        for source, states in zip(self.sources, self.states, strict=True):
            memories.append(self.attention.make_memory(states))
            if source == "decoder":
                memory = memories[0] if len(memories) == 1 else concat_sources(*memories)
                return hide_future(memory, self.first)
        return memories[0]

    def __call__(self) -> None:
        """Run forward and backward."""
        context = self.attention(self.queries, self.memory()).context
        learned = [parameter for parameter in self.attention.parameters() if parameter.requires_grad]
        torch.autograd.grad(context.sum(), (self.queries, *self.states, *learned), allow_unused=True)

    def measured(self, repeats: int) -> dict[str, float]:
        """Minimum milliseconds of several runs, and peak bytes."""
        times, work = [], cast("Work", self)
        for _ in range(repeats):
            start = time.perf_counter()
            self()
            times.append(1000 * (time.perf_counter() - start))
        return {"ms": min(times), "bytes": peak(work)}


def measure(scorer: str, scope: Scope, options: argparse.Namespace) -> dict[str, Any]:
    """One row: the base, and the slopes along each axis that the composition has."""
    sizes = {name: getattr(options, name) for name in SIZES}
    name, scope_options = scope
    rows = {"base": sizes} | {axis: {**sizes, axis: 2 * sizes[axis]} for axis in SIZES}
    if name != "local":
        del rows["window"]
    measurements = {
        axis: Read(scorer, scope, options.batch, row, options.accel == "auto").measured(options.repeats)
        for axis, row in rows.items()
    }
    base = measurements.pop("base")
    slopes = {
        axis: {unit: math.log2(doubled[unit] / base[unit]) for unit in ("ms", "bytes")}
        for axis, doubled in measurements.items()
    }
    return {"scorer": scorer, "scope": name, "options": scope_options, **base, "slopes": slopes}


def show(rows: list[dict[str, Any]], console: Console) -> None:
    title = "time and memory, and the log2 of how many times as much of each it takes with one size doubled"
    display = Table(title=title, title_justify="left", box=SIMPLE, pad_edge=False)
    for heading in ("scorer", "scope"):
        display.add_column(heading, no_wrap=True)
    for heading in ("ms", "MiB", *SIZES):
        display.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        scope = " ".join([row["scope"], *map(str, row["options"].values())])
        slopes = [row["slopes"].get(axis) for axis in SIZES]
        cells = ["-" if slope is None else f"{slope['ms']:.1f} {slope['bytes']:.1f}" for slope in slopes]
        display.add_row(row["scorer"], scope, f"{row['ms']:.1f}", f"{row['bytes'] / MIB:.1f}", *cells)
    console.print(display)


def write(options: argparse.Namespace, rows: list[dict[str, Any]], used: float | None) -> None:
    chosen_options = {key: getattr(options, key) for key in (*SIZES, "batch", "threads", "repeats", "accel")}
    record(options.out, chosen_options, {"cpus_used_by_other_programs": used, "measured": rows})


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    for (name, meaning), default in zip(SIZES.items(), (64, 512, 64, 2), strict=True):
        add(f"--{name}", type=int, default=default, help=meaning)
    add("--batch", type=int, default=2, help="rows")
    add("--threads", type=int, default=1, help="CPU threads")
    add("--repeats", type=int, default=3, help="calls, of which the fastest counts")
    add("--accel", choices=("auto", "off"), default="auto", help="fast paths, or the definition alone")
    add("--scorers", nargs="+", choices=registry.names("scorer"), default=[], help="only these")
    add("--out", type=Path, default=ROOT / ".benchmarks" / "scaling.json", help="JSON file to write")
    options = parser.parse_args()
    if min(*(getattr(options, name) for name in SIZES), options.batch, options.threads, options.repeats) < 1:
        parser.error("all numbers must be at least 1")
    return options


def main() -> None:
    options, console = read_options(), Console()
    torch.set_num_threads(options.threads)
    busy_cpus = watch_neighbors()
    pairs = list(compositions(options.scorers))
    rows = [measure(*pair, options) for pair in track(pairs, "reading", console=console, transient=True)]
    used = busy_cpus()
    show(rows, console)
    if (used or 0) >= BUSY:
        console.print("other programs were busy: trust the memory, and no time", style="red")
    write(options, rows, used)


if __name__ == "__main__":
    main()
