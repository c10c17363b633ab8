"""Launch the ranks of a run on this machine, and supervise them: signals, the first failure, the end of all."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from attnx.errors import ExitCode, Interrupted, RunFailed, Stopped, UserError, exit_code_for, type_and_text
from attnx.files.atomic_files import write_bytes, write_text
from attnx.files.process import ChildProcess, describe_exit, interrupt_with_parent, spawn
from attnx.registry.plugin_errors import find_plug_in
from attnx.runs.info import RunStatus, update_info
from attnx.runs.layout import ERROR_TXT, resume_command
from attnx.training.distributed.launched_rank import RankInfo
from attnx.training.distributed.process_group import FINISHING_FILE, RUN_PATH_FILE, init_process_group
from attnx.training.failure_report import is_deleted
from attnx.training.stop_signal import StopSignal

POLL_SECONDS = 0.05
# Time that rank 0 has to end by itself once another rank has ended; and in addition, if it is finishing its loggers by
# then, each of which has a limit of its own.
GRACE_SECONDS, LOGGER_SECONDS = 3.0, 60.0
CTRL_C_COUNT_TO_KILL = 3
# Time that a rank has to save and end when its launcher has died.
ORPHAN_GRACE_SECONDS = 30.0
# Time to wait for a thread that is about to end.
JOIN_SECONDS = 5.0
# Time that a thread takes to leave the system after Python has joined it.
EXIT_SECONDS = 0.2
# A function call that can be pickled; and what a rank reports of its end: the time, the error, and its traceback if it
# is unexpected.
Task = Callable[[], object]
Report = tuple[float, BaseException | None, str]
REPORT_FILE = "exit-{}"  # of a rank


def launch_ranks(main: Task, worker: Task, ranks: Sequence[RankInfo]) -> Path:
    """Train one model in several processes, ``main`` in rank 0; return the run folder.

    The processes are forks of this one where that is safe, else new ones, which import everything themselves.
    """
    with tempfile.TemporaryDirectory(prefix="attnx-") as folder:
        ranks = [info._replace(folder=folder) for info in ranks]
        start = _fork if can_fork(ranks[0].backend) else spawn
        processes = [start(partial(_run_rank, worker if info.rank else main, info, os.getpid())) for info in ranks]
        return ProcessSupervisor(processes, ranks, Path(folder)).wait()


def can_fork(backend: str) -> bool:
    """Whether this process may be forked: it has one thread, and needs no CUDA, which survives no fork."""
    if sys.platform != "linux" or backend != "gloo":
        return False
    for thread in threading.enumerate():  # kernels may still be compiling
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(JOIN_SECONDS)
    deadline = time.monotonic() + EXIT_SECONDS
    while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < deadline:
        time.sleep(EXIT_SECONDS / 100)
    return len(os.listdir("/proc/self/task")) == 1


def _fork(call: Callable[[], int]) -> ChildProcess:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    pid = os.fork()
    if pid:
        return ChildProcess(pid)
    code: int = ExitCode.FAILED
    try:
        os.setpgid(0, 0)  # out of reach of the terminal's Ctrl-C, which the parent handles
        code = call()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(code)


def _run_rank(task: Task, info: RankInfo, parent: int) -> int:
    """Run the task of a rank in its process, leave a report of how it ended, and return the exit code."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    interrupt_with_parent(parent, grace_seconds=ORPHAN_GRACE_SECONDS)
    folder = Path(info.folder)
    if info.local_rank:  # local rank 0 alone writes to the screen
        with (folder / f"log-{info.rank}").open("wb") as log:
            for stream in (1, 2):
                os.dup2(log.fileno(), stream)
    error: BaseException | None = None
    text = ""
    try:
        with init_process_group(info):
            task()
    except (KeyboardInterrupt, UserError) as known_error:
        error = known_error
    except BaseException as unknown_error:
        reason = find_plug_in(unknown_error) or type_and_text(unknown_error)
        error = RunFailed(f"rank {info.rank} of {info.world_size} failed: {reason}")
        text = "".join(traceback.format_exception(unknown_error))
    write_bytes(folder / REPORT_FILE.format(info.rank), pickle.dumps((time.time(), error, text)))
    return exit_code_for(error) if error else ExitCode.FINISHED


