"""Memory of a translation corpus that is streamed into a cache, which should not grow with the corpus.

Synthetic parallel text files of several sizes are loaded through ``task=translation`` with ``task.cache_folder``, and
all batches of an epoch are read. Then the existing cache is loaded again and, with ``--memory``, the texts without a
cache. Each load is a new process whose memory another process samples; it is printed and written as JSON.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import tempfile
import time
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from memory_of_corpora import BUSY, MB, STATUS, most, resident_peak
from peers.environments import ROOT
from peers.neighbors import watch_neighbors
from peers.record import record
from rich.console import Console
from rich.table import Table
from torch.utils.data import DataLoader

from attnx.data.batches import collate
from attnx.data.buckets import BucketBatches
from attnx.data.corpus_cache import build
from attnx.tasks.translation import Translation

WAYS = {"writing": "into a cache", "existing": "from the cache", "memory": "without one"}
COLUMNS: dict[str, tuple[str, float, int]] = {
    "rows": ("rows", 1, 0),
    "start": ("own memory at first, MB", MB, 0),
    "load_peak": ("loading, at most, MB", MB, 0),
    "epoch_peak": ("drawing an epoch, MB", MB, 0),
    "resident_peak": ("with the files' cached pages, MB", MB, 0),
    "load_seconds": ("loaded in, s", 1, 1),
    "load_cpu_seconds": ("of a processor's time, s", 1, 1),
    "batches_per_second": ("batches/s", 1, 0),
}
"""What is reported of each load, its heading, unit and digits."""


def write_texts(folder: Path, pairs: int, seed: int = 0) -> list[str]:
    """Write parallel files of sentences of 5 to 25 words: pieces of one long text of invented words."""
    draw = random.Random(seed)
    syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    words = ["".join(draw.choices(syllables, k=draw.randrange(1, 5))) for _ in range(20_000)]
    text = draw.choices(words, weights=[1 / rank for rank in range(1, 20_001)], k=100_000)
    paths = [folder / "a", folder / "b"]
    with paths[0].open("w") as first, paths[1].open("w") as second:
        for number in range(pairs):
            for file in (first, second):
                start = draw.randrange(99_000)
                file.write(" ".join(text[start : start + draw.randrange(5, 26)]) + f" {number}\n")
    return list(map(str, paths))


def load(sender: Connection, files: list[str], cache: str | None, options: argparse.Namespace) -> None:
    """Load, read an epoch, and report the time of each phase."""
    build.MAX_SAMPLE = options.sample  # type: ignore[misc]
    sender.send("start")
    started, busy = time.perf_counter(), time.process_time()
    options = {"tokenizer": options.tokenizer, "vocab_size": options.vocab_size, "holdout": options.holdout}
    options |= {"cache_processes": 1} if cache else {}
    data = Translation(train=files, cache_folder=cache, **options).load()
    rows = data.train_dataset()
    loaded, busy = time.perf_counter(), time.process_time() - busy
    sender.send("epoch")
    order = BucketBatches(rows, options.size)
    read = sum(1 for _ in islice(DataLoader(rows, batch_sampler=order, collate_fn=collate), options.batches))
    ended = time.perf_counter()
    seconds = {"load_seconds": loaded - started, "load_cpu_seconds": busy}
    speeds = {"batches": read, "batches_per_second": read / (ended - loaded)}
    sender.send({"rows": len(rows), "resident_peak": resident_peak(), **seconds, **speeds})
    sender.recv()  # stay while the last look is taken


def private_memory(process: int) -> int | None:
    """Private memory of a process in bytes, without file pages and shared memory; None if unknown."""
    path = STATUS.parent.parent / str(process) / STATUS.name
    if not path.exists():
        return None
    lines = dict(line.split(":", 1) for line in path.read_text(encoding="ascii").splitlines())
    return 1024 * int(lines["RssAnon"].split()[0]) if "RssAnon" in lines else None


def watched(files: list[str], cache: Path | None, options: argparse.Namespace) -> dict[str, Any]:
    """Load in a new process and sample its memory fifty times a second."""
    receiver, sender = multiprocessing.Pipe()
    arguments = sender, files, None if cache is None else str(cache), options
    process = multiprocessing.get_context("spawn").Process(target=load, args=arguments)
    process.start()
    sender.close()
    assert process.pid is not None
    looks: dict[str, list[int | None]] = {"start": [], "epoch": []}
    phase = receiver.recv()
    start = private_memory(process.pid)
    while isinstance(phase, str):
        looks[phase].append(private_memory(process.pid))
        if receiver.poll(0.02):
            phase = receiver.recv()
    receiver.send("thanks")
    process.join()
    return {"start": start, "load_peak": most(looks["start"]), "epoch_peak": most(looks["epoch"]), **phase}


def measure(pairs: int, options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Write texts of one size, load them every way, and delete them."""
    busy_cpus = watch_neighbors()
    with tempfile.TemporaryDirectory(dir=options.folder) as name, console.status(f"{pairs:,} pairs"):
        files, cache = write_texts(Path(name), pairs), Path(name) / "cache"
        ways = {"writing": cache, "existing": cache} | ({"memory": None} if options.memory else {})
        rows = [{"pairs": pairs, "way": way, **watched(files, place, options)} for way, place in ways.items()]
        disk = sum(file.stat().st_size for file in cache.rglob("*") if file.is_file())
        text = sum(Path(file).stat().st_size for file in files)
    used = busy_cpus()
    busy = "" if used is None else f", others used {used:.1f} CPUs"
    console.print(f"{pairs:,} pairs measured: text {text / MB:,.0f} MB, cache {disk / MB:,.0f} MB{busy}")
    return [{**row, "disk": disk, "text": text, "cpus_used_by_other_programs": used} for row in rows]


