"""Whether a W&B server can be reached at all, found out in a time of our own: its client would wait and wait."""

from __future__ import annotations

import contextlib
import netrc
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attnx.loggers.timeout import CallTimeout, within

GRACE = 2.0  # seconds for what should take none


def why_unreachable(settings: Any, patience: float) -> str:
    """Why nothing can be uploaded, in words; nothing if it can be tried.

    Args:
        settings: W&B's, with the server's address, and a key if one was given in this process.
        patience: seconds that the server has to answer anything at all.
    """
    address = str(settings.base_url)
    if not (getattr(settings, "api_key", None) or has_key(address)):
        return "no API key (`wandb login`, or WANDB_API_KEY)"
    return silence(address, patience)


def has_key(address: str) -> bool:
    """Whether the environment or a netrc file has a key for a server; which it is nobody here wants to know."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    homes = [os.environ["NETRC"]] if os.environ.get("NETRC") else ["~/.netrc", "~/_netrc"]
    for path in (Path(home).expanduser() for home in homes):
        try:
            if netrc.netrc(path).authenticators(urlsplit(address).hostname or ""):
                return True
        except (OSError, netrc.NetrcParseError):
            continue
    return False


def silence(address: str, patience: float) -> str:
    """Why a server gives no answer; nothing if it gives any, be it a refusal."""
    late = f"{address} does not answer within {patience:g} s"
    try:
        # Looking up its name can take longer than the timeout says.
        within(patience, lambda: urllib.request.urlopen(address, timeout=patience).close())
    except urllib.error.HTTPError:
        return ""
    except TimeoutError:
        return late
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return late if isinstance(reason, TimeoutError) else f"{address} cannot be reached ({reason})"
    return ""


def stop(wandb: Any) -> None:
    """End W&B's own process on this machine, so that another can begin; one that hangs is killed.

    It writes what it is told into the run folder every second, so what it was told before is there.
    """
    connection = getattr(wandb.setup(), "_connection", None)
    process = getattr(getattr(connection, "_proc", None), "_process", None)
    with contextlib.suppress(Exception, SystemExit):  # its exit code is none of ours
        try:
            within(GRACE, lambda: wandb.teardown(0))
        except CallTimeout:
            if process is not None:
                process.kill()
                within(GRACE, process.wait)
