"""Decoding speed in words per second: attnx, yoyodyne and joeynmt with the same words, sizes and threads.

Every package first trains a model on the same pairs, once; attnx trains one for each peer, composed like the peer's.
Then all decode the same words, greedily and with a beam, in batches and one by one, in turn and round after round.
Printed and written as JSON are the speeds, how many times as fast attnx was with the same model in the same round, the
time per word at batch size 1, and figures of the outputs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from peers.contest import Rounds, by_row, measure_rounds, show_trouble, table
from peers.environments import PEERS, FailedError, Peer, find, run
from peers.record import record
from peers.training import LIKE, SIZES, draw_pairs, train_attnx, write_pairs
from rich.console import Console
from rich.table import Table

from attnx.data.examples import Pair, Symbols
from attnx.metrics.error_rates import PhoneErrorRate
from attnx.version import __version__

ATTNX = "attnx"


@dataclass(frozen=True)
class MatchedAttnx(Peer):
    """attnx with a model that is composed like that of another package."""

    model: str = ""

    @property
    def row(self) -> str:
        """Its name in the tables."""
        return f"{self.name} {self.version} as {self.model}"


MATCHED = {peer: MatchedAttnx(ATTNX, __version__, model=peer.name) for peer in PEERS}
ALL_MODELS = tuple(model for peer, attnx in MATCHED.items() for model in (attnx, peer))
MANY, WIDTH = 256, 5
"""Words in a large batch, and hypotheses in a beam."""

EQUALLY = ("optimizer.lr=0.001", "optimizer.beta2=0.999", "lr_schedule=constant")
"""Overrides by which attnx trains with the peers' Adam."""


class Setting(NamedTuple):
    """How words are decoded: the beam size (1 is greedy) and the batch size."""

    width: int
    batch: int

    def __str__(self) -> str:
        search = "greedy" if self.width == 1 else f"beam {self.width}"
        return f"{search}, batch {self.batch}"

    def row(self, name: str) -> str:
        """Its name in the tables, of one package or of two compared."""
        return f"{self}: {name}"


SETTINGS = tuple(Setting(width, batch) for batch in (MANY, 1) for width in (1, WIDTH))


class Outputs(NamedTuple):
    """The outputs of a package: number of words, mean number of symbols, edits per 100 reference symbols.

    The longest output has ``longest`` symbols: an output that repeats itself delays its batch.
    """

    words: int
    symbols: float
    longest: int
    error_rate: float


@dataclass(frozen=True)
class Work:
    """The work of all packages."""

    folder: Path  # holds the files, and a folder per package for its model
    training: Sequence[Pair]
    words: Sequence[Pair]
    single: int  # the number of words that are decoded one by one
    steps: int
    limit: float  # seconds after which a measurement is aborted

    def write(self) -> None:
        write_pairs(self.training, self.folder / "pairs.tsv")
        write_pairs(self.words, self.folder / "references.tsv")
        for setting in SETTINGS:
            lines = ["".join(pair.source) + "\n" for pair in self.pairs_to_decode(setting)]
            self.file(setting).write_text("".join(lines), encoding="utf-8")

    def pairs_to_decode(self, setting: Setting) -> Sequence[Pair]:
        """The request to decode."""
        return self.words if setting.batch > 1 else self.words[: self.single]

    def file(self, setting: Setting) -> Path:
        """The file of its words."""
        return self.folder / f"words{len(self.pairs_to_decode(setting))}.txt"

    def out(self, peer: Peer, setting: Setting) -> Path:
        """The file for its outputs."""
        return self.home(peer) / f"{setting}.txt"

    def home(self, peer: Peer) -> Path:
        """The folder for its model and outputs."""
        return self.folder / peer.row

    def training_request(self, threads: int) -> dict[str, Any]:
        """The training request for every package."""
        return {"pairs": str(self.folder / "pairs.tsv"), **SIZES, "updates": self.steps, "threads": threads}


