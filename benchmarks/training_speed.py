"""Training speed in words per second: attnx, a loop by hand, yoyodyne and joeynmt, with the same pairs and sizes.

The loop by hand is attnx's model in plain torch. Every other peer is installed from its package into an environment of
its own. All are measured in turn, round after round.
Printed and written as JSON are the speeds, how many times as fast attnx was in the same round, and the share of the
machine's peak in matrix products.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from peers.contest import Rounds, by_row, measure_round, show_trouble, table
from peers.environments import PEERS, ROOT, find, run
from peers.record import record
from peers.training import HIDDEN, SIZES, STEP_BY_STEP, draw_pairs, read_speed, train_attnx, write_pairs
from rich.console import Console

WARMUP = 3
"""Steps before the watch starts: the first ones pay for allocation and for starting the loaders."""

# The context enters the recurrence where it is not fed to the readout alone. yoyodyne's does, as the third's; joeynmt's
# enters its readout alone, as the first's, though joeynmt goes step by step.
SCHEDULES: dict[str, tuple[str, ...]] = {
    "attnx, run then attend": ("model.feed=none",),
    "attnx, attend then run": ("+query=token", "model.feed=now"),
    "attnx, step by step": STEP_BY_STEP,
}
UNSORTED = ", unsorted"
"""Of the same rows without bucketing: rows of any lengths meet in a batch."""

BY_HAND = "by_hand"
HAND_ROWS = {row: row.replace("attnx", "by hand") for row in SCHEDULES}
"""The row of the hand-written loop with the model of a row of attnx."""

ATTNX_ROWS = SCHEDULES | {row + UNSORTED: (*extra, "trainer.bucket_pool_batches=1") for row, extra in SCHEDULES.items()}


def flop_of_a_word(row: str, letters: float, symbols: float) -> float:
    """Floating-point operations to train on a word with these numbers of letters and symbols (its end included).

    Every weight of a matrix counts one multiplication and addition per use, and two more for the gradients. Padding
    and operations other than matrix products do not count.
    """
    width, encoder, decoder = SIZES["embedding"], SIZES["encoder"], SIZES["decoder"]
    memory = 2 * encoder
    fed, query = (0, decoder) if "run then" in row else (memory, width if "attend then" in row else decoder)
    a_letter = 2 * 4 * encoder * (width + encoder) + memory * HIDDEN
    a_symbol = 4 * decoder * (width + fed + decoder) + query * HIDDEN + (decoder + memory) * decoder
    a_read = letters * (HIDDEN + memory)
    return 6 * (letters * a_letter + symbols * (a_symbol + a_read))


@dataclass(frozen=True)
class Request:
    """One measurement, the same for all libraries."""

    pairs: Path
    steps: int
    threads: int
    limit: float
    """Seconds after which it is given up."""

    @property
    def training_request(self) -> dict[str, Any]:
        """The request for the peers' scripts; the watch stops at the start of the step after the last timed one."""
        return {
            "pairs": str(self.pairs),
            **SIZES,
            "updates": WARMUP + self.steps + 1,
            "warmup": WARMUP,
            "steps": self.steps,
            "threads": self.threads,
        }


SCRIPTS = Path(__file__).parent / "peers"
PEAK, HAND = SCRIPTS / "matrix_peak.py", SCRIPTS / "by_hand_speed.py"
Measure = Callable[[Request], float]


def measure_script(request: Request, python: Path, script: Path, **options: str) -> float:
    """Words per second of a peer, from the last line of its script; ``options`` are further fields of its request."""
    with tempfile.TemporaryDirectory() as folder:
        request_json = json.dumps(request.training_request | options)
        printed = run([python, script, request_json], Path(folder), request.threads, request.limit)
    return float(json.loads(printed.splitlines()[-1])["words_per_second"])


def measure_attnx(request: Request, overrides: Sequence[str]) -> float:
    """Words per second of an ordinary run of attnx, from its run folder.

    Raises:
        FailedError: the run fails or does not state its speed.
    """
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "run"
        train_attnx(request.training_request, folder, overrides, request.limit)
        return read_speed(folder)


def contenders(
    envs: Path, only: Sequence[str], rows: str, console: Console
) -> tuple[dict[str, Measure], dict[str, str]]:
    """The libraries to compare, in the order of a round, and why others cannot take part."""
    ready: dict[str, Measure] = {}
    if "attnx" in only:
        ready |= {row: partial(measure_attnx, overrides=extra) for row, extra in ATTNX_ROWS.items() if rows in row}
    if BY_HAND in only:
        python = Path(sys.executable)
        for row in (hand for attnx, hand in HAND_ROWS.items() if rows in attnx):
            schedule = row.removeprefix("by hand, ")
            ready[row] = partial(measure_script, python=python, script=HAND, schedule=schedule)
    pythons, problems = find([peer for peer in PEERS if peer.name in only], envs, console)
    for peer, python in pythons.items():
        ready[peer.row] = partial(measure_script, python=python, script=peer.script("speed"))
    return ready, problems


