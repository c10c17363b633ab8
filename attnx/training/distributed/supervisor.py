"""Watches the processes that train one model: passes signals on, notices which ended first and why, ends the others."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NamedTuple

from attnx.errors import Interrupted, RunFailed, Stopped, UserError
from attnx.runs.layout import ERROR
from attnx.training import run_folder
from attnx.training.distributed.process_group import ENDING, RUN, RankInfo
from attnx.training.distributed.slurm import signals
from attnx.training.failure_report import is_deleted

SECONDS = 0.05
# So long the first process may take to end by itself once another has ended, in seconds; and longer, if by then it
# tells the loggers, of which each has a limit of its own.
GRACE, TELLING = 3.0, 60.0
FINISHED, FAILED, MISTAKEN, INTERRUPTED = 0, 1, 2, 130
# The Ctrl-C that ends all at once.
LAST = 3


class ExitReport(NamedTuple):
    """What a process says of its end.

    Attributes:
        at: when, in seconds.
        code: as what.
        line: what went wrong.
        folder: of a run that was asked to stop, where it lies.
        number: the signal by which it was asked.
        traceback: of what nobody foresaw.
    """

    at: float
    code: int
    line: str = ""
    folder: str = ""
    number: int = 0
    traceback: str = ""


class RankProcess:
    """A process that was started; its number, and how it ended once it has."""

    def __init__(self, process: int | subprocess.Popen[bytes], place: RankInfo) -> None:
        self._process, self.place = process, place
        self.number = process if isinstance(process, int) else process.pid
        self.code: int | None = None

    def ended(self) -> bool:
        """Look whether it has ended."""
        if self.code is None:
            if isinstance(self._process, int):
                found, status = os.waitpid(self._process, os.WNOHANG)
                self.code = os.waitstatus_to_exitcode(status) if found else None
            else:
                self.code = self._process.poll()
        return self.code is not None

    def send(self, number: int) -> None:
        """Send a signal, if it has not ended."""
        if not self.ended():
            os.kill(self.number, number)


class ProcessSupervisor:
    """The processes on this machine; as a context it hears what asks this one to stop.

    A signal goes to the first of them, and all stop together; a third Ctrl-C ends them.

    Args:
        children: the processes.
        folder: where they say how they ended.
    """

    def __init__(self, children: Sequence[RankProcess], folder: Path) -> None:
        self.children, self.folder = children, folder
        self._seen: dict[int, float] = {}  # rank -> when it was seen that it had ended badly, unless it was by us
        self._killed: set[int] = set()
        self._presses = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> ProcessSupervisor:
        """Listen; only the main thread may."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._hear) for number in signals()}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._presses += number == signal.SIGINT
        if self._presses < LAST:
            self.children[0].send(number)

    def wait(self) -> None:
        """Wait until all have ended; when one ends badly, see that all do."""
        until: float | None = None
        while self._left():
            first, *others = self.children
            bad = any(child.code not in (None, FINISHED, INTERRUPTED) for child in self.children)
            if until is None and (bad or first.code is not None):
                until = time.monotonic() + GRACE
            late = until is not None and time.monotonic() > until + TELLING * (self.folder / ENDING).exists()
            for child in self.children if late or self._presses >= LAST else others if bad else ():
                self._kill(child)
            time.sleep(SECONDS)

    def _left(self) -> bool:
        """Look at all of them; return whether one has not ended."""
        ended = [self._look(child) for child in self.children]
        return not all(ended)

    def _look(self, child: RankProcess) -> bool:
        if child.ended() and child.code and child.place.rank not in self._killed:
            self._seen.setdefault(child.place.rank, time.time())
        return child.code is not None

    def _kill(self, child: RankProcess) -> None:
        if not self._look(child):
            self._killed.add(child.place.rank)
            child.send(signal.SIGKILL)

    def end(self) -> None:
        """Leave none behind."""
        for child in self.children:
            self._kill(child)
        while self._left():
            time.sleep(SECONDS)

    def judge(self) -> None:
        """Raise what the first that did not end well said of it; if none did, there is nothing to raise.

        Raises:
            UserError: a mistake.
            Interrupted: they were asked to stop, and a run can be gone on with.
            KeyboardInterrupt: they were asked to stop before.
            RunFailed: one failed, or was killed.
        """
        ended = [self._said(child) for child in self.children if child.code]
        said = min((one for one in ended if one is not None), default=None)
        if said is None and not self._presses:
            return
        mine = self._said(self.children[0])
        if said is None or said.code == INTERRUPTED:
            raise self._stopped(mine if mine is not None and mine.code == INTERRUPTED else said)
        raise MISTAKES.get(said.code, RunFailed)(self._blamed(said))

    def _stopped(self, said: ExitReport | None) -> BaseException:
        """What is raised where they were asked to stop; one that a third Ctrl-C ended could not note that it was."""
        if said is not None and said.folder:
            return Interrupted(Path(said.folder), said.number)
        if said is not None and said.line:
            return Stopped(said.line, said.number)
        if not (self.folder / RUN).is_file():
            return KeyboardInterrupt()
        with contextlib.suppress(OSError, ValueError):
            run_folder.note(self.run, status="interrupted")
        return Interrupted(self.run)

    def _said(self, child: RankProcess) -> ExitReport | None:
        rank, world = child.place.rank, child.place.world
        with contextlib.suppress(OSError, ValueError):
            return ExitReport(*json.loads((self.folder / f"said-{rank}").read_text(encoding="utf-8")))
        if rank not in self._seen or child.code is None:
            return None
        # It could not say when, but it was before those that missed it.
        at, who = self._seen[rank] - 2 * SECONDS, f"rank {rank} of {world}"
        if child.code >= 0:
            return ExitReport(at, FAILED, f"{who} ended with exit code {child.code}")
        known = {int(number): number.name for number in signal.Signals}
        by_whom = " (by hand, or by a system that ran out of memory)" if child.code == -signal.SIGKILL else ""
        return ExitReport(at, FAILED, f"{who} was killed by {known.get(-child.code, -child.code)}{by_whom}")

    @property
    def run(self) -> Path:
        """The run folder."""
        return Path(os.path.relpath((self.folder / RUN).read_text(encoding="utf-8")))

    def _blamed(self, said: ExitReport) -> str:
        """What went wrong, kept in the run folder too if there is one by now, and how to go on."""
        if said.code == MISTAKEN or not (self.folder / RUN).is_file() or is_deleted(self.run):
            return said.line
        run, line = self.run, said.line
        with contextlib.suppress(OSError, ValueError):
            if said.traceback:
                (run / ERROR).write_text(said.traceback, encoding="utf-8")
                line += f"; the traceback is in {run / ERROR}"
            run_folder.note(run, status="failed", error=line)
        return line if "attnx resume" in line else f"{line}; go on with: attnx resume {shlex.quote(str(run))}"


MISTAKES = {MISTAKEN: UserError, FAILED: RunFailed}
