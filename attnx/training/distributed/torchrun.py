"""Ranks that torchrun started: how they meet, and which run those before a restart had begun."""

from __future__ import annotations

import contextlib
import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch._C._distributed_c10d import TCPStore

# Keys in the store of torchrun's agents, which outlives the ranks that they start.
PORT_KEY, RUN_FOLDER_KEY = "attnx/port", "attnx/run_folder"
# For the slowest rank to arrive; and to see that nothing answers at a port.
STORE_TIMEOUT, CONNECT_TIMEOUT = timedelta(minutes=5), timedelta(seconds=2)


def open_rank_store(rank: int) -> TCPStore | None:
    """A new store that rank 0 serves, for the ranks to meet in; None if torchrun did not start this process.

    The agents' store keeps the keys of ranks that were restarted, so a rank that meets others there may wait for a dead
    one (pytorch/pytorch#135712). ``TORCHELASTIC_RESTART_COUNT`` cannot set them apart, since every agent has its own.
    """
    agent_store = _open_agent_store()
    if agent_store is None:
        return None
    from torch.distributed import DistNetworkError

    if rank == 0:
        store = _open_store(0, is_master=True)
        agent_store.set(PORT_KEY, str(store.port))
        return store
    while True:
        with contextlib.suppress(DistNetworkError):  # nothing answers at the port of a rank 0 that has ended
            store = _open_store(int(agent_store.get(PORT_KEY)), timeout=CONNECT_TIMEOUT)
            store.set_timeout(STORE_TIMEOUT)
            return store


def record_begun_run(folder: Path) -> None:
    """Record the folder of a new run for the ranks after a restart."""
    if store := _open_agent_store():
        store.set(RUN_FOLDER_KEY, str(folder))


def find_begun_run() -> Path | None:
    """The folder of the run that this command began before torchrun restarted its ranks; else None."""
    store = _open_agent_store()
    return Path(store.get(RUN_FOLDER_KEY).decode()) if store and store.check([RUN_FOLDER_KEY]) else None


def _open_agent_store() -> TCPStore | None:
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    return _open_store(int(os.environ["MASTER_PORT"]))


def _open_store(port: int, is_master: bool = False, timeout: timedelta = STORE_TIMEOUT) -> TCPStore:
    # Late, for a command that checks its words before torch is imported; public, though mypy does not see it exported.
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    store: TCPStore = TCPStore(os.environ["MASTER_ADDR"], port, is_master=is_master, timeout=timeout)
    return store