def train(work: Work, peer: Peer, python: Path, threads: int) -> None:
    """Train a package's model by its own means.

    Raises:
        FailedError: it fails or takes too long.
    """
    home = work.home(peer)
    home.mkdir()
    request = work.training_request(threads)
    if isinstance(peer, MatchedAttnx):
        references = work.folder / "references.tsv"
        parts = (f"task.valid={references}", f"task.test={references}")  # so that none is held out of the pairs
        train_attnx(request, home / "run", (*LIKE[peer.model], *EQUALLY, *parts), work.limit)
    else:
        run([python, peer.script("training"), json.dumps(request)], home, threads, work.limit)


def decode(work: Work, peer: Peer, python: Path, setting: Setting, threads: int) -> float:
    """Decode with the trained model: words per second.

    Raises:
        FailedError: it fails or takes too long.
    """
    request = work.training_request(threads) | {
        "words": str(work.file(setting)),
        "width": setting.width,
        "batch_words": setting.batch,
        "out": str(work.out(peer, setting)),
    }
    printed = run([python, peer.script("decoding"), json.dumps(request)], work.home(peer), threads, work.limit)
    return float(json.loads(printed.splitlines()[-1])["words_per_second"])


def judge(pairs: Sequence[Pair], file: Path) -> Outputs:
    """Compare outputs with the references; the closest of several counts."""
    outputs = [tuple(line.split()) for line in file.read_text(encoding="utf-8").splitlines()]
    return compare(outputs, [pair.references for pair in pairs])


def compare(outputs: Sequence[Symbols], references: Sequence[Sequence[Symbols]]) -> Outputs:
    """The outputs and their references."""
    rate, lengths = PhoneErrorRate(), [len(symbols) for symbols in outputs]
    rate.update(outputs, references)
    return Outputs(len(outputs), mean(lengths), max(lengths), float(rate.compute()))


def ratios(speeds: Rounds) -> Rounds:
    """For each round, how many times as fast attnx was as each peer, with its model."""
    return [
        {
            setting.row(f"attnx / {peer.row}"): speed[attnx_row] / speed[peer_row]
            for setting in SETTINGS
            for peer, attnx in MATCHED.items()
            if (attnx_row := setting.row(attnx.row)) in speed and (peer_row := setting.row(peer.row)) in speed
        }
        for speed in speeds
    ]


def latencies(speeds: Rounds) -> Rounds:
    """For each round, milliseconds per word at batch size 1."""
    alone = tuple(setting.row("") for setting in SETTINGS if setting.batch == 1)
    return [
        {row: 1000 / speed_of_row for row, speed_of_row in speed.items() if row.startswith(alone)} for speed in speeds
    ]


@dataclass
class Measurements:
    """The measurements with one number of threads."""

    threads: int
    speeds: Rounds
    busy_cpus: Rounds
    outputs: Mapping[str, Outputs]
    problems: dict[str, str]

    def show(self, console: Console) -> None:
        console.print(table(f"words per second (threads: {self.threads})", self.speeds, 1))
        if any(compared := ratios(self.speeds)):
            console.print(table("how many times as fast, in the same round", compared, 2))
        if any(alone := latencies(self.speeds)):
            console.print(table("milliseconds a word", alone, 2))
        display = Table(
            "", title="what was written, with edits per 100 symbols of the references", title_justify="left"
        )
        for heading in ("words", "mean length", "longest", "edits"):
            display.add_column(heading, justify="right")
        for row, (words, symbols, longest, rate) in self.outputs.items():
            display.add_row(row, str(words), f"{symbols:.2f}", str(longest), f"{rate:.1f}")
        console.print(display)
        show_trouble(self.problems, self.busy_cpus, console)

    def as_json(self) -> dict[str, Any]:
        return {
            "words_per_second": by_row(self.speeds),
            "ratios": by_row(ratios(self.speeds)),
            "milliseconds_a_word": by_row(latencies(self.speeds)),
            "outputs": {row: outputs._asdict() for row, outputs in self.outputs.items()},
            "cpus_used_by_other_programs": by_row(self.busy_cpus),
            "problems": self.problems,
        }


