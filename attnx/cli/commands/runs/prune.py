"""Deletes the weights of runs: never of a running one, and never through a link."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.filesize import decimal

from attnx.cli.commands.runs.table import Column, print_columns
from attnx.errors import UserError
from attnx.files.printable import print_line
from attnx.reports.run.readme import write_run_readme
from attnx.runs.info import RunStatus, update_info
from attnx.runs.layout import BEST, CHECKPOINTS, LAST, README, refuse_links
from attnx.runs.run import Run, lock_run
from attnx.runs.sweep import is_locked

KEEP = ("best", "last", "none")


class Deletion(NamedTuple):
    """Checkpoints of a run to delete."""

    run: Run
    checkpoints: list[Path]

    @property
    def names(self) -> list[str]:
        """The names of the checkpoints."""
        return [file.name for file in self.checkpoints]

    @property
    def size(self) -> int:
        """The bytes that are freed; none of a file that keeps a hard link."""
        stats = [path.lstat() for path in self.checkpoints]
        links = Counter((stat.st_dev, stat.st_ino) for stat in stats)
        files = {(stat.st_dev, stat.st_ino): stat for stat in stats}
        return sum(stat.st_size for file, stat in files.items() if links[file] == stat.st_nlink)


def plan_deletions(runs: Sequence[Run], keep: str) -> list[Deletion]:
    """The checkpoints to delete of each run: all but the ``best``, or but the ``last``, or all (``none``).

    Runs that are running are left alone.

    Raises:
        UserError: the sweep of a run is running.
    """
    deletions = [Deletion(run, _checkpoints_to_delete(run, keep)) for run in runs if run.status != RunStatus.RUNNING]
    deletions = [deletion for deletion in deletions if deletion.checkpoints]
    for sweep in filter(None, dict.fromkeys(deletion.run.sweep for deletion in deletions)):
        if is_locked(sweep):
            raise UserError(f"{sweep}: this sweep is running; end it, or leave it out with 'name!={sweep.name}/*'")
    return deletions


def _checkpoints_to_delete(run: Run, keep: str) -> list[Path]:
    """A run that has not finished keeps its best checkpoint and the one it resumes from, unless ``keep`` is none."""
    folder = run.path / CHECKPOINTS
    if folder.is_symlink() or not folder.is_dir():
        return []
    files = sorted(file for file in folder.glob("*.ckpt") if file.is_symlink() or file.is_file())
    if keep == "none":
        return files
    kept_file = f"{keep}.ckpt"
    stay = {kept_file} if any(file.name == kept_file for file in files) else {BEST, LAST}
    if run.status != RunStatus.FINISHED:
        stay |= {BEST, LAST}
    return [file for file in files if file.name not in stay]


def show_plan(deletions: Sequence[Deletion], runs: Sequence[Run]) -> None:
    """Print what would be deleted, and what follows from it."""
    if deletions:
        paths = [str(deletion.run.path) for deletion in deletions]
        files = [" ".join(deletion.names) for deletion in deletions]
        sizes = [decimal(deletion.size) for deletion in deletions]
        print_columns([Column("run", paths, 0), Column("deletes", files, 1), Column("size", sizes, 1, right=True)])
    if running := sum(run.status == RunStatus.RUNNING for run in runs):
        print_line(f"left alone: {running} running")
    if count := sum(LAST in item.names and item.run.status != RunStatus.FINISHED for item in deletions):
        print_line(f"{count} unfinished run(s) will restart from the beginning when resumed")
    if count := sum(BEST in deletion.names for deletion in deletions):
        print_line(f"{count} run(s) have no best weights after this, to predict, evaluate or export with")


def delete(deletions: Sequence[Deletion]) -> tuple[int, list[str]]:
    """Delete; return the bytes freed, and a message for each run whose checkpoints could not be deleted."""
    freed, messages = 0, []
    for deletion in deletions:
        path, size = deletion.run.path, deletion.size
        try:
            with lock_run(path):  # nobody resumes it meanwhile
                refuse_links(path)
                # First run.json records them. A killed run is interrupted: writing run.json would make it look running.
                info = deletion.run.info
                deleted = [*(info.get("deleted") or []), *(f"{CHECKPOINTS}/{name}" for name in deletion.names)]
                killed = {"status": RunStatus.INTERRUPTED} if deletion.run.status == RunStatus.STOPPED else {}
                update_info(path, deleted=list(dict.fromkeys(deleted)), **killed)
                for file in deletion.checkpoints:
                    file.unlink(missing_ok=True)
                if (path / README).is_file():
                    write_run_readme(path)
            freed += size
        except (OSError, UserError) as error:
            messages.append(f"{path}: not deleted, or only in part: {getattr(error, 'strerror', None) or error}")
    return freed, messages
