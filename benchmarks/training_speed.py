"""Training speed in words per second: attnx beside yoyodyne and joeynmt, same pairs, sizes and threads.

Every peer is installed from its package into an environment of its own. Everybody is measured in turn, round
after round; the speeds, and how many times as fast attnx was in the same round, are printed and written as
JSON.
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
from statistics import median
from typing import TypedDict

from peers.environments import PEERS, ROOT, FailedError, Peer, install, run
from peers.neighbours import BUSY, watch_neighbours
from peers.record import record
from rich.console import Console
from rich.table import Table

from attnx.data.cmudict import read_cmudict
from attnx.data.pairs import Pair, read_pairs
from attnx.errors import UserError

SIZES = {"batch": 128, "embedding": 128, "encoder": 256, "decoder": 256}
"""The same for everybody; the encoder's LSTM has this many units in each of its two directions."""

WARMUP = 3
"""Steps before the watch starts: the first ones pay for allocation and for starting the loaders."""

ATTNX = (
    "task.train={pairs}",
    "folder={folder}",
    "trainer.max_steps={updates}",
    "trainer.batch_size={batch}",
    "trainer.validations=1",
    "trainer.valid_words=10",
    "model.embedding={embedding}",
    "encoder.hidden={encoder}",
    "decoder.hidden={decoder}",
    "model.feed=none",
    "+scorer=additive",
)
"""The overrides of both attnx rows; `measure_attnx` fills the braces."""

ATTNX_ROWS: dict[str, tuple[str, ...]] = {
    "attnx, run then attend": (),
    "attnx, step by step": ("attention.schedule=step_by_step",),
}


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


def write_pairs(pairs: list[Pair], count: int, path: Path) -> None:
    """Write so many pairs, drawn at random but always the same ones, each with its first pronunciation."""
    drawn = random.Random(0).sample(pairs, count)
    lines = ["".join(pair.source) + "\t" + " ".join(pair.references[0]) + "\n" for pair in drawn]
    path.write_text("".join(lines), encoding="utf-8")


def contenders(envs: Path, only: Sequence[str], console: Console) -> tuple[dict[str, Measure], dict[str, str]]:
    """Who takes part, in the order of a round, and what is wrong with those who cannot."""
    ready: dict[str, Measure] = {}
    problems: dict[str, str] = {}
    if "attnx" in only:
        ready |= {row: partial(measure_attnx, overrides=extra) for row, extra in ATTNX_ROWS.items()}
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
) -> tuple[Rounds, Rounds]:
    """Measure everybody once a round: their words per second, and the CPUs that others used meanwhile.

    Who fails is noted among the problems and left out from then on.
    """
    speeds: Rounds = [{} for _ in range(rounds)]
    others: Rounds = [{} for _ in range(rounds)]
    for number, (speed, busy) in enumerate(zip(speeds, others, strict=True), 1):
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
    return speeds, others


def ratios(speeds: Rounds) -> Rounds:
    """For each round, how many times as fast each attnx row was as each peer."""
    return [
        {
            f"{ours} / {peer.row}": speed[ours] / speed[peer.row]
            for ours in ATTNX_ROWS
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


def show(request: Request, speeds: Rounds, others: Rounds, problems: dict[str, str], console: Console) -> None:
    """Print the tables and what went wrong."""
    words = request.steps * SIZES["batch"]
    console.print(table(f"words per second ({words} words, {request.threads} threads)", speeds, 0))
    if any(compared := ratios(speeds)):
        console.print(table("how many times as fast, in the same round", compared, 2))
    for row, problem in problems.items():
        console.print(f"{row} {problem}", style="red", highlight=False, markup=False)
    if disturbed := sum(used >= BUSY for busy in others for used in busy.values()):
        advice = "run it again on an idle machine"
        console.print(f"{disturbed} measurements were disturbed by other programs: {advice}", style="red")


def write(request: Request, speeds: Rounds, others: Rounds, problems: dict[str, str], out: Path) -> None:
    """Write everything that was asked and found to the JSON file."""
    words = request.steps * SIZES["batch"]
    asked = {"words": words, "warmup_steps": WARMUP, "threads": request.threads, **SIZES}
    found = {
        "words_per_second": by_row(speeds),
        "ratios": by_row(ratios(speeds)),
        "cpus_used_by_others": by_row(others),
        "problems": problems,
    }
    record(out, asked, found)


def read_options() -> argparse.Namespace:
    """The command line."""
    names = ("attnx", *(peer.name for peer in PEERS))
    cache = ROOT / ".benchmarks"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--rounds", type=int, default=3, help="everybody is measured once a round")
    add("--words", type=int, default=6400, help="training pairs in each measurement")
    add("--threads", type=int, default=2, help="CPU threads")
    add("--pairs", type=Path, metavar="FILE", help="TSV file of pairs, instead of the shipped CMUdict")
    add("--only", nargs="+", choices=names, default=names, help="who takes part")
    add("--envs", type=Path, default=cache, help="folder of the peers' environments")
    add("--limit", type=float, default=900.0, help="seconds a measurement may take")
    add("--out", type=Path, default=cache / "training_speed.json", help="JSON file to write")
    options = parser.parse_args()
    if min(options.rounds, options.words, options.threads) < 1:
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
    with tempfile.TemporaryDirectory() as folder:
        request = Request(Path(folder) / "pairs.tsv", steps, options.threads, options.limit)
        write_pairs(pairs, count, request.pairs)
        ready, problems = contenders(envs, options.only, console)
        speeds, others = compete(ready, problems, request, options.rounds, console)
    show(request, speeds, others, problems, console)
    write(request, speeds, others, problems, options.out)
    console.print(f"written to {options.out}", highlight=False)


if __name__ == "__main__":
    main()
