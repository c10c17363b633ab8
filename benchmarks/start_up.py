"""How long attnx takes to answer and to begin training, compared with ``import lightning``.

All are measured in turn, each in a new process, round after round. Seconds, and their ratio to the import in the same
round, are printed and written as JSON.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from peers.contest import Rounds, by_row, measure_rounds, show_trouble, table
from peers.environments import ROOT, run
from peers.record import record
from peers.words import write_words
from rich.console import Console

IMPORT = "import lightning"
FIRST_STEP = Path(__file__).parent / "peers" / "first_step.py"
COMMANDS: dict[str, tuple[str | Path, ...]] = {
    IMPORT: ("-c", IMPORT),
    "attnx --help": ("-m", "attnx", "--help"),
    "attnx --cfg job": ("-m", "attnx", "--cfg", "job"),
    "first training step": ("-P", FIRST_STEP, "task.train={words}", "folder={folder}"),
}
"""What each row runs with Python; its seconds end with the process."""


def seconds(arguments: tuple[str | Path, ...], threads: int) -> float:
    """From the start of a process to its end."""
    with tempfile.TemporaryDirectory() as parent:
        filled = {"words": Path(parent) / "words.tsv", "folder": Path(parent) / "run"}
        write_words(4, filled["words"])
        command = [sys.executable, *(str(argument).format(**filled) for argument in arguments)]
        start = time.perf_counter()
        run(command, ROOT, threads)
        return time.perf_counter() - start


def ratios(times: Rounds) -> Rounds:
    """For each round, how many times as long as the import each row took."""
    return [{row: taken / rows[IMPORT] for row, taken in rows.items()} for rows in times if IMPORT in rows]


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--rounds", type=int, default=5, help="all are measured once per round")
    add("--threads", type=int, default=2, help="CPU threads")
    add("--out", type=Path, default=ROOT / ".benchmarks" / "start_up.json", help="JSON file to write")
    options = parser.parse_args()
    if min(options.rounds, options.threads) < 1:
        parser.error("--rounds and --threads must be at least 1")
    return options


def main() -> None:
    options, console = read_options(), Console()
    entrants = {row: partial(seconds, arguments, options.threads) for row, arguments in COMMANDS.items()}
    problems: dict[str, str] = {}
    times, busy = measure_rounds(options.rounds, entrants, problems, console, "{:.2f} s")
    console.print(table("seconds", times, 2))
    console.print(table(f"times `{IMPORT}`, in the same round", ratios(times), 2))
    show_trouble(problems, busy, console)
    measurements = {"seconds": by_row(times), "ratios": by_row(ratios(times)), "problems": problems}
    used = {"cpus_used_by_other_programs": by_row(busy)}
    chosen_options = {"rounds": options.rounds, "threads": options.threads}
    record(options.out, chosen_options, measurements | used, packages=("torch", "lightning"))


if __name__ == "__main__":
    main()
