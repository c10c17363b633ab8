"""Progress of passes over a large corpus: a bar on a terminal, a line a minute elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from attnx.data.readers.parallel_corpus import Sentence

SENTENCES_PER_UPDATE: Final = 1000
SECONDS_PER_LINE: Final = 60.0


def show_progress(
    action: str, sentences: Iterable[Sentence], total: int, start: int = 0, in_bytes: bool = False
) -> Iterator[Sentence]:
    """Yield sentences and show on standard error how many were read, how many per second, and the share of all.

    ``total`` is the number of sentences, or with ``in_bytes`` the bytes of their files; 0 if unknown. ``start`` were
    read before.
    """
    console = Console(stderr=True)
    columns = (TextColumn(action), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rate]}"))
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, *times, console=console, disable=not console.is_terminal)
    started = printed = time.monotonic()
    done, count = start, start
    with bar:
        task = bar.add_task(action, total=total or None, rate="")
        for sentence in sentences:
            yield sentence
            count += 1
            done += sum(len(text.encode()) + 1 for text in (sentence.source, *sentence.references)) if in_bytes else 1
            if count % SENTENCES_PER_UPDATE == 0:
                now = time.monotonic()
                rate = f"{count:,} sentences, {(count - start) / max(now - started, 1e-9):,.0f}/s"
                bar.update(task, completed=min(done, total) if total else done, rate=rate)
                if not console.is_terminal and now - printed >= SECONDS_PER_LINE:
                    share = f", {min(1.0, done / total):.0%}" if total else ""
                    console.print(f"{action}: {rate}{share}", highlight=False, soft_wrap=True)
                    printed = now


def unpacked_size(files: Sequence[Path]) -> int:
    """Return the bytes of the files' contents; of a ``.gz`` file as its trailer says (up to 4 GiB)."""
    return sum(_gzip_size(file) if file.suffix == ".gz" else file.stat().st_size for file in files)


def _gzip_size(file: Path) -> int:
    """The last four bytes of a gzip file, RFC 1952; of a file that is too short its reader reports an error."""
    with file.open("rb") as stream:
        stream.seek(-min(4, stream.seek(0, os.SEEK_END)), os.SEEK_END)
        return int.from_bytes(stream.read(4), "little")
