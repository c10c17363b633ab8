"""Plug-ins as a package: every file in a plug-in folder is importable as ``attnx.plugins.NAME``.

The folders are those in ``$ATTNX_PLUGINS`` and ``plugins/`` in the working folder if the user owns it. A real
package (rather than files loaded by path) lets data-loader workers and other processes unpickle what a plug-in made.
"""

from __future__ import annotations

import os
from pathlib import Path


def folders() -> list[Path]:
    """The plug-in folders in force now: named by ``$ATTNX_PLUGINS``, then ``plugins/`` here if it may be trusted."""
    named = [Path(entry) for entry in os.environ.get("ATTNX_PLUGINS", "").split(os.pathsep) if entry]
    local = Path("plugins")
    if local.is_dir() and _owned(local):
        named.append(local)
    return list(dict.fromkeys(folder.resolve() for folder in named if folder.is_dir()))


def _owned(folder: Path) -> bool:
    """Whether the folder belongs to the user and is not open to everybody's writing."""
    if not hasattr(os, "getuid"):
        return True
    status = folder.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o002


def refresh() -> None:
    """Let ``import attnx.plugins.NAME`` see the folders in force now."""
    global __path__
    __path__ = [str(folder) for folder in folders()]


refresh()
