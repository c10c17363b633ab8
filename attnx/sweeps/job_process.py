"""The process of a sweep's job: it trains one checked configuration in its own folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attnx.errors import ExitCode, UserError, exit_code_for, type_and_text
from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import read_mapping
from attnx.files.file_lock import lock_while
from attnx.files.printable import printable
from attnx.files.process import interrupt_with_parent
from attnx.registry.plugin_errors import find_plug_in
from attnx.runs.layout import LOG_TXT, PROGRESS, PROGRESS_VARIABLE, RUN_JSON, RUN_LOCK
from attnx.runs.plugin_copies import current_code
from attnx.runs.run import Run
from attnx.runs.sweep import is_sweep, read_sweep
from attnx.training.distributed.slurm import slurm_job, stop_signals

WAITING = "attnx: waiting for the process of an earlier command, which still trains this run"


class JobSpec(NamedTuple):
    """What the process of a job needs; ``config`` has the job's own ``folder``.

    ``target`` is called with the configuration and the overrides in place of training.
    """

    config: Mapping[str, Any]
    overrides: Sequence[str]
    environment: Mapping[str, str]
    working_folder: str
    target: Callable[[Mapping[str, Any], Sequence[str]], None] | None = None


def run_job(spec: JobSpec) -> int:
    """Run a job and return the exit code; an error is left in the job's folder in one line.

    SIGINT must be blocked; it is unblocked once its handler is installed, and ignored after the job has ended.
    """
    progress = Path(spec.working_folder, spec.config["folder"], PROGRESS)
    code = ExitCode.FINISHED
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        setup_process(spec, progress)
        ignore_slurm_signals()
        (spec.target or train_or_resume)(spec.config, spec.overrides)
        progress.unlink(missing_ok=True)
    except BaseException as error:
        code = exit_code_for(error)
        _report(error, progress)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


def run_alone(parent: int, spec: JobSpec) -> int:
    """Run one job in a process that ``parent`` started for it; return the exit code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    interrupt_with_parent(parent)
    return run_job(spec)


def _report(error: BaseException, progress: Path) -> None:
    """Print an error into the log, and leave it in the file by which the sweep watches the job."""
    if isinstance(error, KeyboardInterrupt):
        print("attnx: interrupted")
        return
    if isinstance(error, UserError):
        message = str(error)
        print(f"attnx: {printable(message)}")
    else:
        traceback.print_exception(error)
        message = find_plug_in(error) or type_and_text(error)
    with contextlib.suppress(OSError):
        write_json(progress, {"error": " ".join(message.split())})


def ignore_slurm_signals() -> None:
    """Ignore SLURM's signals, which reach every process of a SLURM job: the sweep decides what its jobs do.

    A run handles them while it trains; it then saves and ends, as the sweep will ask it to.
    """
    for signum in stop_signals():
        if slurm_job() and signum != signal.SIGINT:
            signal.signal(signum, signal.SIG_IGN)


def setup_process(spec: JobSpec, progress: Path) -> None:
    """Set environment and working folder, and send all output to the job's log."""
    os.environ.clear()
    os.environ.update(spec.environment)
    os.chdir(spec.working_folder)
    progress.parent.mkdir(parents=True, exist_ok=True)
    progress.unlink(missing_ok=True)
    os.environ[PROGRESS_VARIABLE] = str(progress)
    log = os.open(progress.with_name(LOG_TXT), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    null = os.open(os.devnull, os.O_RDONLY)
    for file, stream in ((null, 0), (log, 1), (log, 2)):
        os.dup2(file, stream)
    os.close(null)
    os.close(log)
    for output in (sys.stdout, sys.stderr):
        output.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    print(printable(f"attnx {' '.join(spec.overrides)}"))


def train_or_resume(config: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Train, resume, or finish the report, by what the job's folder holds once no other process trains there.

    Raises:
        UserError: a mistake in the configuration or the data.
        Interrupted: the job was asked to stop; it can be resumed.
    """
    from attnx.reports.build_all import build_reports
    from attnx.training.fit import fit_job, resume

    folder = Path(config["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    with lock_while(folder / RUN_LOCK, lambda: print(WAITING, flush=True)):
        if read_mapping(folder / RUN_JSON).get("status") == "finished":  # killed after its results were written
            build_reports(folder)
            return
        reject_edited_plugins(folder.parent, config)
        has_checkpoint = Run(folder).has_checkpoint
        if not has_checkpoint:
            empty_folder(folder)
    if has_checkpoint:
        resume(folder)
    else:
        config_dir = read_sweep(folder.parent).config_dir if is_sweep(folder.parent) else None
        fit_job(config, overrides, config_dir=config_dir)


def reject_edited_plugins(sweep: Path, config: Mapping[str, Any]) -> None:
    """Refuse plug-ins that were edited since the sweep began, so that all its jobs have the same code."""
    recorded = read_sweep(sweep).plugins if is_sweep(sweep) else {}
    for path, digest in current_code(config).items():
        if recorded.get(path, digest) != digest:
            raise UserError(f"the plug-in {path} was edited since this sweep began; put it back, or use fresh=true")


def empty_folder(folder: Path) -> None:
    """Empty the folder of a job that stopped before its first checkpoint, except for its log and its lock."""
    for path in folder.iterdir():
        if path.name in (LOG_TXT, RUN_LOCK):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
