"""Kills a run and a sweep repeatedly at random moments, continues each time, and compares with undisturbed ones.

python benchmarks/torture.py --kills 20
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from peers.kills import command_seconds, done, kill, start, weights
from peers.record import record
from peers.words import TINY, write_words
from rich.console import Console
from rich.table import Table

from attnx.files.bounded_files import read_mapping
from attnx.runs.sweep import read_sweep

# Everything that draws by chance or remembers: dropout, sampling, patience, several kept, workers, gathered gradients.
SMALL = [
    *TINY,
    "model.dropout=0.3",
    "attention.dropout=0.2",
    "model.scheduled_sampling=0.5",
    "optimizer.lr=0.01",
    "lr_schedule=cosine",
    "trainer.accumulate_grad_batches=2",
    "trainer.num_validations=20",
    "trainer.patience=15",
    "trainer.save_top_k=3",
    "trainer.checkpoint_every=3",
]
RUN = [*SMALL, "trainer.max_steps=300"]
SWEEP = [*SMALL, "trainer.max_steps=100", "seed=1,2,3,4"]
LOOK = 0.0005
Sign = Callable[[], bool]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="kills of the run, and as many of the sweep (20)")
    parser.add_argument("--of", nargs="+", choices=TORTURED, default=[*TORTURED], help="what to kill (both)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the moments (1)")
    parser.add_argument("--out", type=Path, default=Path(".benchmarks/torture.json"))
    options = parser.parse_args()
    with ProcessPoolExecutor(len(options.of), get_context("spawn")) as pool:  # most of the time is starting up
        tortured = {name: pool.submit(torture, name, options.kills, options.seed) for name in options.of}
        results = {name: result.result() for name, result in tortured.items()}
    columns = [name for name in next(iter(results.values())) if name not in ("moments", "bad")]
    table = Table(title="killed and continued, compared with undisturbed", caption=describe_moments(results))
    for column in ("", *columns):
        table.add_column(column, justify="right" if column else "left")
    for name, result in results.items():
        table.add_row(name, *(str(result[column]) for column in columns))
    Console().print(table)
    record(
        options.out, {"kills": options.kills, "of": options.of, "seed": options.seed}, results, ("torch", "lightning")
    )
    sys.exit(any(result["bad"] for result in results.values()))


def torture(name: str, kills: int, seed: int) -> dict[str, Any]:
    """Torture a run or a sweep in its own folder and process."""
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        write_words(3)
        results = TORTURED[name](kills, random.Random(f"{seed} {name}"))
        os.chdir("/")
    return results


def describe_moments(results: dict[str, Any]) -> str:
    """When the kills came."""
    return "; ".join(
        f"{name}: " + ", ".join(f"{when} {count}" for when, count in result["moments"].items())
        for name, result in results.items()
    )


def torture_run(kills: int, chance: random.Random) -> dict[str, Any]:
    """Kill a run several times; a run that finishes before is followed by another."""
    seconds = command_seconds(*RUN, "folder=undisturbed")
    aims = [aim for aim in (any_time, training, writing, testing) for _ in range(-(-kills // 4))]
    chance.shuffle(aims)
    moments: Counter[str] = Counter()
    folders = [Path("cut-0")]
    while sum(moments.values()) < kills or not done(folders[-1]):
        if done(folders[-1]):
            folders.append(Path(f"cut-{len(folders)}"))
        folder = folders[-1]
        begun = (folder / "run.json").is_file()
        process = begin(*(("resume", str(folder)) if begun else (*RUN, f"folder={folder}")))
        if sum(moments.values()) < kills:
            sign = aims[sum(moments.values())](folder, chance, seconds)
            if wait_for(process, sign):
                kill(process, with_descendants=False)
                moments[moment(folder)] += 1
                print(f"run {folder}: killed for the {sum(moments.values())}. time, {moment(folder)}", flush=True)
        process.wait()
    return judged([(Path("undisturbed"), folder) for folder in folders], moments)


def torture_sweep(kills: int, chance: random.Random) -> dict[str, Any]:
    """Kill a sweep several times, alone or with all its processes; one that finishes before is followed by another."""
    seconds = command_seconds("-m", *SWEEP, "name=undisturbed", "-j", "2")
    moments: Counter[str] = Counter()
    names, twice, finished = ["cut-0"], 0, dict[Path, int]()
    while sum(moments.values()) < kills or not swept(names[-1]):
        if swept(names[-1]):
            names.append(f"cut-{len(names)}")
        process = begin("-m", *SWEEP, f"name={names[-1]}", "-j", "2")
        if sum(moments.values()) < kills and wait_for(process, after_seconds(chance.uniform(0.2, 0.8) * seconds)):
            with_descendants = chance.random() < 0.5
            moments["with all processes" if with_descendants else "the command alone"] += 1
            print(f"sweep {names[-1]}: killed for the {sum(moments.values())}. time", flush=True)
            kill(process, with_descendants)
        process.wait()
        for folder in sorted(Path("multirun", names[-1]).glob("[0-9]*")):
            if done(folder):
                when = (folder / "results.json").stat().st_mtime_ns
                twice += finished.setdefault(folder, when) != when
    pairs = [
        (Path("multirun/undisturbed", str(job)), Path("multirun", name, str(job))) for name in names for job in range(4)
    ]
    return judged(pairs, moments, twice)


TORTURED: dict[str, Callable[[int, random.Random], dict[str, Any]]] = {"run": torture_run, "sweep": torture_sweep}


def any_time(folder: Path, chance: random.Random, seconds: float) -> Sign:
    """At any time within half a run from the start on; most of that is start-up."""
    return after_seconds(chance.uniform(0, seconds / 2))


def after_seconds(seconds: float) -> Sign:
    until = time.monotonic() + seconds
    return lambda: time.monotonic() > until


def training(folder: Path, chance: random.Random, seconds: float) -> Sign:
    """In training or validation: some time after a checkpoint of its own."""
    began, file = time.time(), folder / "checkpoints" / "last.ckpt"
    return some_time_after(lambda: file.is_file() and file.stat().st_mtime > began, chance.uniform(0, 0.3))


def some_time_after(has_happened: Sign, seconds: float) -> Sign:
    """So many seconds after something was first seen to have happened."""
    first_seen: list[float] = []

    def sign() -> bool:
        if not first_seen and has_happened():
            first_seen.append(time.monotonic())
        return bool(first_seen) and time.monotonic() > first_seen[0] + seconds

    return sign


def writing(folder: Path, chance: random.Random, seconds: float) -> Sign:
    """While a checkpoint or a table is being written; not the first one."""
    files = [folder / "checkpoints" / "last.ckpt.partial", folder / "checkpoints" / "best.ckpt.partial"]
    skipped = chance.randrange(30)
    state = {"before": False, "seen": 0}

    def sign() -> bool:
        now = any(file.exists() for file in [*files, folder / "metrics.csv.partial"])
        state["seen"] += now and not state["before"]
        state["before"] = now
        return now and state["seen"] > skipped

    return sign


def testing(folder: Path, chance: random.Random, seconds: float) -> Sign:
    """After all steps: while it tests, writes or plots."""
    return some_time_after(tested, chance.uniform(0, 1.5))


def tested() -> bool:
    """Whether the last run has finished training."""
    return "testing on" in printed_text()


def printed_text() -> str:
    return Path("output.txt").read_text(encoding="utf-8")


def moment(folder: Path) -> str:
    """The phase that a run was in."""
    if not (folder / "run.json").is_file():
        return "starting"
    if read_mapping(folder / "run.json").get("status") == "finished":
        return "drawing"
    if any(folder.rglob("*.partial")):
        return "writing"
    if tested():
        return "testing"
    return "training" if "step " in printed_text() else "starting or in the first steps"


def begin(*words: str) -> subprocess.Popen[bytes]:
    with Path("output.txt").open("wb") as file:
        return start(*words, output=file)


def wait_for(process: subprocess.Popen[bytes], sign: Sign) -> bool:
    """Wait for a sign or the end; whether it was the sign."""
    while process.poll() is None:
        if sign():
            return True
        time.sleep(LOOK)
    return False


def swept(name: str) -> bool:
    folder = Path("multirun", name)
    return (folder / "sweep.json").is_file() and read_sweep(folder).status == "finished"


def judged(pairs: list[tuple[Path, Path]], moments: Counter[str], twice: int = 0) -> dict[str, Any]:
    """Compare runs with undisturbed ones."""
    ways = {
        "weights equal": weights,
        "rows equal": rows,
        "checkpoints equal": saved_checkpoints,
        "predictions equal": predictions,
    }
    equal = {name: [look(expected) == look(actual) for expected, actual in pairs] for name, look in ways.items()}
    return {
        "kills": sum(moments.values()),
        "moments": dict(moments),
        "completed": len(pairs),
        **{name: f"{sum(results)} of {len(results)}" for name, results in equal.items()},
        "trained twice": twice,
        "bad": twice + sum(not result for results in equal.values() for result in results),
    }


def saved_checkpoints(folder: Path) -> dict[str, Any]:
    return {file.name: weights(folder, file.stem) for file in (folder / "checkpoints").iterdir()}


def rows(folder: Path) -> list[dict[str, str]]:
    """The rows of metrics.csv, without times."""
    with (folder / "metrics.csv").open(encoding="utf-8", newline="") as file:
        return [{name: text for name, text in row.items() if "second" not in name} for row in csv.DictReader(file)]


def predictions(folder: Path) -> tuple[bytes, dict[str, Any]]:
    """The predictions, and the results without times and memory."""
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    timeless = {name: value for name, value in results.items() if "second" not in name and "memory" not in name}
    return (folder / "predictions.tsv").read_bytes(), timeless


if __name__ == "__main__":
    main()
