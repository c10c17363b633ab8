"""The disk usage of a folder, and its last write."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class DiskUsage(NamedTuple):
    """The bytes of all files in a folder, and when one was last written, in seconds since 1970."""

    size: int
    modified: float


def disk_usage(folder: Path | str) -> DiskUsage:
    """The bytes in a folder, and when a file in it was last written; no symbolic link is followed.

    A file with several hard links counts once.
    """
    files = {(stat.st_dev, stat.st_ino): stat for stat in _file_stats(folder)}.values()
    return DiskUsage(sum(stat.st_size for stat in files), max((stat.st_mtime for stat in files), default=0.0))


def freed_bytes(paths: Iterable[Path]) -> int:
    """The bytes that are freed if some files are deleted; none of a file that keeps a hard link."""
    stats = [path.lstat() for path in paths]
    links = Counter((stat.st_dev, stat.st_ino) for stat in stats)
    files = {(stat.st_dev, stat.st_ino): stat for stat in stats}
    return sum(stat.st_size for file, stat in files.items() if links[file] == stat.st_nlink)


def _file_stats(folder: Path | str) -> Iterator[os.stat_result]:
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # a process that writes renames files meanwhile
                if entry.is_dir(follow_symlinks=False):
                    yield from _file_stats(entry.path)
                else:
                    yield os.lstat(entry.path)