def compete(
    work: Work, pythons: Mapping[Peer, Path], problems: dict[str, str], threads: int, rounds: int, console: Console
) -> Measurements:
    """Measure every package in every setting, once per round."""
    entrants = {
        setting.row(peer.row): (peer, setting, partial(decode, work, peer, python, setting, threads))
        for setting in SETTINGS
        for peer, python in pythons.items()
    }
    measures = {row: measure for row, (_, _, measure) in entrants.items()}
    speeds, busy_cpus = measure_rounds(rounds, measures, problems, console)
    references = [pair.references for pair in work.words]
    outputs = {"the references": compare([first for first, *_ in references], references)}
    for row in by_row(speeds):
        peer, setting, _ = entrants[row]
        outputs[row] = judge(work.pairs_to_decode(setting), work.out(peer, setting))
    return Measurements(threads, speeds, busy_cpus, outputs, problems)


def prepare(work: Work, options: argparse.Namespace, console: Console) -> tuple[dict[Peer, Path], dict[str, str]]:
    """Install and train all packages; which are ready, and why others are not."""
    work.write()
    pythons, problems = find([peer for peer in PEERS if peer.name in options.only], options.envs, console)
    if ATTNX in options.only:
        models = [peer for peer in PEERS if peer.name in options.only] or PEERS  # alone it has everybody's
        pythons |= {MATCHED[peer]: Path(sys.executable) for peer in models}
        pythons = {peer: pythons[peer] for peer in ALL_MODELS if peer in pythons}
    for peer, python in list(pythons.items()):
        try:
            with console.status(f"{peer.row}: training {options.steps} steps"):
                train(work, peer, python, max(options.threads))
        except FailedError as error:
            problems[peer.row] = f"cannot be trained: {error}"
            del pythons[peer]
    return pythons, problems


def read_options() -> argparse.Namespace:
    names = (ATTNX, *(peer.name for peer in PEERS))
    cache = Path(__file__).resolve().parents[1] / ".benchmarks"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--rounds", type=int, default=3, help="all are measured once per round")
    add("--words", type=int, default=10_000, help=f"words to decode, {MANY} at once")
    add("--single", type=int, default=300, help="number of words to decode one by one")
    add("--steps", type=int, default=400, help=f"training steps of {SIZES['batch']} pairs, before all measurements")
    add("--threads", type=int, nargs="+", default=[2, 1], help="CPU threads; all are measured with each number")
    add("--pairs", type=Path, metavar="FILE", help="TSV file of pairs, instead of the shipped CMUdict")
    add("--only", nargs="+", choices=names, default=names, help="packages to compare")
    add("--envs", type=Path, default=cache, help="folder of the peers' environments")
    add("--limit", type=float, default=1800.0, help="time limit of a training or a measurement in seconds")
    add("--out", type=Path, default=cache / "decoding_speed.json", help="JSON file to write")
    options = parser.parse_args()
    if min(options.rounds, options.single, options.steps, *options.threads) < 1:
        parser.error("--rounds, --single, --steps and --threads must be at least 1")
    if options.words < max(MANY, options.single):
        parser.error(f"--words must be at least {MANY}, a whole batch, and no fewer than --single")
    return options


def main() -> None:
    options, console = read_options(), Console()
    count = options.steps * SIZES["batch"]
    sample = draw_pairs(count + options.words, options.pairs)
    chosen_options = {name: getattr(options, name) for name in ("words", "single", "steps")} | SIZES
    measurements: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        work = Work(Path(folder), sample[:count], sample[count:], options.single, options.steps, options.limit)
        pythons, problems = prepare(work, options, console)
        for threads in options.threads:
            measured = compete(work, pythons, dict(problems), threads, options.rounds, console)
            measured.show(console)
            measurements[f"threads {threads}"] = measured.as_json()
            record(options.out, chosen_options, measurements)


if __name__ == "__main__":
    main()
