"""Reports a failed run in one line: the cause, what is saved, which option to change, how to resume."""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attnx.errors import (
    Interrupted,
    RunFailed,
    Stopped,
    UserError,
    explain_write_error,
    is_out_of_memory,
    type_and_text,
)
from attnx.files.atomic_files import write_text
from attnx.registry.plugin_errors import find_plug_in
from attnx.reports.run.readme import write_run_readme
from attnx.runs.info import RunStatus, update_info
from attnx.runs.layout import ERROR_TXT, RUN_JSON, resume_command
from attnx.training.callbacks.nan_guard import PHASES, STEP_NOTE_PREFIX
from attnx.training.stop_signal import StopSignal


@contextmanager
def record_failure(folder: Path, trainer: Mapping[str, Any]) -> Iterator[None]:
    """Record a failure in the run folder, and raise it as one line if its cause is known; error.txt has the traceback.

    Raises:
        Interrupted: by a signal.
        Stopped: by a signal, and the folder was deleted meanwhile.
        RunFailed: the disk is full or cannot be written, memory ran out, or the folder was deleted.
    """
    with StopSignal() as stop_signal:
        try:
            yield
        except BaseException as error:
            stop_signal.ignore()
            failure = _record(error, folder, trainer, stop_signal.signum)
            with suppress(OSError, UserError):  # the disk may be full
                write_run_readme(folder)
            if failure is error:
                raise
            raise failure from (error if isinstance(failure, RunFailed) else None)


def _record(error: BaseException, folder: Path, trainer: Mapping[str, Any], signum: int) -> BaseException:
    """Record an error in run.json and error.txt; return the exception to raise."""
    deleted = f"{folder}: the run's folder was deleted while it ran, so it cannot be resumed; start a new run"
    if isinstance(error, KeyboardInterrupt):
        signum = error.signum if isinstance(error, Stopped) else signum or signal.SIGINT
        if is_deleted(folder):
            return Stopped(deleted, signum)
        with suppress(OSError, ValueError):  # the disk may be full
            update_info(folder, status=RunStatus.INTERRUPTED)
        return Interrupted(f"resume with: {resume_command(folder)}", signum)
    if is_deleted(folder):
        return RunFailed(deleted)
    line = str(error) if isinstance(error, UserError) else failure_line(error, folder, trainer)
    with suppress(OSError, ValueError):
        update_info(folder, status=RunStatus.FAILED, error=line or type_and_text(error))
    if isinstance(error, UserError):
        return error
    try:
        text = f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')}\n{''.join(traceback.format_exception(error))}"
        write_text(folder / ERROR_TXT, text)
        note = f"the traceback is in {folder / ERROR_TXT}"
    except OSError:
        note = "the traceback could not be saved"
    if line:
        return RunFailed(line)
    advice = f"{note}; try again with: {resume_command(folder)}"
    if not isinstance(error, Exception):  # a SystemExit would end the command, and nobody would see why
        return RunFailed(f"{type_and_text(error)}; {advice}")
    error.add_note(advice)
    return error


def is_deleted(folder: Path) -> bool:
    """Whether the folder of a running run was deleted."""
    return not (folder / RUN_JSON).is_file()


def failure_line(error: BaseException, folder: Path, trainer: Mapping[str, Any]) -> str:
    """The cause and what to do; "" if the cause is not known."""
    step_note = "".join(f" {note}" for note in getattr(error, "__notes__", []) if note.startswith(STEP_NOTE_PREFIX))
    if is_out_of_memory(error):
        option = "batch_tokens" if trainer.get("batch_tokens") else "batch_size"
        advice = f"start a new run with a smaller trainer.{option} (it was {trainer.get(option)})"
        if not any(phase in step_note for phase in (PHASES["validate"], PHASES["test"])):
            steps = f"trainer.accumulate_grad_batches ({trainer.get('accumulate_grad_batches', 1)})"
            advice += f"; half of it with twice the {steps} takes equal steps"
        return f"out of memory{step_note}; {advice}"
    if write_error := explain_write_error(error, str(folder)):
        return f"{write_error}, then resume with: {resume_command(folder)}"
    if line := find_plug_in(error):
        return f"{line}; the traceback is in {folder / ERROR_TXT}"
    return ""
