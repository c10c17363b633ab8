"""Pairs a second and memory of writing a cache, by the number of processes.

Synthetic parallel text files are encoded through ``task=translation`` with ``task.cache_folder``, once for each number
of processes. Each cache is written by a new process, whose memory and that of its children another process samples. The
caches are compared byte by byte. Learning the tokenizers, which depends on the sample alone, is timed for itself.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import resource
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from memory_of_corpus_cache import write_texts
from peers.environments import ROOT
from peers.neighbors import watch_neighbors
from peers.record import record
from rich.console import Console
from rich.table import Table

from attnx.data.corpus_cache import build
from attnx.data.readers import parallel_corpus
from attnx.data.readers.parallel_corpus import Sentence
from attnx.tasks.translation import Translation

MB = 10**6
PROC = Path("/proc")
COLUMNS: dict[str, tuple[str, float, int]] = {
    "pairs_per_second": ("pairs/s, both passes", 1, 0),
    "pass_seconds": ("both passes, s", 1, 1),
    "cpu_seconds": ("their CPU time, s", 1, 1),
    "learning_seconds": ("learning tokenizers, s", 1, 1),
    "peak": ("memory of all processes, MB", MB, 0),
    "disk": ("cache, MB", MB, 1),
    "cpus_used_by_other_programs": ("CPUs of others", 1, 1),
}
"""What is reported of each cache, its heading, unit and digits."""


class TimedTranslation(Translation):
    """The task, which times how long it learns its tokenizers."""

    learning_seconds = 0.0
    learning_cpu_seconds = 0.0

    def _train_tokenizers(self, sentences: list[Sentence]) -> None:
        started, busy = time.perf_counter(), time.process_time()
        super()._train_tokenizers(sentences)
        self.learning_seconds = time.perf_counter() - started
        self.learning_cpu_seconds = time.process_time() - busy


def write_cache(sender: Connection, files: list[str], cache: str, processes: int, options: argparse.Namespace) -> None:
    """Write a cache and report what it took."""
    build.MAX_SAMPLE = options.sample  # type: ignore[misc]
    parallel_corpus.LINES_PER_SHARD = options.shard  # type: ignore[misc]
    options = {"holdout": options.holdout, "vocab_size": options.vocab_size, "tokenizer": options.tokenizer}
    task = TimedTranslation(train=files, cache_folder=cache, cache_processes=processes, **options)
    started = time.perf_counter()
    cpu_start = _cpu_seconds()
    task.load()
    seconds = time.perf_counter() - started - task.learning_seconds
    cpu_seconds = _cpu_seconds() - cpu_start - task.learning_cpu_seconds
    sender.send({"pass_seconds": seconds, "cpu_seconds": cpu_seconds, "learning_seconds": task.learning_seconds})


def _cpu_seconds() -> float:
    """The CPU time of this process and of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def private_memory(process: int) -> int:
    """Private memory of a process and its children in bytes; a page that some of them share counts once."""
    try:
        children = (PROC / f"{process}/task/{process}/children").read_text().split()
        rollup = (PROC / f"{process}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    kilobytes = next((int(line.split()[1]) for line in rollup if line.startswith("Pss_Anon:")), 0)
    return 1024 * kilobytes + sum(private_memory(int(child)) for child in children)


def hash_folder(folder: Path) -> str:
    """The hash of the names and the bytes of all files of a folder."""
    digest = hashlib.sha256()
    for file in files_of(folder):
        with file.open("rb") as stream:
            digest.update(f"{file.relative_to(folder)} {hashlib.file_digest(stream, 'sha256').hexdigest()}".encode())
    return digest.hexdigest()


def files_of(folder: Path) -> list[Path]:
    """All files of a folder, in order."""
    return sorted(file for file in folder.rglob("*") if file.is_file())


def measure(files: list[str], cache: Path, processes: int, options: argparse.Namespace) -> dict[str, Any]:
    """Write a cache in a new process and sample its memory ten times a second."""
    busy_cpus = watch_neighbors()
    receiver, sender = multiprocessing.Pipe(duplex=False)
    arguments = sender, files, str(cache), processes, options
    process = multiprocessing.get_context("spawn").Process(target=write_cache, args=arguments)
    process.start()
    sender.close()
    assert process.pid is not None
    peak = 0
    while not receiver.poll(0.1):
        peak = max(peak, private_memory(process.pid))
    result = receiver.recv()
    process.join()
    return {
        "pairs": options.pairs,
        "processes": processes,
        "pairs_per_second": options.pairs / result["pass_seconds"],
        **result,
        "peak": peak,
        "disk": sum(file.stat().st_size for file in files_of(cache)),
        "sha256": hash_folder(cache),
        "cpus_used_by_other_programs": busy_cpus(),
    }


def show(measured: list[dict[str, Any]], console: Console) -> None:
    """Print a table with a line for each cache."""
    display = Table("pairs", "processes", *(heading for heading, _, _ in COLUMNS.values()))
    for row in measured:
        shown = (
            "-" if row[key] is None else f"{row[key] / unit:,.{digits}f}" for key, (_, unit, digits) in COLUMNS.items()
        )
        display.add_row(f"{row['pairs']:,}", str(row["processes"]), *shown)
    console.print(display)
    equal = len({row["sha256"] for row in measured}) == 1
    console.print("all caches are equal" if equal else "the caches differ", style="" if equal else "red")


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--pairs", type=int, default=1_000_000, help="size of the corpus")
    add("--processes", type=int, nargs="+", default=[1, 2], help="as task.cache_processes")
    add("--shard", type=int, default=parallel_corpus.LINES_PER_SHARD, help="lines in a shard")
    add("--sample", type=int, default=build.MAX_SAMPLE, help="sentences that the tokenizers learn from")
    add("--tokenizer", default="bpe", help="as task.tokenizer")
    add("--vocab-size", type=int, default=8000, help="as task.vocab_size")
    add("--holdout", type=float, default=0.001, help="as task.holdout")
    add("--folder", type=Path, help="folder for the corpora (default: a temporary one)")
    add("--out", type=Path, default=ROOT / ".benchmarks" / "corpus_cache_speed.json", help="JSON file to write")
    return parser.parse_args()


def main() -> None:
    """Write the texts, write a cache of them with each number of processes, and report."""
    options, console = read_options(), Console()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        files = write_texts(Path(name), options.pairs)
        measured = [measure(files, Path(name) / f"cache{n}", n, options) for n in options.processes]
    show(measured, console)
    chosen_options = {key: value for key, value in vars(options).items() if key not in ("folder", "out")}
    record(options.out, chosen_options, {"measured": measured})
    console.print(f"written to {options.out}", highlight=False)


if __name__ == "__main__":
    main()