def compete(
    ready: dict[str, Measure], problems: dict[str, str], request: Request, rounds: int, console: Console
) -> tuple[Rounds, Rounds, list[float]]:
    """Measure all libraries once per round: words per second, CPUs of other programs, and the machine's peak."""
    entrants = {row: partial(measure, request) for row, measure in ready.items()}
    results = []
    peaks: list[float] = []
    for number in range(1, rounds + 1):
        title = f"round {number} of {rounds}"
        peaks.append(float(run([sys.executable, PEAK, str(request.threads)], ROOT, request.threads)))
        console.print(f"{title}: matrix products: {peaks[-1] / 1e9:.0f} GFLOP/s", highlight=False)
        results.append(measure_round(title, entrants, problems, console))
    return [speed for speed, _ in results], [busy for _, busy in results], peaks


def shares(speeds: Rounds, peaks: Sequence[float], flop: dict[str, float]) -> Rounds:
    """For each round, each row's share of the machine's peak in percent."""
    return [
        {row: 100 * speed[row] * flop[row] / peak for row in flop if row in speed}
        for speed, peak in zip(speeds, peaks, strict=True)
    ]


def ratios(speeds: Rounds) -> Rounds:
    """For each round, how many times as fast each attnx row was as the same model by hand and as each peer."""
    compared = [(row, peer) for row in SCHEDULES for peer in (HAND_ROWS[row], *(peer.row for peer in PEERS))]
    return [
        {f"{row} / {peer}": speed[row] / speed[peer] for row, peer in compared if row in speed and peer in speed}
        for speed in speeds
    ]


@dataclass
class Measurements:
    """The measurements with one number of threads."""

    request: Request
    speeds: Rounds
    busy_cpus: Rounds
    peaks: list[float]
    flop: dict[str, float]
    problems: dict[str, str]

    def show(self, console: Console) -> None:
        words = self.request.steps * SIZES["batch"]
        console.print(table(f"words per second ({words} words, threads: {self.request.threads})", self.speeds, 0))
        if any(compared := ratios(self.speeds)):
            console.print(table("how many times as fast, in the same round", compared, 2))
        if any(reached := shares(self.speeds, self.peaks, self.flop)):
            console.print(table("percent of the machine's peak in the same round", reached, 0))
        show_trouble(self.problems, self.busy_cpus, console)

    def as_json(self) -> dict[str, Any]:
        return {
            "words_per_second": by_row(self.speeds),
            "ratios": by_row(ratios(self.speeds)),
            "percent_of_peak": by_row(shares(self.speeds, self.peaks, self.flop)),
            "peak_flop_per_second": self.peaks,
            "flop_of_a_word": self.flop,
            "cpus_used_by_other_programs": by_row(self.busy_cpus),
            "problems": self.problems,
        }


def read_options() -> argparse.Namespace:
    names = ("attnx", BY_HAND, *(peer.name for peer in PEERS))
    cache = ROOT / ".benchmarks"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--rounds", type=int, default=3, help="all are measured once per round")
    add("--words", type=int, default=6400, help="training pairs in each measurement")
    add("--threads", type=int, nargs="+", default=[2, 1], help="CPU threads; all are measured with each number")
    add("--rows", metavar="WORDS", default="attnx", help="only attnx rows with these words, and their models by hand")
    add("--pairs", type=Path, metavar="FILE", help="TSV file of pairs, instead of the shipped CMUdict")
    add("--only", nargs="+", choices=names, default=names, help="packages to compare")
    add("--envs", type=Path, default=cache, help="folder of the peers' environments")
    add("--limit", type=float, default=900.0, help="time limit of a measurement in seconds")
    add("--out", type=Path, default=cache / "training_speed.json", help="JSON file to write")
    options = parser.parse_args()
    if min(options.rounds, options.words, *options.threads) < 1:
        parser.error("--rounds, --words and --threads must be at least 1")
    return options


def main() -> None:
    options, console = read_options(), Console()
    steps = math.ceil(options.words / SIZES["batch"])
    # Enough pairs for a single epoch: the pause between two epochs is not what is compared.
    pairs = draw_pairs((WARMUP + steps + 1) * SIZES["batch"], options.pairs)
    ready, problems = contenders(options.envs, options.only, options.rows, console)
    measurements: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pairs.tsv"
        drawn = write_pairs(pairs, file)
        letters, symbols = (mean(len(side) for side in sides) for sides in zip(*drawn, strict=True))
        flop = {row: flop_of_a_word(row, letters, symbols + 1) for row in (*ATTNX_ROWS, *HAND_ROWS.values())}
        for threads in options.threads:
            request, failed = Request(file, steps, threads, options.limit), dict(problems)
            measured = Measurements(request, *compete(ready, failed, request, options.rounds, console), flop, failed)
            measured.show(console)
            measurements[f"threads {threads}"] = measured.as_json()
            record(options.out, {"words": steps * SIZES["batch"], "warmup_steps": WARMUP, **SIZES}, measurements)


if __name__ == "__main__":
    main()
