"""Catch the signals that ask a process to stop: SIGINT, SIGTERM, and SLURM's warnings."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from attnx.training.distributed.slurm import stop_signals


class StopSignal:
    """Signal handlers while the context is open; only the main thread may install them.

    Without ``on_signal`` the first signal is only noted if the training loop polls for it (``is_polled``). Otherwise it
    raises KeyboardInterrupt, as a second Ctrl-C does in any case.

    Args:
        on_signal: called with the number of each signal, instead of raising KeyboardInterrupt.

    Attributes:
        signum: the first signal that arrived; 0 before.
        ctrl_c_count: how often SIGINT arrived.
        is_polled: whether a loop looks at ``signum``.
    """

    def __init__(self, on_signal: Callable[[int], None] | None = None) -> None:
        self.signum = self.ctrl_c_count = 0
        self.is_polled = False
        self._on_signal = on_signal
        self._previous_handlers: dict[signal.Signals, Any] = {}

    @property
    def stop_count(self) -> int:
        """How often the user asked to stop; the signals that a cluster sends close together count as one."""
        return self.ctrl_c_count + (self.signum not in (0, signal.SIGINT))

    def __enter__(self) -> StopSignal:
        if threading.current_thread() is threading.main_thread():
            self._previous_handlers = {signum: signal.getsignal(signum) for signum in stop_signals()}
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the previous handlers; Lightning leaves Ctrl-C ignored once it has handled one."""
        for signum, handler in self._previous_handlers.items():
            signal.signal(signum, handler)

    def listen(self) -> None:
        """Install the handlers again, if another library has replaced them."""
        for signum in self._previous_handlers:
            signal.signal(signum, self._handle)

    def ignore(self) -> None:
        """Ignore further signals, so that they cannot cut off what is written at the end."""
        for signum in self._previous_handlers:
            signal.signal(signum, signal.SIG_IGN)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        self.signum = self.signum or signum
        self.ctrl_c_count += signum == signal.SIGINT
        if self._on_signal is not None:
            self._on_signal(signum)
        elif not self.is_polled or self.ctrl_c_count > 1:
            self.is_polled = False
            raise KeyboardInterrupt
