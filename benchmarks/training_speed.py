"""Training speed in words per second: attnx beside yoyodyne and joeynmt, same pairs, sizes and threads.

Every peer is installed from its package into an environment of its own. Everybody is measured in turn, round
after round; the speeds, how many times as fast attnx was in the same round, and what share of the machine's peak
in matrix products its schedules reached are printed and written as JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import mean, median
from typing import Any, TypedDict

from peers.environments import PEERS, ROOT, FailedError, Peer, install, run
from peers.neighbours import BUSY, watch_neighbours
from peers.record import record
from rich.console import Console
from rich.table import Table

from attnx.data.cmudict import read_cmudict
from attnx.data.pairs import Pair, Symbols, read_pairs
from attnx.errors import UserError

SIZES = {"batch": 128, "embedding": 128, "encoder": 256, "decoder": 256}
"""The same for everybody; the encoder's LSTM has this many units in each of its two directions."""

WARMUP = 3
"""Steps before the watch starts: the first ones pay for allocation and for starting the loaders."""

HIDDEN = 128
"""Units of the additive scorer."""

ATTNX = (
    "task.train={pairs}",
    "folder={folder}",
    "trainer.max_steps={updates}",
    "trainer.batch_size={batch}",
    "trainer.validations=1",
    "trainer.valid_words=10",
    "trainer.test_words=10",
    "model.embedding={embedding}",
    "encoder.hidden={encoder}",
    "decoder.hidden={decoder}",
    "+scorer=additive",
    f"scorer.hidden={HIDDEN}",
)
"""The overrides of every attnx row; `measure_attnx` fills the braces."""

# The context enters the recurrence where it is not fed to the readout alone: the peers do as the third one does.
SCHEDULES: dict[str, tuple[str, ...]] = {
    "attnx, run then attend": ("model.feed=none",),
    "attnx, attend then run": ("+query=token", "model.feed=now"),
    "attnx, step by step": ("+query=previous_state", "model.feed=now"),
}
UNSORTED = ", unsorted"
"""Of the same rows without bucketing: rows of any lengths meet in a batch."""

ATTNX_ROWS = SCHEDULES | {row + UNSORTED: (*extra, "trainer.pool=1") for row, extra in SCHEDULES.items()}


def flop_of_a_word(row: str, letters: float, symbols: float) -> float:
    """Floating-point operations that training on a word of so many letters and symbols (its end included) takes.

    Every weight of a matrix is multiplied and added once a time it is used, and twice more for the gradients.
    Padding and whatever is no matrix product are not counted.
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
    """One measurement, the same for everybody."""

    pairs: Path
    steps: int
    threads: int
    limit: float
    """Seconds after which it is given up."""

    @property
    def wanted(self) -> dict[str, str | int]:
        """What the peers' scripts are told."""
        return {
            "pairs": str(self.pairs),
            **SIZES,
            "warmup": WARMUP,
            "steps": self.steps,
            "threads": self.threads,
        }


PEAK = Path(__file__).parent / "peers" / "matrix_peak.py"
Measure = Callable[[Request], float]
Rounds = list[dict[str, float]]
"""For each round, a number for every row that has one."""


def measure_peer(request: Request, peer: Peer, python: Path) -> float:
    """Words per second of a peer, as its script prints them in its last line."""
    with tempfile.TemporaryDirectory() as folder:
        asked = json.dumps(request.wanted)
        printed = run([python, peer.script, asked], Path(folder), request.threads, request.limit)
    return float(json.loads(printed.splitlines()[-1])["words_per_second"])


def measure_attnx(request: Request, overrides: Sequence[str]) -> float:
    """Words per second of an ordinary run of attnx, as its run folder states them.

    Raises:
        FailedError: the run fails or does not state its speed.
    """
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "run"
        filled = {**request.wanted, "folder": folder, "updates": WARMUP + request.steps + 1}
        settings = [override.format(**filled) for override in (*ATTNX, *overrides)]
        run([sys.executable, "-m", "attnx", *settings], ROOT, request.threads, request.limit)
        try:
            results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
            return float(results["train_words_per_second"])
        except (OSError, KeyError) as error:
            raise FailedError(f"its run folder does not state its speed: {error}") from error


