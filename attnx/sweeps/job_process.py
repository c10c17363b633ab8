"""What a job's process does: it trains one composed, checked configuration in its own folder, and nothing else."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attnx.errors import Interrupted, RunFailed, UserError
from attnx.files.bounded_files import read_mapping
from attnx.files.printable import printable
from attnx.runs.layout import CHECKPOINTS, LAST, LOG, PROGRESS, RUN
from attnx.runs.plugin_copies import code_now
from attnx.runs.sweep import is_sweep, read_sweep
from attnx.training.callbacks.heartbeat import LISTENS
from attnx.training.distributed.slurm import signals, slurm_job

FINISHED, FAILED, MISTAKEN, INTERRUPTED = 0, 1, 2, 130


class JobSpec(NamedTuple):
    """All that a job's process is told; plain, so that it can be written as JSON.

    Attributes:
        config: composed and checked; ``folder`` is the job's own.
        overrides: what was asked, to be noted in the run folder.
        environment: all variables of the process.
        place: its working folder.
        call: what does it, by module and name; called with the configuration and the overrides.
    """

    config: Mapping[str, Any]
    overrides: Sequence[str]
    environment: Mapping[str, str]
    place: str
    call: str = "attnx.sweeps.job_process:work"


def answer(task: JobSpec) -> int:
    """Do the job and say how it ended, as an exit code; what went wrong is left in the job's folder in one line.

    Being interrupted is put off until there is someone to notice, and once the job has ended, nobody need notice.
    """
    progress = Path(task.place, task.config["folder"], PROGRESS)
    code = FINISHED
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        enter(task, progress)
        deaf()
        module, _, name = task.call.partition(":")
        getattr(importlib.import_module(module), name)(task.config, task.overrides)
        progress.unlink(missing_ok=True)
    except (KeyboardInterrupt, Interrupted):
        print("attnx: interrupted")
        code = INTERRUPTED
    except UserError as error:
        print(f"attnx: {printable(str(error))}")
        _leave(progress, str(error))
        code = FAILED if isinstance(error, RunFailed) else MISTAKEN
    except Exception as error:
        traceback.print_exc()
        _leave(progress, f"{type(error).__name__}: {error}")
        code = FAILED
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


def deaf() -> None:
    """Within SLURM, which signals every process of a job, leave it to the sweep to say what is to be done.

    A run that has begun hears them all the same, and does nothing else than it is told then.
    """
    for number in signals():
        if slurm_job() and number != signal.SIGINT:
            signal.signal(number, signal.SIG_IGN)


def enter(task: JobSpec, progress: Path) -> None:
    """Take a job's environment, working folder and log; from here on, whatever is printed goes there."""
    os.environ.clear()
    os.environ.update(task.environment)
    os.chdir(task.place)
    progress.parent.mkdir(parents=True, exist_ok=True)
    progress.unlink(missing_ok=True)
    os.environ[LISTENS] = str(progress)
    log = os.open(progress.with_name(LOG), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for new, old in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(new, old)
    os.close(nothing)
    os.close(log)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    print(printable(f"attnx {' '.join(task.overrides)}"))


def work(config: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Train, or go on, or do what was left undone after the training, by what the folder holds.

    Raises:
        UserError: a mistake in the configuration or the data.
        Interrupted: the job was asked to stop; it can be gone on from.
    """
    from attnx.accel.prebuild import compile_ahead
    from attnx.reports.run.build_all import draw_and_explain
    from attnx.training.fit import fit, resume

    folder = Path(config["folder"])
    status = read_mapping(folder / RUN).get("status")
    if status == "finished":  # cut off after its results were written
        draw_and_explain(folder)
        return
    refuse_edited(folder.parent, config)
    compile_ahead(config)
    if (folder / CHECKPOINTS / LAST).is_file():
        resume(folder)
    else:
        clear(folder)
        fit(config, overrides)


def refuse_edited(sweep: Path, config: Mapping[str, Any]) -> None:
    """See that plug-ins hold the code with which the sweep began, so that all its jobs have the same.

    Raises:
        UserError: one does not.
    """
    held = read_sweep(sweep).plugins if is_sweep(sweep) else {}
    for place, digest in code_now(config).items():
        if held.get(place, digest) != digest:
            raise UserError(f"the plug-in {place} was edited since this sweep began; put it back, or use fresh=true")


def clear(folder: Path) -> None:
    """Empty the folder of a job that stopped before its first checkpoint: only what it said stays."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name == LOG:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _leave(file: Path, error: str) -> None:
    with contextlib.suppress(OSError):
        file.write_text(json.dumps({"error": " ".join(error.split())}), encoding="utf-8")
