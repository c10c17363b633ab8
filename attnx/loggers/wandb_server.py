"""Check whether a W&B server answers, with a timeout that W&B's client does not have; and stop W&B's own process."""

from __future__ import annotations

import contextlib
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

STOP_SECONDS = 2.0  # time for calls that should return at once


def offline_reason(settings: Any, timeout: float) -> str:
    """Why nothing can be uploaded; "" if it can be tried. The server has ``timeout`` seconds to answer."""
    address = str(settings.base_url)
    if not (getattr(settings, "api_key", None) or has_api_key(address)):
        return "no API key (`wandb login`, or WANDB_API_KEY)"
    return unreachable_reason(address, timeout)


def has_api_key(address: str) -> bool:
    """Whether the environment or a netrc file has a key for a server."""
    from requests.utils import get_netrc_auth  # which W&B's client requires

    is_in_environment = os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE")
    return bool(is_in_environment or get_netrc_auth(address))


def unreachable_reason(address: str, timeout: float) -> str:
    """Why a server does not answer; "" if it does, be it with an error."""
    late = f"{address} does not answer within {timeout:g} s"
    try:
        # urlopen does not limit the time of the name look-up.
        call_with_timeout(timeout, lambda: urllib.request.urlopen(address, timeout=timeout).close())
    except urllib.error.HTTPError:
        return ""
    except TimeoutError:
        return late
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return late if isinstance(reason, TimeoutError) else f"{address} cannot be reached ({reason})"
    return ""


def stop_service(wandb: Any) -> None:
    """Stop W&B's own process on this machine, so that another can start; a process that hangs is killed.

    It writes into the run folder every second, so little is lost. Its handle is a private attribute of W&B's.
    """
    connection = getattr(wandb.setup(), "_connection", None)
    process = getattr(getattr(connection, "_proc", None), "_process", None)
    with contextlib.suppress(Exception, SystemExit):  # it exits with a code of its own
        try:
            call_with_timeout(STOP_SECONDS, lambda: wandb.teardown(0))
        except CallTimeout:
            if process is not None:
                process.kill()
                call_with_timeout(STOP_SECONDS, process.wait)


class CallTimeout(TimeoutError):
    """A call did not return in time; it continues in a thread that ends with the process."""


def call_with_timeout(seconds: float, function: Callable[[], Any]) -> Any:
    """Call a function in a thread; return or raise what it does, or a CallTimeout if it takes longer.

    >>> call_with_timeout(5, lambda: 7)
    7
    """
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()  # which, unlike an executor's, lets the process end
    if wait([future], seconds).not_done:
        raise CallTimeout(f"not done within {seconds:g} s")
    return future.result()
