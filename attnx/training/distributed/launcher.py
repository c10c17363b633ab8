"""Launch the ranks of a run on this machine, and wait for them; none outlives the launcher."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attnx.errors import ExitCode, Interrupted, RunFailed, UserError, exit_code_for
from attnx.training.distributed.child_process import ChildProcess, spawn
from attnx.training.distributed.parent_death import interrupt_with_parent
from attnx.training.distributed.process_group import MESSAGE_FOLDER_VARIABLE, RankInfo, init_process_group
from attnx.training.distributed.supervisor import ExitReport, ProcessSupervisor, report_file

# Time that a rank has to save and end when its launcher has died.
ORPHAN_GRACE_SECONDS = 30.0
# Time to wait for a thread that is about to end.
JOIN_SECONDS = 5.0


class ProcessTask(NamedTuple):
    """A function call, in values that JSON can hold.

    Attributes:
        target: the function, as ``module:function``.
        arguments: its arguments.
    """

    target: str
    arguments: Sequence[Any]

    def run(self) -> None:
        """Call the function."""
        module, _, name = self.target.partition(":")
        getattr(importlib.import_module(module), name)(*self.arguments)


def launch_ranks(main: ProcessTask, worker: ProcessTask, ranks: Sequence[RankInfo]) -> Path:
    """Train one model in several processes; return the run folder.

    The processes are forks of this one where that is safe, else new ones, which import everything themselves.

    Args:
        main: the task of rank 0.
        worker: the task of the other ranks.
        ranks: those on this machine.

    Raises:
        UserError: a mistake, as the first rank that found it reports.
        Interrupted: the run was asked to stop, and can be resumed.
        KeyboardInterrupt: it was asked to stop before it could be resumed.
        RunFailed: a rank failed, or was killed.
    """
    with tempfile.TemporaryDirectory(prefix="attnx-") as folder:
        ranks = [info._replace(init_method=info.init_method or f"file://{folder}/meeting") for info in ranks]
        start = _fork if can_fork(ranks[0].backend) else _spawn
        processes = [start(worker if info.rank else main, info, folder) for info in ranks]
        supervisor = ProcessSupervisor(processes, ranks, Path(folder))
        try:
            with supervisor:
                supervisor.wait()
        finally:
            supervisor.kill_all()
        supervisor.raise_first_failure()
        return supervisor.run_path


def can_fork(backend: str) -> bool:
    """Whether this process may be forked: it has one thread, and needs no CUDA, which survives no fork."""
    for thread in threading.enumerate():  # kernels may still be compiling
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(JOIN_SECONDS)
    return sys.platform == "linux" and backend == "gloo" and len(os.listdir("/proc/self/task")) == 1


def _fork(task: ProcessTask, info: RankInfo, folder: str) -> ChildProcess:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return ChildProcess(pid)
    code: int = ExitCode.FAILED
    try:
        os.setpgid(0, 0)  # out of reach of the terminal's Ctrl-C, which the parent handles
        code = _rank_main(task, info, Path(folder), parent)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(code)


def _spawn(task: ProcessTask, info: RankInfo, folder: str) -> ChildProcess:
    return spawn("attnx.training.distributed.launcher:run_spawned_rank", [task, info, folder, os.getpid()])


def run_spawned_rank(task: Sequence[Any], info: Sequence[Any], folder: str, parent: int) -> None:
    """Run the task of a rank in a new process, and exit."""
    sys.exit(_rank_main(ProcessTask(*task), RankInfo(*info), Path(folder), parent))


def _rank_main(task: ProcessTask, info: RankInfo, folder: Path, parent: int) -> int:
    """Run the task of a rank in its process, leave a report of how it ended, and return the exit code."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    interrupt_with_parent(parent, grace_seconds=ORPHAN_GRACE_SECONDS)
    os.environ[MESSAGE_FOLDER_VARIABLE] = str(folder)
    if info.local_rank:  # local rank 0 alone writes to the screen
        _redirect_output(folder / f"log-{info.rank}")
    try:
        with init_process_group(info):
            task.run()
        report = ExitReport(time.time(), ExitCode.FINISHED)
    except (KeyboardInterrupt, Exception) as error:
        report = _report_of(error, info)
    report_file(folder, info.rank).write_text(json.dumps(report), encoding="utf-8")
    return report.code


def _report_of(error: BaseException, info: RankInfo) -> ExitReport:
    report = ExitReport(time.time(), exit_code_for(error), str(error))
    if isinstance(error, Interrupted):
        return report._replace(message="", folder=str(error.folder), signum=error.signum)
    if isinstance(error, KeyboardInterrupt):
        return report._replace(signum=getattr(error, "signum", signal.SIGINT))
    if isinstance(error, UserError | RunFailed):
        return report
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    message = f"rank {info.rank} of {info.world_size} failed: {reason}"
    return report._replace(message=message, traceback="".join(traceback.format_exception(error)))


def _redirect_output(log: Path) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)
