"""CPU seconds of training steps and of decoding in several checkouts of attnx, as ratios to the first.

Every checkout needs an environment, .venv, in which its attnx is installed. Each process measures one schedule on one
thread. Training steps are the same at equal seeds, so that the least time of each step over all rounds is compared:
other programs only ever add to it. Then the processes decode the same words in turns, and the median of the ratios of
neighboring turns is shown, in which a machine that becomes slower changes little.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

ROUNDS, STEPS, WARMUP_STEPS, WORDS, TURNS = 4, 16, 3, 512, 20
SEARCHES = ("greedy", "beam")
MEASURE = "--measure"


def measure(row: str, pairs: Path, folder: Path) -> None:
    """Train with the checkout in the working folder and print the CPU seconds of each step; then those of each search
    that a line of the input names."""
    import runpy
    import time

    from torch.optim.optimizer import register_optimizer_step_post_hook

    sys.path.insert(0, "benchmarks")
    from peers.training import ATTNX, SIZES
    from training_speed import SCHEDULES

    import attnx

    values = {"pairs": pairs, "folder": folder, "updates": STEPS, **SIZES}
    stamps: list[float] = []
    register_optimizer_step_post_hook(lambda *_: stamps.append(time.process_time()))
    sys.argv = ["attnx", *(override.format(**values) for override in (*ATTNX, *SCHEDULES[row])), "seed=1"]
    try:
        runpy.run_module("attnx", run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
    print(f"\n{json.dumps([second - first for first, second in itertools.pairwise(stamps)])}", flush=True)

    words = [line.split("\t")[0] for line in pairs.read_text(encoding="utf-8").splitlines()[:WORDS]]
    lengths = {
        "min_length": 6,
        "max_length_ratio": 2.0,
        "max_length_extra": 5,
    }  # given, since so new a model has no idea
    runs = {
        "greedy": attnx.open_run(folder, decoding=("greedy", lengths)),
        "beam": attnx.open_run(folder, decoding=("beam", {"beam_size": 5, **lengths})),
    }
    for line in sys.stdin:
        run = runs[line.strip()]
        examples = [run.pair(word) for word in words]
        start = time.process_time()
        run.decode(examples)
        print(time.process_time() - start, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", nargs="+", type=Path, help="folders; the first is what others are compared with")
    checkouts = [folder.resolve() for folder in parser.parse_args().checkouts]
    from peers.training import draw_pairs, write_pairs
    from training_speed import SCHEDULES

    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "WANDB_MODE": "disabled"}
    for row in SCHEDULES:
        fastest: dict[Path, list[float]] = {}
        ratios: dict[tuple[Path, str], list[float]] = {(folder, name): [] for folder in checkouts for name in SEARCHES}
        for round_index in range(ROUNDS):
            in_turn = checkouts[:: 1 if round_index % 2 == 0 else -1]
            with tempfile.TemporaryDirectory() as parent, ExitStack() as processes:
                pairs = Path(parent) / "pairs.tsv"
                write_pairs(draw_pairs(128 * (STEPS + 1)), pairs)
                pipes = {}
                for number, checkout in enumerate(in_turn):
                    folder = str(Path(parent) / f"run_{number}")
                    command = [checkout / ".venv/bin/python", Path(__file__).resolve(), MEASURE, row, pairs, folder]
                    process = subprocess.Popen(
                        command, cwd=checkout, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                    )
                    pipes[checkout] = processes.enter_context(process)
                    line = next(line for line in process.stdout if line.startswith("["))
                    seconds = json.loads(line)[WARMUP_STEPS:]
                    fastest[checkout] = [
                        min(times) for times in zip(fastest.get(checkout, seconds), seconds, strict=True)
                    ]
                for name, turn in itertools.product(SEARCHES, range(-1, TURNS)):
                    seconds_of = {checkout: ask(pipes[checkout], name) for checkout in in_turn}
                    for checkout in checkouts if turn >= 0 else ():  # the first turn warms up
                        ratios[checkout, name].append(seconds_of[checkout] / seconds_of[checkouts[0]])
        for checkout in checkouts:
            training = sum(fastest[checkout]) / sum(fastest[checkouts[0]])
            searches = "  ".join(f"{name} {statistics.median(ratios[checkout, name]):.2f}" for name in SEARCHES)
            print(f"{row}: {checkout}: training {training:.2f}  {searches}", flush=True)


def ask(process: subprocess.Popen[str], name: str) -> float:
    """The CPU seconds that a process of ``measure`` spends on the search ``name`` now."""
    process.stdin.write(f"{name}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


if __name__ == "__main__":
    if sys.argv[1:2] == [MEASURE]:
        measure(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
    else:
        main()
