"""Supervise the ranks of a run: forward signals, detect the first failure, end the other ranks."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from attnx.errors import ExitCode, Interrupted, RunFailed, Stopped, UserError
from attnx.runs.info import update_info
from attnx.runs.layout import ERROR
from attnx.training.callbacks.stop_signal import StopSignal
from attnx.training.distributed.child_process import ChildProcess, describe_exit
from attnx.training.distributed.process_group import FINISHING_FILE, RUN_PATH_FILE, RankInfo
from attnx.training.failure_report import is_deleted

POLL_SECONDS = 0.05
# Time that rank 0 has to end by itself once another rank has ended; and in addition, if it is finishing its loggers by
# then, each of which has a limit of its own.
GRACE_SECONDS, LOGGER_SECONDS = 3.0, 60.0
CTRL_C_COUNT_TO_KILL = 3


class ExitReport(NamedTuple):
    """What a rank reports of its end; reports are ordered by time.

    Attributes:
        time: seconds since the epoch.
        code: exit code.
        message: what went wrong, in one line.
        folder: the run folder, if the run was interrupted and can be resumed.
        signum: the signal that interrupted it.
        traceback: of an unexpected error.
    """

    time: float
    code: int
    message: str = ""
    folder: str = ""
    signum: int = 0
    traceback: str = ""


def report_file(folder: Path, rank: int) -> Path:
    """The file of a rank's exit report."""
    return folder / f"exit-{rank}.json"


class ProcessSupervisor:
    """Supervises the ranks on this machine; as a context it handles the signals that ask this process to stop.

    Signals are forwarded to rank 0, and all ranks stop after the same step. A third Ctrl-C kills them.

    Args:
        processes: the processes of the ranks on this machine.
        ranks: their ranks.
        folder: where ranks leave messages.
    """

    def __init__(self, processes: Sequence[ChildProcess], ranks: Sequence[RankInfo], folder: Path) -> None:
        self.processes, self.ranks, self.folder = processes, ranks, folder
        self.stop_signal = StopSignal(self._forward)
        self._failure_times: dict[int, float] = {}  # local rank -> when its failure was noticed, unless killed by us
        self._killed: set[int] = set()

    def __enter__(self) -> ProcessSupervisor:
        """Install signal handlers."""
        self.stop_signal.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Restore signal handlers."""
        self.stop_signal.__exit__(kind, error, traceback)

    def _forward(self, signum: int) -> None:
        if not self._must_kill():
            self.processes[0].send_signal(signum)

    def _must_kill(self) -> bool:
        return self.stop_signal.ctrl_c_count >= CTRL_C_COUNT_TO_KILL

    def wait(self) -> None:
        """Wait until all ranks have ended; if one fails, end the others."""
        deadline: float | None = None
        while self._are_running():
            codes = [process.exit_code for process in self.processes]
            has_failed = any(code not in (None, ExitCode.FINISHED, ExitCode.INTERRUPTED) for code in codes)
            if deadline is None and (has_failed or codes[0] is not None):
                deadline = time.monotonic() + GRACE_SECONDS
            is_late = deadline is not None and time.monotonic() > deadline + self._logger_seconds()
            if is_late or self._must_kill():
                self._kill(range(len(self.processes)))
            elif has_failed:
                self._kill(range(1, len(self.processes)))
            time.sleep(POLL_SECONDS)

    def _logger_seconds(self) -> float:
        return LOGGER_SECONDS if (self.folder / FINISHING_FILE).exists() else 0.0

    def _are_running(self) -> bool:
        """Poll all ranks; return whether one is running."""
        has_ended = [self._has_ended(index) for index in range(len(self.processes))]
        return not all(has_ended)

    def _has_ended(self, index: int) -> bool:
        process = self.processes[index]
        if process.has_ended() and process.exit_code and index not in self._killed:
            self._failure_times.setdefault(index, time.time())
        return process.exit_code is not None

    def _kill(self, indices: Sequence[int]) -> None:
        for index in indices:
            if not self._has_ended(index):
                self._killed.add(index)
                self.processes[index].send_signal(signal.SIGKILL)

    def kill_all(self) -> None:
        """Kill the ranks that are running."""
        self._kill(range(len(self.processes)))
        while self._are_running():
            time.sleep(POLL_SECONDS)

    def raise_first_failure(self) -> None:
        """Raise what the first rank that failed has reported, if any failed.

        Raises:
            UserError: a mistake in the configuration or the data.
            Interrupted: the run was asked to stop, and can be resumed.
            KeyboardInterrupt: it was asked to stop before it could be resumed.
            RunFailed: a rank failed, or was killed.
        """
        reports = [self._report(index) for index, process in enumerate(self.processes) if process.exit_code]
        first = min((report for report in reports if report is not None), default=None)
        if first is None and not self.stop_signal.ctrl_c_count:
            return
        if first is None or first.code == ExitCode.INTERRUPTED:
            main = self._report(0)
            raise self._interruption(main if main is not None and main.code == ExitCode.INTERRUPTED else first)
        raise (UserError if first.code == ExitCode.USER_ERROR else RunFailed)(self._explain(first))

    def _interruption(self, report: ExitReport | None) -> BaseException:
        """The exception for a run that was asked to stop; a rank that was killed could not record that it was."""
        if report is not None and report.folder:
            return Interrupted(Path(report.folder), report.signum)
        if report is not None and report.message:
            return Stopped(report.message, report.signum)
        if not self._has_run_folder():
            return KeyboardInterrupt()
        with contextlib.suppress(OSError, ValueError):
            update_info(self.run_path, status="interrupted")
        return Interrupted(self.run_path)

    def _report(self, index: int) -> ExitReport | None:
        """What a rank has reported, or what its exit code says; None if it was killed by the supervisor."""
        info, code = self.ranks[index], self.processes[index].exit_code
        with contextlib.suppress(OSError, ValueError):
            return ExitReport(*json.loads(report_file(self.folder, info.rank).read_text(encoding="utf-8")))
        if index not in self._failure_times or code is None:
            return None
        # It ended before the ranks that missed it reported that they did.
        ended = self._failure_times[index] - 2 * POLL_SECONDS
        return ExitReport(ended, ExitCode.FAILED, f"rank {info.rank} of {info.world_size} {describe_exit(code)}")

    def _has_run_folder(self) -> bool:
        return (self.folder / RUN_PATH_FILE).is_file()

    @property
    def run_path(self) -> Path:
        """The run folder."""
        return Path(os.path.relpath((self.folder / RUN_PATH_FILE).read_text(encoding="utf-8")))

    def _explain(self, report: ExitReport) -> str:
        """What went wrong and how to resume; also recorded in the run folder, if there is one."""
        message = report.message
        if report.code == ExitCode.USER_ERROR or not self._has_run_folder() or is_deleted(self.run_path):
            return message
        run = self.run_path
        with contextlib.suppress(OSError, ValueError):
            if report.traceback:
                (run / ERROR).write_text(report.traceback, encoding="utf-8")
                message += f"; the traceback is in {run / ERROR}"
            update_info(run, status="failed", error=message)
        return message if "attnx resume" in message else f"{message}; resume with: attnx resume {shlex.quote(str(run))}"
