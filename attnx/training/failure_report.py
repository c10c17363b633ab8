"""What can go wrong with a run that has begun, said in one line: why, what is kept, which knob, how to go on."""

from __future__ import annotations

import re
import shlex
import signal
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lightning.pytorch.utilities import rank_zero_only

from attnx.errors import Interrupted, RunFailed, Stopped, UserError, cannot_write, exception_chain, out_of_memory
from attnx.laws.first_use import find_plug_in
from attnx.runs.layout import ERROR, RUN
from attnx.training import run_folder
from attnx.training.callbacks.nan_guard import STEP_NOTE_PREFIX
from attnx.training.callbacks.stop_signal import StopSignal
from attnx.training.data_workers import out_of_shared_memory


@contextmanager
def told(folder: Path, trainer: Mapping[str, Any]) -> Iterator[None]:
    """Note in a run's folder how it ended if it did not end well, and raise that as one line where its cause is known.

    The traceback is kept in ``error.txt``.

    Args:
        folder: the run's.
        trainer: the trainer's knobs.

    Raises:
        Interrupted: by a signal.
        Stopped: by a signal, and the folder was deleted meanwhile.
        RunFailed: the disk is full or cannot be written, memory ran out, a data worker died, or the folder was deleted.
    """
    with StopSignal() as stopping:
        try:
            yield
        except (KeyboardInterrupt, Interrupted) as stopped:
            stopping.ignore()
            number = stopped.signum if isinstance(stopped, Interrupted) else stopping.signum or signal.SIGINT
            if is_deleted(folder):
                raise Stopped(deleted(folder), number) from None
            _note(folder, status="interrupted")
            raise Interrupted(folder, number) from None
        except Exception as error:
            stopping.ignore()
            if is_deleted(folder):
                raise RunFailed(deleted(folder)) from error
            if isinstance(error, UserError):
                _note(folder, status="failed", error=str(error))
                raise
            line = in_one_line(error, folder, trainer)
            _note(folder, status="failed", error=line or f"{type(error).__name__}: {' '.join(str(error).split())}")
            kept = _keep_traceback(error, folder)
            if line:
                raise RunFailed(line) from error
            error.add_note(f"{kept}; try again with: {_resume(folder)}")
            raise


def is_deleted(folder: Path) -> bool:
    """Whether the folder of a run that has begun is no longer there."""
    return not (folder / RUN).is_file()


def deleted(folder: Path) -> str:
    """Say that it is not, and what to do."""
    return f"{folder}: the run's folder was deleted while it ran, so nothing is left to go on with; start the run anew"


def in_one_line(error: BaseException, folder: Path, trainer: Mapping[str, Any]) -> str:
    """Say what went wrong, or nothing if that is not known."""
    where = "".join(f" {note}" for note in getattr(error, "__notes__", []) if note.startswith(STEP_NOTE_PREFIX))
    if out_of_memory(error):
        knob = "batch_tokens" if trainer.get("batch_tokens") else "batch_size"
        return (
            f"out of memory{where}; start anew with a smaller trainer.{knob} (it was {trainer.get(knob)}); half of it "
            f"with twice the trainer.accumulate_grad_batches ({trainer.get('accumulate_grad_batches', 1)}) learns "
            "from as much a step"
        )
    if any(map(out_of_shared_memory, exception_chain(error))):
        return (
            f"the data workers ran out of shared memory (/dev/shm is full): free some of it, or set workers: 0 below "
            f"trainer: in {folder / 'config.yaml'} (trainer.num_workers=0 of a new run); then go on with: "
            f"{_resume(folder)}"
        )
    if unwritten := cannot_write(error, str(folder)):
        return f"{unwritten}, then go on with: {_resume(folder)}"
    if died := re.search(r"DataLoader worker \(pid\S* ([\d, ]+)\) (.*?)(?:\. |\.?$)", " ".join(str(error).split())):
        return (
            f"a data worker died (process {died[1]} {died[2]}); go on with: {_resume(folder)}; if it happens again, "
            f"set trainer.num_workers to 0 in {folder / 'config.yaml'}"
        )
    if line := find_plug_in(error):
        return f"{line}; the traceback is in {folder / ERROR}"
    return ""


def _resume(folder: Path) -> str:
    return f"attnx resume {shlex.quote(str(folder))}"


def _note(folder: Path, **facts: Any) -> None:
    """Note it, if that can be: a disk may be full."""
    if getattr(rank_zero_only, "rank", 0) == 0:
        with suppress(OSError, ValueError):
            run_folder.note(folder, **facts)


def _keep_traceback(error: BaseException, folder: Path) -> str:
    text = f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')}\n{''.join(traceback.format_exception(error))}"
    try:
        (folder / ERROR).write_text(text, encoding="utf-8")
    except OSError:
        return "the traceback could not be kept"
    return f"the traceback is in {folder / ERROR}"
