"""The file in a sweep's folder that asks jobs under Hydra's other launchers, which get no signal, to save and end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from attnx.errors import Stopped
from attnx.runs.layout import STOP_REQUEST
from attnx.runs.sweep import Sweep
from attnx.training.callbacks.stop_signal import StopSignal


def is_stop_requested(sweep: Path) -> bool:
    """Whether the jobs of the sweep in a folder are asked to save and end."""
    return (sweep / STOP_REQUEST).exists()


def make_stop_error(sweep: Sweep, signum: int) -> Stopped:
    """The error of a command that a signal has stopped; it says how to go on."""
    return Stopped(f"resume with: {sweep.resume_command}", signum)


@contextlib.contextmanager
def request_stop_by_signal(sweep: Sweep) -> Iterator[None]:
    """Ask a sweep's jobs to save and end when this process gets a signal; a second one ends the launcher.

    The launcher goes on until they have ended: to interrupt it would kill them.

    Raises:
        Stopped: there was a signal; with how to resume.
    """

    def request_stop(_: int) -> None:
        if stop_signal.stop_count > 1:
            raise KeyboardInterrupt
        (sweep.path / STOP_REQUEST).touch()

    stop_signal = StopSignal(request_stop)
    (sweep.path / STOP_REQUEST).unlink(missing_ok=True)  # of a command that was killed
    error = None
    try:
        with stop_signal:
            yield
    except (KeyboardInterrupt, Exception) as caught:
        if not stop_signal.signum:
            raise
        error = caught
    finally:
        (sweep.path / STOP_REQUEST).unlink(missing_ok=True)
    if stop_signal.signum:
        raise make_stop_error(sweep, stop_signal.signum) from error
