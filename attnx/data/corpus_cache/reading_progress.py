"""Shows how far the readings of a large corpus are: a bar at a terminal, a line a minute anywhere else."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from attnx.data.readers.parallel_corpus import Sentence

EVERY_SENTENCES: Final = 1000
EVERY_SECONDS: Final = 60.0


def watched(
    what: str, sentences: Iterable[Sentence], total: int, first: int = 0, in_bytes: bool = False
) -> Iterator[Sentence]:
    """Pass sentences on, and show on standard error how many went by, how many a second, and which share that is.

    Args:
        what: is done with them.
        sentences: them.
        total: how many there are, or how many bytes their files hold; 0 if that is not known.
        first: how many went by before.
        in_bytes: whether ``total`` is in bytes.
    """
    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[told]}"))
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, *times, console=console, disable=not console.is_terminal)
    begun = shown = time.monotonic()
    done, count = first, first
    with bar:
        task = bar.add_task(what, total=total or None, told="")
        for sentence in sentences:
            yield sentence
            count += 1
            done += _size(sentence) if in_bytes else 1
            if count % EVERY_SENTENCES == 0:
                now = time.monotonic()
                told = f"{count:,} sentences, {(count - first) / max(now - begun, 1e-9):,.0f}/s"
                bar.update(task, completed=min(done, total) if total else done, told=told)
                if not console.is_terminal and now - shown >= EVERY_SECONDS:
                    share = f", {min(1.0, done / total):.0%}" if total else ""
                    console.print(f"{what}: {told}{share}", highlight=False, soft_wrap=True)
                    shown = now


def _size(sentence: Sentence) -> int:
    """The bytes of a line of it, and of a line or a column of each translation."""
    return sum(len(text.encode()) + 1 for text in (sentence.source, *sentence.references))


def size_of(files: Sequence[Path]) -> int:
    """How many bytes the files hold, unpacked; of one that is packed as it says itself (up to 4 GiB)."""
    return sum(_unpacked(file) if file.suffix == ".gz" else file.stat().st_size for file in files)


def _unpacked(file: Path) -> int:
    """The last four bytes of a gzip file, RFC 1952; 0 of one that is too short, which its reader will tell."""
    with file.open("rb") as stream:
        size = stream.seek(0, 2)
        if size < 4:
            return 0
        stream.seek(-4, 2)
        return int.from_bytes(stream.read(4), "little")
