"""The size of a folder and its last write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class FolderUse(NamedTuple):
    """The bytes of all files in a folder, and when one was last written, in seconds since 1970."""

    size: int
    modified: float


def folder_use(folder: Path | str) -> FolderUse:
    """The bytes in a folder, and when a file in it was last written; no link is followed."""
    size, modified = 0, 0.0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                use = folder_use(entry.path)
            else:
                stat = entry.stat(follow_symlinks=False)
                use = FolderUse(stat.st_size, stat.st_mtime)
            size, modified = size + use.size, max(modified, use.modified)
    return FolderUse(size, modified)
