"""Does what may hang, for so long and no longer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class CallTimeout(TimeoutError):
    """Something was not done in its time; it is left behind, in a thread that ends with the process."""


def within(seconds: float, act: Callable[[], Any]) -> Any:
    """Do something, and return or raise what it does.

    Raises:
        Stuck: it takes longer.

    >>> within(5, lambda: 7)
    7
    """
    returned: list[Any] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            returned.append(act())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise CallTimeout(f"not done within {seconds:g} s")
    if raised:
        raise raised[0]
    return returned[0]
