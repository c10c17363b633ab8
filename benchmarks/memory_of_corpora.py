"""Memory of a corpus in training, which should not grow with the corpus.

Synthetic corpora of several sizes are written as attnx writes a training corpus, and the first batches of an epoch are
read from each. Writing and reading are separate processes; their memory is measured, printed and written as JSON.
"""

from __future__ import annotations

import argparse
import multiprocessing
import platform
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

from peers.environments import ROOT
from peers.neighbors import BUSY, watch_neighbors
from peers.record import record
from rich.console import Console
from rich.table import Table
from torch.utils.data import DataLoader

from attnx.data.batches import collate
from attnx.data.buckets import BucketBatches
from attnx.data.corpus_cache.memmap import Entry, read_corpus, write_corpus
from attnx.data.vocabulary import Vocabulary

SYMBOLS = [f"w{number}" for number in range(32_000)]
TAGS = ("de", "et", "fi")
STATUS = Path("/proc/self/status")
MB = 10**6

COLUMNS: dict[str, tuple[str, float, int]] = {
    "disk": ("on disk, MB", MB, 0),
    "write_seconds": ("written in, s", 1, 1),
    "writer_private_peak": ("writer's private memory, MB", MB, 0),
    "reader_private_start": ("reader's private memory at first, MB", MB, 0),
    "reader_private_peak": ("at most, MB", MB, 0),
    "read_resident_peak": ("with the files' cached pages, MB", MB, 0),
    "first_batch_seconds": ("first batch after, s", 1, 2),
    "batches_per_second": ("batches/s", 1, 0),
}
"""What is reported of each size, its heading, unit and digits."""


def entries(pairs: int, seed: int = 0) -> Iterator[Entry]:
    """Sentences of 5 to 45 symbols and translations of about as many: pieces of one long random text."""
    draw = random.Random(seed)
    text = tuple(draw.choices(SYMBOLS, k=100_000))
    for _ in range(pairs):
        start, length = draw.randrange(99_000), draw.randrange(5, 46)
        second_start, longer = draw.randrange(99_000), length + draw.randrange(-3, 7)
        yield text[start : start + length], text[second_start : second_start + longer], draw.choice(TAGS)


def vocabulary() -> Vocabulary:
    """The vocabulary of both sides."""
    return Vocabulary.of([SYMBOLS])


def private_memory() -> int | None:
    """Private memory of this process in bytes, without file pages and shared memory; None if unknown."""
    return status("RssAnon")


def resident_peak() -> int:
    """The peak resident memory of this process in bytes, file pages included."""
    measured = status("VmHWM")
    if measured is not None:
        return measured
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if platform.system() == "Darwin" else 1024 * peak


def status(field: str) -> int | None:
    """A field of /proc/self/status in bytes."""
    if not STATUS.exists():
        return None
    lines = dict(line.split(":", 1) for line in STATUS.read_text(encoding="ascii").splitlines())
    return 1024 * int(lines[field].split()[0])


def measure_writing(folder: Path, pairs: int) -> dict[str, Any]:
    """Write a corpus and return what it took."""
    peaks = [private_memory()]

    def watched() -> Iterator[Entry]:
        for number, entry in enumerate(entries(pairs)):
            if number % 10_000 == 0:
                peaks.append(private_memory())
            yield entry

    started = time.perf_counter()
    write_corpus(folder, watched(), vocabulary(), vocabulary(), TAGS)
    return {
        "write_seconds": time.perf_counter() - started,
        "writer_private_peak": most(peaks),
        "disk": sum(file.stat().st_size for file in folder.iterdir()),
    }


def measure_reading(folder: Path, size: int, tokens: int | None, temperature: float, batches: int) -> dict[str, Any]:
    """Read the first batches of an epoch and return what it took."""
    symbols = vocabulary()
    peaks = [private_memory()]
    started = time.perf_counter()
    rows = read_corpus(folder, symbols, symbols, TAGS)
    order = BucketBatches(rows, None if tokens else size, tokens, temperature=temperature)
    loader = DataLoader(rows, batch_sampler=order, collate_fn=collate)
    first, read = 0.0, 0
    for read, _ in enumerate(islice(loader, batches), 1):
        first = first or time.perf_counter() - started
        if read % 20 == 1:
            peaks.append(private_memory())
    seconds = time.perf_counter() - started - first
    return {
        "reader_private_start": peaks[0],
        "reader_private_peak": most(peaks),
        "read_resident_peak": resident_peak(),
        "first_batch_seconds": first,
        "batches_per_second": (read - 1) / seconds if read > 1 else None,
        "batches_read": read,
    }


def most(measured: list[int | None]) -> int | None:
    """The largest value, if any could be measured."""
    return max((number for number in measured if number is not None), default=None)


def in_a_process(function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Call a function in a new process, so that only its memory is measured."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(function, *arguments).result()


def measure(pairs: int, options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Write, read and delete the corpus of one size."""
    busy_cpus = watch_neighbors()
    with tempfile.TemporaryDirectory(dir=options.folder) as parent:
        folder = Path(parent) / "corpus"
        with console.status(f"{pairs:,} pairs: writing"):
            figures = in_a_process(measure_writing, folder, pairs)
        with console.status(f"{pairs:,} pairs: reading"):
            figures |= in_a_process(
                measure_reading, folder, options.size, options.tokens, options.temperature, options.batches
            )
    used = busy_cpus()
    console.print(
        f"{pairs:,} pairs measured" + ("" if used is None else f", others used {used:.1f} CPUs"), highlight=False
    )
    return {"pairs": pairs, **figures, "cpus_used_by_other_programs": used}


def show(measured: list[dict[str, Any]], console: Console) -> None:
    """Print a table with a column for each size."""
    display = Table()
    display.add_column("pairs")
    for row in measured:
        display.add_column(f"{row['pairs']:,}", justify="right")
    for key, (heading, unit, digits) in COLUMNS.items():
        cells = ("-" if row[key] is None else f"{row[key] / unit:,.{digits}f}" for row in measured)
        display.add_row(heading, *cells)
    console.print(display)
    if any((row["cpus_used_by_other_programs"] or 0) >= BUSY for row in measured):
        console.print("other programs were busy: the seconds are too many, the memory is right", style="red")


def write(options: argparse.Namespace, measured: list[dict[str, Any]]) -> None:
    """Write the options and the measurements to the JSON file."""
    chosen_options = {key: getattr(options, key) for key in ("pairs", "size", "tokens", "temperature", "batches")}
    record(options.out, chosen_options, {"measured": measured})


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--pairs", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000], help="sizes of the corpora")
    add("--size", type=int, default=128, help="rows in a batch")
    add("--tokens", type=int, help="tokens in a batch, instead of rows")
    add("--temperature", type=float, default=1.0, help="temperature of sampling by language")
    add("--batches", type=int, default=2000, help="number of batches to read")
    add("--folder", type=Path, help="folder for the corpora (default: a temporary one)")
    add("--out", type=Path, default=ROOT / ".benchmarks" / "memory_of_corpora.json", help="JSON file to write")
    options = parser.parse_args()
    if min(*options.pairs, options.size, options.tokens or 1, options.batches) < 1 or not options.temperature >= 1:
        parser.error("all numbers must be at least 1")
    return options


def main() -> None:
    """Measure every size and report."""
    options, console = read_options(), Console()
    measured = [measure(pairs, options, console) for pairs in options.pairs]
    show(measured, console)
    write(options, measured)
    console.print(f"written to {options.out}", highlight=False)


if __name__ == "__main__":
    main()
