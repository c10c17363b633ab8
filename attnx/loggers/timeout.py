"""Call a function with a timeout."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class CallTimeout(TimeoutError):
    """A call did not return in time; it continues in a thread that ends with the process."""


def call_with_timeout(seconds: float, function: Callable[[], Any]) -> Any:
    """Call a function in a thread; return or raise what it does.

    Raises:
        CallTimeout: it takes longer.

    >>> call_with_timeout(5, lambda: 7)
    7
    """
    results: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise CallTimeout(f"not done within {seconds:g} s")
    if errors:
        raise errors[0]
    return results[0]
