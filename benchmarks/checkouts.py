"""CPU seconds of training steps and of decoding in several checkouts of attnx, alternating, as ratios to the first.

Every checkout needs an environment, .venv, in which its attnx is installed. Each process measures one schedule on one
thread: every training step, and greedy and beam decoding of the same words. Steps are the same at equal seeds, so that
the least time of each step over all rounds is compared: other programs only ever add to it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS, STEPS, WARMUP_STEPS, WORDS = 4, 16, 3, 512
MEASURE = "--measure"


def measure(row: str, pairs: Path, folder: Path) -> list[float]:
    """Train with the checkout in the working folder, decode, and return the CPU seconds of each step and search."""
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
    seconds = [second - first for first, second in itertools.pairwise(stamps)][WARMUP_STEPS:]
    words = [line.split("\t")[0] for line in pairs.read_text(encoding="utf-8").splitlines()[:WORDS]]
    limit = {"max_length_ratio": 2.0, "max_length_extra": 5}  # given, since few outputs end by themselves so early
    for decoding in (("greedy", limit), ("beam", {"beam_size": 5, **limit})):
        run = attnx.open_run(folder, decoding=decoding)
        examples = [run.pair(word) for word in words]
        run.decode(examples)
        start = time.process_time()
        run.decode(examples)
        seconds.append(time.process_time() - start)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", nargs="+", type=Path, help="folders; the first is what others are compared with")
    checkouts = [folder.resolve() for folder in parser.parse_args().checkouts]
    from peers.training import draw_pairs, write_pairs
    from training_speed import SCHEDULES

    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "WANDB_MODE": "disabled"}
    fastest: dict[tuple[str, Path], list[float]] = {}
    with tempfile.TemporaryDirectory() as parent:
        pairs = Path(parent) / "pairs.tsv"
        write_pairs(draw_pairs(128 * (STEPS + 1)), pairs)
        for round_index in range(ROUNDS):
            for row in SCHEDULES:
                for checkout in checkouts[:: 1 if round_index % 2 == 0 else -1]:
                    folder = tempfile.mkdtemp(dir=parent)
                    command = [checkout / ".venv/bin/python", Path(__file__).resolve(), MEASURE, row, pairs, folder]
                    output = subprocess.run(command, cwd=checkout, env=environment, check=True, stdout=subprocess.PIPE)
                    seconds = json.loads(output.stdout.splitlines()[-1])
                    previous = fastest.get((row, checkout), seconds)
                    fastest[row, checkout] = [min(times) for times in zip(previous, seconds, strict=True)]
    for row in SCHEDULES:
        for checkout in checkouts:
            reference, seconds = fastest[row, checkouts[0]], fastest[row, checkout]
            ratios = [sum(seconds[:-2]) / sum(reference[:-2]), *(seconds[i] / reference[i] for i in (-2, -1))]
            shown = "  ".join(f"{name} {x:.2f}" for name, x in zip(("training", "greedy", "beam"), ratios, strict=True))
            print(f"{row}: {checkout}: {shown}")


if __name__ == "__main__":
    if sys.argv[1:2] == [MEASURE]:
        print(json.dumps(measure(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]) / "run")))
    else:
        main()
