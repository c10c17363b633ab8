"""Hears that a run is to stop: by Ctrl-C, by SIGTERM, or by a cluster that wants its machine back."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from attnx.training.distributed.slurm import signals


class StopSignal:
    """As a context, takes those signals over; only the main thread may.

    The first one is noted, if there is somebody who looks for it; without, and by a second Ctrl-C, they interrupt at
    once. A cluster sends several of its own, close together: those count as one.

    Attributes:
        asked: the first signal that came, 0 before.
        patient: whether somebody looks whether there was one.
    """

    def __init__(self) -> None:
        self.asked = 0
        self.patient = False
        self._presses = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignal:
        """Listen."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in signals()}
        self.listen()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Give them back; Lightning has Ctrl-C ignored once it was heard."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def listen(self) -> None:
        """Listen, whoever has listened meanwhile."""
        for number in self._before:
            signal.signal(number, self._hear)

    def ignore(self) -> None:
        """Hear nothing more: what is being written about the end is not to be cut off, too."""
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.asked = self.asked or number
        self._presses += number == signal.SIGINT
        if not self.patient or self._presses > 1:
            self.patient = False
            raise KeyboardInterrupt