def write_pairs(pairs: list[Pair], count: int, path: Path) -> list[tuple[Symbols, Symbols]]:
    """Write so many pairs, drawn at random but always the same ones, each with its first pronunciation."""
    drawn = [(pair.source, pair.references[0]) for pair in random.Random(0).sample(pairs, count)]
    lines = ["".join(letters) + "\t" + " ".join(symbols) + "\n" for letters, symbols in drawn]
    path.write_text("".join(lines), encoding="utf-8")
    return drawn


def contenders(
    envs: Path, only: Sequence[str], rows: str, console: Console
) -> tuple[dict[str, Measure], dict[str, str]]:
    """Who takes part, in the order of a round, and what is wrong with those who cannot."""
    ready: dict[str, Measure] = {}
    problems: dict[str, str] = {}
    if "attnx" in only:
        ready |= {row: partial(measure_attnx, overrides=extra) for row, extra in ATTNX_ROWS.items() if rows in row}
    for peer in PEERS:
        if peer.name not in only:
            continue
        try:
            with console.status(f"{peer.row}: looking for it, installing it if need be"):
                ready[peer.row] = partial(measure_peer, peer=peer, python=install(peer, envs))
        except FailedError as error:
            problems[peer.row] = f"cannot be installed: {error}"
    return ready, problems


def compete(
    ready: dict[str, Measure], problems: dict[str, str], request: Request, rounds: int, console: Console
) -> tuple[Rounds, Rounds, list[float]]:
    """Measure everybody once a round: words per second, the CPUs that others used meanwhile, and the machine's peak.

    Who fails is noted among the problems and left out from then on.
    """
    speeds: Rounds = [{} for _ in range(rounds)]
    others: Rounds = [{} for _ in range(rounds)]
    peaks: list[float] = []
    for number, (speed, busy) in enumerate(zip(speeds, others, strict=True), 1):
        peaks.append(float(run([sys.executable, PEAK, str(request.threads)], ROOT, request.threads)))
        console.print(f"round {number} of {rounds}: matrix products: {peaks[-1] / 1e9:.0f} GFLOP/s", highlight=False)
        for row in (row for row in ready if row not in problems):
            used_by_others = watch_neighbours()
            try:
                with console.status(f"round {number} of {rounds}: {row}"):
                    speed[row] = ready[row](request)
            except FailedError as error:
                problems[row] = f"failed: {error}"
                continue
            line = f"round {number} of {rounds}: {row}: {speed[row]:.0f} words/s"
            if (used := used_by_others()) is not None:
                busy[row] = used
                line += f", others used {used:.1f} CPUs" + (": disturbed" if used >= BUSY else "")
            console.print(line, highlight=False)
    return speeds, others, peaks


def shares(speeds: Rounds, peaks: Sequence[float], flop: dict[str, float]) -> Rounds:
    """For each round, what share of the machine's peak in that round each row reached, in percent."""
    return [
        {row: 100 * speed[row] * flop[row] / peak for row in flop if row in speed}
        for speed, peak in zip(speeds, peaks, strict=True)
    ]


def ratios(speeds: Rounds) -> Rounds:
    """For each round, how many times as fast each attnx row was as each peer."""
    return [
        {
            f"{ours} / {peer.row}": speed[ours] / speed[peer.row]
            for ours in SCHEDULES
            for peer in PEERS
            if ours in speed and peer.row in speed
        }
        for speed in speeds
    ]


class Row(TypedDict):
    """A row's median and its value in each round, None where it has none."""

    median: float
    rounds: list[float | None]


def by_row(rounds: Rounds) -> dict[str, Row]:
    """Turn rounds of rows into rows of rounds."""
    rows = dict.fromkeys(chain.from_iterable(rounds))
    return {
        row: Row(
            median=median(each[row] for each in rounds if row in each),
            rounds=[each.get(row) for each in rounds],
        )
        for row in rows
    }


def table(title: str, rounds: Rounds, digits: int) -> Table:
    """One line a row: its median, then its rounds."""
    drawn = Table(title=title, title_justify="left")
    drawn.add_column("")
    for heading in ("median", *(f"round {number}" for number in range(1, len(rounds) + 1))):
        drawn.add_column(heading, justify="right")
    for name, row in by_row(rounds).items():
        cells = (row["median"], *row["rounds"])
        drawn.add_row(name, *("-" if cell is None else f"{cell:.{digits}f}" for cell in cells))
    return drawn


