"""Progress of passes over a large corpus: a bar on a terminal, a line a minute elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from attnx.files.terminal import can_redraw

SECONDS_PER_LINE: Final = 60.0


@contextmanager
def show_progress(action: str, total: int, start: int = 0) -> Iterator[Callable[[int], None]]:
    """Yield a function that counts sentences; show on standard error how many, how many per second, and their share.

    ``total`` is the number of sentences; ``start`` were read before.
    """
    console = Console(stderr=True)
    columns = (TextColumn(action), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rate]}"))
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    # Without a thread that refreshes it: processes are forked meanwhile.
    bar = Progress(*columns, *times, console=console, disable=not can_redraw(console), auto_refresh=False)
    started = printed = time.monotonic()
    count = start

    def advance(sentences: int) -> None:
        nonlocal count, printed
        count += sentences
        now = time.monotonic()
        rate = f"{count:,} sentences, {(count - start) / max(now - started, 1e-9):,.0f}/s"
        bar.update(task, completed=min(count, total), rate=rate, refresh=True)
        if bar.disable and now - printed >= SECONDS_PER_LINE:
            console.print(f"{action}: {rate}, {min(1.0, count / total):.0%}", highlight=False, soft_wrap=True)
            printed = now

    with bar:
        task = bar.add_task(action, total=total, rate="")
        yield advance
