"""Work on the shards of a corpus, by several processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, TypeVar

from attnx.data.readers.parallel_corpus import Shard
from attnx.errors import UserError

T = TypeVar("T")
Progress = Callable[[int], None]
"""Is called with the number of sentences that were read since the last call."""


def work_on_shards(
    work: Callable[[Shard, Progress], T], shards: Sequence[Shard], processes: int, progress: Progress
) -> Iterator[T]:
    """Yield the result of ``work`` for each shard, in the order of the shards.

    ``processes`` forked processes have every so many-th shard each; with one, this process does all. They end if the
    iterator is closed, or this process dies.

    Raises:
        ChildProcessError: a process was killed.
        Exception: what ``work`` raised.
    """
    if min(processes, len(shards)) <= 1:
        yield from (work(shard, progress) for shard in shards)
        return
    workers: list[Worker] = []
    results: dict[int, T] = {}
    try:
        workers.extend(_start(work, shards[first::processes]) for first in range(min(processes, len(shards))))
        for shard in shards:
            while shard.index not in results:
                results |= _receive(workers, progress)
            yield results.pop(shard.index)
    finally:
        for process, _ in workers:
            process.kill()
            process.join()


Worker = tuple[ForkProcess, Connection]


def _start(work: Callable[[Shard, Progress], Any], shards: Sequence[Shard]) -> Worker:
    receiver, sender = multiprocessing.Pipe(duplex=False)
    # Forked: what the work needs is there already. Results are pickled.
    process = multiprocessing.get_context("fork").Process(
        target=_send_results, args=(work, shards, sender, os.getpid())
    )
    process.start()
    sender.close()
    return process, receiver


def _send_results(
    work: Callable[[Shard, Progress], Any], shards: Sequence[Shard], sender: Connection, parent: int
) -> None:
    """Work in a child process: send (index, result) of each shard, and numbers of sentences; or an exception."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and kills this process

    def report(sentences: int) -> None:
        if os.getppid() != parent:
            os._exit(1)
        sender.send(sentences)

    try:
        for shard in shards:
            sender.send((shard.index, work(shard, report)))
    except Exception as error:
        if not isinstance(error, UserError):
            error.add_note(traceback.format_exc())
        sender.send(error)


def _receive(workers: list[Worker], progress: Progress) -> dict[int, Any]:
    """Wait for messages and return the results among them by the index of their shards."""
    results = {}
    receivers = {receiver: process for process, receiver in workers if not receiver.closed}
    for receiver in wait(list(receivers)):
        assert isinstance(receiver, Connection)
        try:
            message = receiver.recv()
        except (EOFError, OSError):  # an OSError where it ends within a message
            receiver.close()
            _check_exit(receivers[receiver])
            continue
        if isinstance(message, Exception):
            raise message
        if isinstance(message, int):
            progress(message)
        else:
            results[message[0]] = message[1]
    return results


def _check_exit(process: ForkProcess) -> None:
    """Raise a ChildProcessError if a process whose pipe is closed was killed."""
    process.join()
    if process.exitcode:
        reason = "by hand, or by a system that ran out of memory; task.cache_processes=1 needs the least"
        raise ChildProcessError(f"a process that worked on it was killed ({reason})")
