"""Starts the processes that train one model, waits for them, and sees that none is left, however one of them ends."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attnx.errors import Interrupted, RunFailed, UserError
from attnx.training.distributed.process_group import FOLDER, RankInfo, joined
from attnx.training.distributed.supervisor import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    MISTAKEN,
    ExitReport,
    ProcessSupervisor,
    RankProcess,
)

# So long a process whose starter is gone has to save and end, in seconds.
ORPHANED = 30.0
# So long threads that will end are waited for, in seconds.
JOINED = 5.0
PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from attnx.training.distributed.launcher import started; started()"
)


class ProcessTask(NamedTuple):
    """What each process does: it calls a function; all plain, so that it can be written as JSON.

    Attributes:
        call: module and name.
        given: arguments.
    """

    call: str
    given: Sequence[Any]

    def do(self) -> None:
        """Do it."""
        module, _, name = self.call.partition(":")
        getattr(importlib.import_module(module), name)(*self.given)


def together(lead: ProcessTask, follow: ProcessTask, places: Sequence[RankInfo]) -> Path:
    """Have processes train a model together, each in its place; return the run folder.

    They are copies of this process where that is safe, else new ones, which import everything themselves.

    Args:
        lead: what the first of all does.
        follow: what the others do.
        places: of those on this machine.

    Raises:
        UserError: a mistake, as the first that found it says.
        Interrupted: they were asked to stop, and a run can be gone on with.
        KeyboardInterrupt: they were asked to stop before.
        RunFailed: one failed, or was killed.
    """
    with tempfile.TemporaryDirectory(prefix="attnx-") as folder, _lifeline() as (ours, theirs):
        places = [place._replace(meeting=place.meeting or f"file://{folder}/meeting") for place in places]
        begin = _copy if can_copy(places[0].backend) else _new
        children = [begin(follow if place.rank else lead, place, Path(folder), ours, theirs) for place in places]
        watch = ProcessSupervisor(children, Path(folder))
        try:
            with watch:
                watch.wait()
        finally:
            watch.end()
        watch.judge()
        return watch.run


def can_copy(backend: str) -> bool:
    """Whether a process may be forked: no thread would be lost, and CUDA, which survives no fork, is not needed."""
    for thread in threading.enumerate():  # one compiles kernels ahead, as a run begins
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(JOINED)
    return sys.platform == "linux" and backend == "gloo" and len(os.listdir("/proc/self/task")) == 1


@contextlib.contextmanager
def _lifeline() -> Iterator[tuple[int, int]]:
    """Two ends of a pipe that nobody writes into: it is closed when this process is gone, however that came."""
    theirs, ours = os.pipe()
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


def _copy(work: ProcessTask, place: RankInfo, folder: Path, ours: int, theirs: int) -> RankProcess:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    process = os.fork()
    if process:
        return RankProcess(process, place)
    code = FAILED
    try:
        os.close(ours)
        os.setpgid(0, 0)  # out of reach of the terminal's Ctrl-C, which the parent hears
        code = _act(work, place, folder, theirs)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(code)


def _new(work: ProcessTask, place: RankInfo, folder: Path, ours: int, theirs: int) -> RankProcess:
    command = [sys.executable, "-c", PROGRAM, json.dumps([os.path.abspath(path) for path in sys.path])]
    process = subprocess.Popen(command, pass_fds=[theirs], process_group=0, stdin=subprocess.PIPE)
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as told:
        told.write(json.dumps([work, place, str(folder), theirs]).encode())
    return RankProcess(process, place)


def started() -> None:
    """Do the work that a new process reads from its input."""
    work, place, folder, theirs = json.loads(sys.stdin.read())
    sys.exit(_act(ProcessTask(*work), RankInfo(*place), Path(folder), theirs))


def _act(work: ProcessTask, place: RankInfo, folder: Path, theirs: int) -> int:
    """In a process of its own: work, and say how it ended."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, args=[theirs], daemon=True).start()
    os.environ[FOLDER] = str(folder)
    if place.local:
        _keep_quiet(folder / f"log-{place.rank}")
    try:
        with joined(place):
            work.do()
    except Interrupted as stopped:
        said = ExitReport(time.time(), INTERRUPTED, folder=str(stopped.folder), number=stopped.number)
    except KeyboardInterrupt as stopped:
        said = ExitReport(time.time(), INTERRUPTED, str(stopped), number=getattr(stopped, "number", signal.SIGINT))
    except RunFailed as error:
        said = ExitReport(time.time(), FAILED, str(error))
    except UserError as error:
        said = ExitReport(time.time(), MISTAKEN, str(error))
    except Exception as error:
        line = f"rank {place.rank} of {place.world} failed: {type(error).__name__}: {' '.join(str(error).split())}"
        said = ExitReport(time.time(), FAILED, line, traceback=traceback.format_exc())
    else:
        said = ExitReport(time.time(), FINISHED)
    (folder / f"said-{place.rank}").write_text(json.dumps(said), encoding="utf-8")
    return said.code


def _end_with_parent(theirs: int) -> None:
    os.read(theirs, 1)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(ORPHANED)
    os._exit(INTERRUPTED)


def _keep_quiet(log: Path) -> None:
    """Only the first process of a machine writes to the screen."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)
