"""Memory and time of a translation corpus that is encoded into the cache; its memory should not grow with the corpus.

Synthetic parallel text files of several sizes are loaded through ``task=translation``, and the batches of an epoch are
read: encoded into the cache, from the cache, and in memory. Each load is a new process; another process samples the
private memory of it and of its children. The measurements are printed and written as JSON.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from peers.environments import ROOT
from peers.neighbors import BUSY, watch_neighbors
from peers.record import record
from rich.console import Console
from rich.table import Table
from torch.utils.data import DataLoader

from attnx.data import encoded_corpus
from attnx.data.batches import collate
from attnx.data.buckets import BucketBatches
from attnx.tasks import translation
from attnx.tasks.translation import Translation

MB = 10**6
PROC = Path("/proc")
WAYS = {"encoding": "into the cache", "encoded": "from the cache", "memory": "into memory"}
COLUMNS: dict[str, tuple[str, float, int]] = {
    "start": ("at first, MB", MB, 0),
    "load_peak": ("loading, MB", MB, 0),
    "epoch_peak": ("an epoch, MB", MB, 0),
    "load_seconds": ("loaded in, s", 1, 1),
    "cpu_seconds": ("CPU, s", 1, 1),
    "learning_seconds": ("of it tokenizers, s", 1, 1),
    "batches_per_second": ("batches/s", 1, 0),
}
"""What is reported of each load, its heading, unit and digits."""


class TimedTranslation(Translation):
    """The task, which times how long it learns its tokenizers."""

    learning_seconds = 0.0

    def _train_tokenizers(self, sentences: list[Any]) -> None:
        busy = time.process_time()
        super()._train_tokenizers(sentences)
        self.learning_seconds = time.process_time() - busy


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


def load(sender: Connection, files: list[str], way: str, options: argparse.Namespace) -> None:
    """Load, read an epoch, and report the time of each phase."""
    encoded_corpus.MAX_SAMPLE = options.sample  # type: ignore[misc]
    translation.MAX_BYTES_IN_MEMORY = 10**18 if way == "memory" else 0  # type: ignore[misc]
    sender.send("start")
    started, cpu_start = time.perf_counter(), sum(os.times()[:4])  # of this process and of children that have ended
    task = TimedTranslation(train=files, tokenizer="bpe", vocab_size=8000, holdout=0.001)
    rows = task.load().train_dataset()
    loaded, busy = time.perf_counter(), sum(os.times()[:4]) - cpu_start
    sender.send("epoch")
    read = sum(1 for _ in DataLoader(rows, batch_sampler=BucketBatches(rows, 128), collate_fn=collate))
    ended = time.perf_counter()
    seconds = {"load_seconds": loaded - started, "cpu_seconds": busy, "learning_seconds": task.learning_seconds}
    speeds = {"batches": read, "batches_per_second": read / (ended - loaded)}
    sender.send({"rows": len(rows), "fingerprint": rows.fingerprint(), **seconds, **speeds})
    sender.recv()  # stay while the last look is taken


def private_memory(process: int) -> int:
    """Private memory of a process and its children in bytes, without pages of files; a shared page counts once."""
    try:
        children = (PROC / f"{process}/task/{process}/children").read_text().split()
        rollup = (PROC / f"{process}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    kilobytes = next((int(line.split()[1]) for line in rollup if line.startswith("Pss_Anon:")), 0)
    return 1024 * kilobytes + sum(private_memory(int(child)) for child in children)


def watched(files: list[str], cache: Path, way: str, options: argparse.Namespace) -> dict[str, Any]:
    """Load in a new process and sample the memory twenty times a second."""
    os.environ["ATTNX_CACHE"] = str(cache)
    receiver, sender = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=load, args=(sender, files, way, options))
    process.start()
    sender.close()
    assert process.pid is not None
    looks: dict[str, list[int]] = {"start": [], "epoch": []}
    phase = receiver.recv()
    start = private_memory(process.pid)
    while isinstance(phase, str):
        looks[phase].append(private_memory(process.pid))
        if receiver.poll(0.05):
            phase = receiver.recv()
    receiver.send("thanks")
    process.join()
    peaks = {"load_peak": max(looks["start"]), "epoch_peak": max(looks["epoch"], default=0)}
    return {"start": start, **peaks, **phase}


def measure(pairs: int, options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Write texts of one size, load them every way, and delete them."""
    busy_cpus = watch_neighbors()
    with tempfile.TemporaryDirectory(dir=options.folder) as name, console.status(f"{pairs:,} pairs"):
        files, cache = write_texts(Path(name), pairs), Path(name) / "cache"
        rows = [{"pairs": pairs, "way": way, **watched(files, cache, way, options)} for way in options.ways]
        disk = sum(file.stat().st_size for file in (cache / "corpora").rglob("*") if file.is_file())
        text = sum(Path(file).stat().st_size for file in files)
    used = busy_cpus()
    # Tokenizers that learn from a sample are others.
    compared = {row["fingerprint"] for row in rows if row["way"] != "memory" or pairs <= options.sample}
    busy = "" if used is None else f", others used {used:.1f} CPUs"
    sizes = f"text {text / MB:,.0f} MB, cache {disk / MB:,.0f} MB"
    equal = "are equal" if len(compared) == 1 else "DIFFER"
    console.print(f"{pairs:,} pairs: {sizes}, rows {equal}{busy}", highlight=False)
    return [{**row, "disk": disk, "text": text, "cpus_used_by_other_programs": used} for row in rows]


def show(measured: list[dict[str, Any]], console: Console) -> None:
    display = Table("pairs", "loaded", *(heading for heading, _, _ in COLUMNS.values()))
    for column in display.columns[2:]:
        column.justify = "right"
    for row in measured:
        shown = (f"{row[key] / unit:,.{digits}f}" for key, (_, unit, digits) in COLUMNS.items())
        display.add_row(f"{row['pairs']:,}", WAYS[row["way"]], *shown)
    console.print(display)
    if any((row["cpus_used_by_other_programs"] or 0) >= BUSY for row in measured):
        console.print("other programs were busy: the seconds are too many, the memory is right", style="red")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--pairs", type=int, nargs="+", default=[50_000, 200_000], help="sizes of the corpora, such as 10000000")
    add("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="encoded needs encoding before it")
    add("--sample", type=int, default=encoded_corpus.MAX_SAMPLE, help="sentences that the tokenizers learn from")
    add("--folder", type=Path, help="folder for the corpora (default: a temporary one)")
    add("--out", type=Path, default=ROOT / ".benchmarks" / "memory_of_corpora.json", help="JSON file to write")
    return parser.parse_args()


def main() -> None:
    options, console = read_options(), Console()
    measured = [row for pairs in options.pairs for row in measure(pairs, options, console)]
    show(measured, console)
    chosen_options = {key: value for key, value in vars(options).items() if key not in ("folder", "out")}
    record(options.out, chosen_options, {"measured": measured})


if __name__ == "__main__":
    main()
