"""An LSTM over rows of different lengths: attnx's, whose cell is in C, and torch's, packed and padded.

All have the same weights and rows of embedded symbols. attnx projects the embedding table once, as models do without
dropout of their embeddings, or gets embedded rows (``rows given``), as torch does. Torch's ``padded`` treats every row
as full; padding then enters the backward direction, so it is a bound on speed and no correct LSTM. All are measured
once per round, in turn. Printed and written as JSON are medians, matrix products per second as a share of the machine's
peak (padding is no work; work that a lookup saves counts), and how many times as fast attnx was in the same round.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from peers.contest import Rounds, by_row, table
from peers.environments import ROOT
from peers.matrix_peak import peak
from peers.neighbors import BUSY, watch_neighbors
from peers.record import record
from rich.console import Console
from torch import Tensor

from attnx import accel
from attnx.accel.lstm.autograd import Lookup
from attnx.accel.lstm.bindings import can_run_lstm
from attnx.nn.recurrent import Recurrent

ATTNX, PEERS = "attnx", ("attnx, rows given", "torch packed", "torch padded")
SYMBOLS = 40


class Shape(NamedTuple):
    """Rows, the steps of the longest, widths of a symbol and of the extra inputs, units per direction, directions."""

    rows: int
    steps: int
    symbol: int
    features: int
    units: int
    directions: int

    def __str__(self) -> str:
        width = f"{self.symbol} + {self.features}" if self.features else self.symbol
        return f"{self.rows} rows to {self.steps} steps, {width} to {self.directions} x {self.units}"


SHAPES = (
    Shape(128, 9, 128, 0, 256, 2),
    Shape(128, 9, 128, 512, 256, 1),
    Shape(64, 9, 64, 0, 128, 2),
    Shape(32, 40, 256, 0, 512, 2),
)
"""The encoder and a decoder of the benchmark of training speed; a small model; long sources in a large one."""


class Measured:
    """One shape, ready to run in every way."""

    def __init__(self, shape: Shape) -> None:
        torch.manual_seed(0)
        self.shape = shape
        width = shape.symbol + shape.features
        self.recurrent = Recurrent("lstm", width, shape.units, bidirectional=shape.directions == 2)
        self.plain = copy.deepcopy(self.recurrent)
        accel.enable(self.recurrent)
        self.table = torch.randn(SYMBOLS, shape.symbol, requires_grad=True)
        self.ids = torch.randint(0, SYMBOLS, (shape.rows, shape.steps))
        features = [torch.randn(shape.rows, shape.steps, shape.features, requires_grad=True)] if shape.features else []
        self.features = tuple(features)
        self.lengths = torch.randint(shape.steps - shape.steps // 4, shape.steps + 1, (shape.rows,))
        self.grad_outputs = torch.randn(shape.rows, shape.steps, shape.units * shape.directions)
        steps = int(self.lengths.sum())
        self.work = 2 * steps * (width + shape.units) * 4 * shape.units * shape.directions

    def outputs(self, way: str) -> Tensor:
        """Run it forward."""
        lengths = None if way == "torch padded" else self.lengths
        if way == ATTNX:
            rows = F.embedding(self.ids, self.table)
            rows.lookup = Lookup(self.table, self.ids)  # type: ignore[attr-defined]
            return self.recurrent.run([rows, *self.features], lengths).outputs[-1]
        inputs = torch.cat([F.embedding(self.ids, self.table), *self.features], dim=-1)
        recurrent = self.recurrent if way == PEERS[0] else self.plain
        return recurrent.run([inputs], lengths).outputs[-1]

    def train(self, way: str) -> None:
        """Run forward and backward."""
        recurrent = self.recurrent if way in (ATTNX, PEERS[0]) else self.plain
        leaves = [self.table, *self.features, *recurrent.parameters()]
        torch.autograd.grad(self.outputs(way), leaves, self.grad_outputs)

    @torch.inference_mode()
    def infer(self, way: str) -> None:
        """Run forward alone."""
        self.outputs(way)

    def seconds(self, run: Callable[[str], None], way: str, repeats: int) -> float:
        """The mean time of a run over several."""
        run(way)
        start = time.perf_counter()
        for _ in range(repeats):
            run(way)
        return (time.perf_counter() - start) / repeats


def measure_all(ready: list[Measured], repeats: int) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Milliseconds of all ways in every shape, shares of the peak, and ratios."""
    milliseconds, shares, ratios = {}, {}, {}
    most = peak()
    for measured in ready:
        for name, run, passes in (("training", measured.train, 3), ("inference", measured.infer, 1)):
            row = f"{measured.shape}, {name}: "
            seconds = {way: measured.seconds(run, way, repeats) for way in (ATTNX, *PEERS)}
            for way, value in seconds.items():
                milliseconds[row + way] = 1000 * value
                shares[row + way] = 100 * passes * measured.work / value / most
            ratios |= {f"{row}{ATTNX} / {way}": seconds[way] / seconds[ATTNX] for way in PEERS}
    return milliseconds, shares, ratios


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--rounds", type=int, default=5, help="all are measured once per round")
    add("--repeats", type=int, default=20, help="runs in a measurement")
    add("--threads", type=int, default=1, help="CPU threads")
    add("--out", type=Path, default=ROOT / ".benchmarks" / "lstm_speed.json", help="JSON file to write")
    options = parser.parse_args()
    if min(options.rounds, options.repeats, options.threads) < 1:
        parser.error("all numbers must be at least 1")
    return options


def main() -> None:
    options, console = read_options(), Console()
    torch.set_num_threads(options.threads)
    ready = [Measured(shape) for shape in SHAPES]
    if not can_run_lstm(ready[0].table):
        raise SystemExit("error: there is no C compiler here that works; attnx would be torch")
    busy_cpus = watch_neighbors()
    with console.status("measuring"):
        results = [measure_all(ready, options.repeats) for _ in range(options.rounds)]
    used = busy_cpus()
    titles = ("milliseconds", "percent of the machine's peak", "how many times as fast, in the same round")
    tables: dict[str, Rounds] = {
        title: list(rounds) for title, rounds in zip(titles, zip(*results, strict=True), strict=True)
    }
    for (title, rounds), digits in zip(tables.items(), (1, 0, 2), strict=True):
        console.print(table(title, rounds, digits))
    if (used or 0) >= BUSY:
        console.print("other programs were busy: trust ratios, and no time", style="red")
    chosen_options = {name: getattr(options, name) for name in ("rounds", "repeats", "threads")}
    measured = {title: by_row(rounds) for title, rounds in tables.items()}
    record(options.out, chosen_options, {"cpus_used_by_other_programs": used, **measured})


if __name__ == "__main__":
    main()