def show(measured: list[dict[str, Any]], console: Console) -> None:
    """Print a table with a line for each load."""
    display = Table("pairs", "loaded", *(heading for heading, _, _ in COLUMNS.values()))
    for column in display.columns[2:]:
        column.justify = "right"
    for row in measured:
        shown = (
            "-" if row[key] is None else f"{row[key] / unit:,.{digits}f}" for key, (_, unit, digits) in COLUMNS.items()
        )
        display.add_row(f"{row['pairs']:,}", WAYS[row["way"]], *shown)
    console.print(display)
    if any((row["cpus_used_by_other_programs"] or 0) >= BUSY for row in measured):
        console.print("other programs were busy: the seconds are too many, the memory is right", style="red")


def write(options: argparse.Namespace, measured: list[dict[str, Any]]) -> None:
    """Write the options and the measurements to the JSON file."""
    chosen_options = {key: value for key, value in vars(options).items() if key not in ("folder", "out")}
    record(options.out, chosen_options, {"measured": measured})


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--pairs", type=int, nargs="+", default=[50_000, 200_000], help="sizes of the corpora, such as 10000000")
    add("--sample", type=int, default=build.MAX_SAMPLE, help="sentences that the tokenizers learn from")
    add("--tokenizer", default="bpe", help="as task.tokenizer")
    add("--vocab-size", type=int, default=8000, help="as task.vocab_size")
    add("--holdout", type=float, default=0.001, help="as task.holdout")
    add("--size", type=int, default=128, help="rows in a batch")
    add("--batches", type=int, help="number of batches to read (default: an epoch)")
    add("--memory", action="store_true", help="also load without a cache")
    add("--folder", type=Path, help="folder for the corpora (default: a temporary one)")
    add("--out", type=Path, default=ROOT / ".benchmarks" / "memory_of_corpus_cache.json", help="JSON file to write")
    return parser.parse_args()


def main() -> None:
    """Measure every size and report."""
    options, console = read_options(), Console()
    measured = [row for pairs in options.pairs for row in measure(pairs, options, console)]
    show(measured, console)
    write(options, measured)
    console.print(f"written to {options.out}", highlight=False)


if __name__ == "__main__":
    main()