@dataclass
class Found:
    """What was measured on so many threads."""

    request: Request
    speeds: Rounds
    others: Rounds
    peaks: list[float]
    flop: dict[str, float]
    problems: dict[str, str]

    def show(self, console: Console) -> None:
        """Print the tables and what went wrong."""
        words = self.request.steps * SIZES["batch"]
        console.print(table(f"words per second ({words} words, threads: {self.request.threads})", self.speeds, 0))
        if any(compared := ratios(self.speeds)):
            console.print(table("how many times as fast, in the same round", compared, 2))
        if any(reached := shares(self.speeds, self.peaks, self.flop)):
            console.print(table("percent of the machine's peak in the same round", reached, 0))
        for row, problem in self.problems.items():
            console.print(f"{row} {problem}", style="red", highlight=False, markup=False)
        if disturbed := sum(used >= BUSY for busy in self.others for used in busy.values()):
            advice = "run it again on an idle machine"
            console.print(f"{disturbed} measurements were disturbed by other programs: {advice}", style="red")

    def as_json(self) -> dict[str, Any]:
        """The same, to be written."""
        return {
            "words_per_second": by_row(self.speeds),
            "ratios": by_row(ratios(self.speeds)),
            "percent_of_peak": by_row(shares(self.speeds, self.peaks, self.flop)),
            "peak_flop_per_second": self.peaks,
            "flop_of_a_word": self.flop,
            "cpus_used_by_others": by_row(self.others),
            "problems": self.problems,
        }


def read_options() -> argparse.Namespace:
    """The command line."""
    names = ("attnx", *(peer.name for peer in PEERS))
    cache = ROOT / ".benchmarks"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--rounds", type=int, default=3, help="everybody is measured once a round")
    add("--words", type=int, default=6400, help="training pairs in each measurement")
    add("--threads", type=int, nargs="+", default=[2, 1], help="CPU threads; everything is measured with each number")
    add("--rows", metavar="WORDS", default="attnx", help="of the attnx rows, those whose name has these words")
    add("--pairs", type=Path, metavar="FILE", help="TSV file of pairs, instead of the shipped CMUdict")
    add("--only", nargs="+", choices=names, default=names, help="who takes part")
    add("--envs", type=Path, default=cache, help="folder of the peers' environments")
    add("--limit", type=float, default=900.0, help="seconds a measurement may take")
    add("--out", type=Path, default=cache / "training_speed.json", help="JSON file to write")
    options = parser.parse_args()
    if min(options.rounds, options.words, *options.threads) < 1:
        parser.error("--rounds, --words and --threads must be at least 1")
    return options


def main() -> None:
    """Measure everybody and report."""
    options, console = read_options(), Console()
    steps = math.ceil(options.words / SIZES["batch"])
    # Enough pairs for a single epoch: the pause between two epochs is not what is compared.
    count = (WARMUP + steps + 1) * SIZES["batch"]
    try:
        pairs = read_pairs(options.pairs) if options.pairs else read_cmudict()
        if count > len(pairs):
            raise UserError(f"--words {options.words} needs {count} pairs, there are {len(pairs)}: ask for fewer")
    except UserError as error:
        raise SystemExit(f"error: {error}") from error
    envs = options.envs.resolve()
    envs.mkdir(parents=True, exist_ok=True)
    ready, problems = contenders(envs, options.only, options.rows, console)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pairs.tsv"
        drawn = write_pairs(pairs, count, file)
        letters, symbols = (mean(len(side) for side in sides) for sides in zip(*drawn, strict=True))
        flop = {row: flop_of_a_word(row, letters, symbols + 1) for row in ATTNX_ROWS}
        for threads in options.threads:
            request, failed = Request(file, steps, threads, options.limit), dict(problems)
            measured = Found(request, *compete(ready, failed, request, options.rounds, console), flop, failed)
            measured.show(console)
            found[f"threads {threads}"] = measured.as_json()
            record(options.out, {"words": steps * SIZES["batch"], "warmup_steps": WARMUP, **SIZES}, found)
    console.print(f"written to {options.out}", highlight=False)


if __name__ == "__main__":
    main()