class ProcessSupervisor:
    """Supervises the ranks on this machine, and handles the signals that ask this process to stop.

    Signals are forwarded to rank 0, and all ranks stop after the same step. A third Ctrl-C kills them. Ranks leave
    messages in ``folder``.
    """

    def __init__(self, processes: Sequence[ChildProcess], ranks: Sequence[RankInfo], folder: Path) -> None:
        self.processes, self.ranks, self.folder = processes, ranks, folder
        self.stop_signal = StopSignal(lambda signum: None if self._must_kill() else processes[0].send_signal(signum))
        self._failure_times: dict[int, float] = {}  # local rank -> when its failure was noticed, unless killed by us
        self._killed: set[int] = set()

    def _must_kill(self) -> bool:
        return self.stop_signal.ctrl_c_count >= CTRL_C_COUNT_TO_KILL

    def wait(self) -> Path:
        """Wait until all ranks have ended; if one fails, end the others. Return the run folder.

        Raises:
            UserError: a mistake in the configuration or the data, as the first rank that failed reports.
            Interrupted: the run was asked to stop, and can be resumed.
            KeyboardInterrupt: it was asked to stop before it could be resumed.
            RunFailed: a rank failed, or was killed.
        """
        try:
            with self.stop_signal:
                self._end_with_first()
        finally:
            self._kill(range(len(self.processes)))
            while self._are_running():
                time.sleep(POLL_SECONDS)
        self._raise_first_failure()
        run = self._run_path()
        assert run is not None
        return run

    def _end_with_first(self) -> None:
        """Wait until all ranks have ended, and kill those that outlive a failure, or rank 0, for long."""
        deadline = math.inf
        while self._are_running():
            codes = [process.exit_code for process in self.processes]
            has_failed = any(code not in (None, ExitCode.FINISHED, ExitCode.INTERRUPTED) for code in codes)
            if has_failed or codes[0] is not None:
                deadline = min(deadline, time.monotonic() + GRACE_SECONDS)
            logger_seconds = LOGGER_SECONDS if (self.folder / FINISHING_FILE).exists() else 0.0
            if time.monotonic() > deadline + logger_seconds or self._must_kill():
                self._kill(range(len(self.processes)))
            elif has_failed:
                self._kill(range(1, len(self.processes)))
            time.sleep(POLL_SECONDS)

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

    def _raise_first_failure(self) -> None:
        """Raise what the first rank that failed has reported, if any failed."""
        reports = [self._report(index) for index, process in enumerate(self.processes) if process.exit_code]
        if not reports:
            return
        _, error, text = min(reports, key=lambda report: report[0])
        if error is None and not self.stop_signal.ctrl_c_count:
            return
        signum = self.stop_signal.signum
        if signum and self.processes[0].exit_code == -signum:  # it arrived before rank 0 could stop by itself
            raise self._interruption([])
        if error is None or isinstance(error, KeyboardInterrupt):
            raise self._interruption([self._report(0)[1], error])
        raise RunFailed(self._explain(error, text)) if isinstance(error, RunFailed) else error

    def _interruption(self, errors: Sequence[BaseException | None]) -> BaseException:
        """The exception for a run that was asked to stop; a rank that was killed could not record that it was."""
        for error in errors:
            if isinstance(error, Stopped):
                return error
        run, signum = self._run_path(), self.stop_signal.signum or signal.SIGINT
        if run is None:
            return Stopped("training had not begun", signum)
        with contextlib.suppress(OSError, ValueError):
            update_info(run, status=RunStatus.INTERRUPTED)
        return Interrupted(f"resume with: {resume_command(run)}", signum)

    def _report(self, index: int) -> Report:
        """The report of a rank, else one by its exit code; without an error if it was killed by the supervisor."""
        info, code = self.ranks[index], self.processes[index].exit_code
        with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):
            report: Report = pickle.loads((self.folder / REPORT_FILE.format(info.rank)).read_bytes())
            return report
        if index not in self._failure_times or code is None:
            return math.inf, None, ""
        # It ended before the ranks that missed it reported that they did.
        ended = self._failure_times[index] - 2 * POLL_SECONDS
        return ended, RunFailed(f"rank {info.rank} of {info.world_size} {describe_exit(code)}"), ""

    def _run_path(self) -> Path | None:
        """The run folder, once rank 0 has one."""
        with contextlib.suppress(OSError):
            return Path(os.path.relpath((self.folder / RUN_PATH_FILE).read_text(encoding="utf-8")))
        return None

    def _explain(self, error: RunFailed, text: str) -> str:
        """What went wrong and how to resume; also recorded in the run folder, if there is one."""
        message, run = str(error), self._run_path()
        if run is None or is_deleted(run):
            return message
        with contextlib.suppress(OSError, ValueError):
            if text:
                write_text(run / ERROR_TXT, text)
                message += f"; the traceback is in {run / ERROR_TXT}"
            update_info(run, status=RunStatus.FAILED, error=message)
        return message if "attnx resume" in message else f"{message}; resume with: {resume_command(run)}"
