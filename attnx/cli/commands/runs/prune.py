"""Deletes checkpoints or whole run folders: never of a running run, and never through a link."""

from __future__ import annotations

import os
import secrets
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from rich.filesize import decimal

from attnx.cli.commands.runs.table import Column, print_columns
from attnx.errors import UserError
from attnx.files.printable import print_line
from attnx.reports.run.readme import write_run_readme
from attnx.runs.info import RunStatus, update_info
from attnx.runs.layout import BEST, CHECKPOINTS, LAST, README, STUDY, refuse_links, resume_command
from attnx.runs.run import Run, lock_run
from attnx.runs.sweep import is_locked, read_sweep
from attnx.sweeps.record import lock_folder, save_sweep, sync_from_folder
from attnx.sweeps.summary import write_sweep_readme

WHAT = ("checkpoints", "folders")
KEEP = ("best", "last", "none")


class Deletion(NamedTuple):
    """What to delete of a run: some checkpoints; without any, its whole folder."""

    run: Run
    checkpoints: tuple[Path, ...]
    size: int

    @property
    def names(self) -> list[str]:
        """The names of the checkpoints."""
        return [file.name for file in self.checkpoints]

    @property
    def ends_resuming(self) -> bool:
        """Whether an unfinished run loses the checkpoint that it would resume from."""
        return self.run.status != RunStatus.FINISHED and LAST in self.names


def plan_deletions(runs: Sequence[Run], what: str, keep: str) -> list[Deletion]:
    """The deletions of ``checkpoints`` or ``folders`` of some runs; those that are running are left alone.

    ``keep`` is the checkpoint to keep in each run; of folders, the run to keep in each sweep, ``best`` in validation or
    ``last`` created.
    """
    idle = [run for run in runs if run.status != RunStatus.RUNNING]
    if what == "folders":
        kept_runs = _runs_to_keep(idle, keep)
        return [Deletion(run, (), run.disk_usage.size) for run in idle if run not in kept_runs]
    files = {run: _checkpoints_to_delete(run, keep) for run in idle}
    return [Deletion(run, paths, freed_bytes(paths)) for run, paths in files.items() if paths]


def freed_bytes(paths: Iterable[Path]) -> int:
    """The bytes that are freed if some files are deleted; none of a file that keeps a hard link."""
    stats = [path.lstat() for path in paths]
    links = Counter((stat.st_dev, stat.st_ino) for stat in stats)
    files = {(stat.st_dev, stat.st_ino): stat for stat in stats}
    return sum(stat.st_size for file, stat in files.items() if links[file] == stat.st_nlink)


def _checkpoints_to_delete(run: Run, keep: str) -> tuple[Path, ...]:
    """A run that has not finished keeps its best checkpoint and the one it resumes from, unless ``keep`` is none."""
    folder = run.path / CHECKPOINTS
    if folder.is_symlink() or not folder.is_dir():
        return ()
    files = sorted(file for file in folder.glob("*.ckpt") if file.is_symlink() or file.is_file())
    if keep == "none":
        return tuple(files)
    kept_file = f"{keep}.ckpt"
    stay = {kept_file} if any(file.name == kept_file for file in files) else {BEST, LAST}
    if run.status != RunStatus.FINISHED:
        stay |= {BEST, LAST}
    return tuple(file for file in files if file.name not in stay)


def _runs_to_keep(runs: Sequence[Run], keep: str) -> list[Run]:
    """The best or the last run of each parent folder; all runs of a folder where none was validated."""
    groups: dict[tuple[Path, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.path.resolve().parent, run.monitor if keep == "best" else ""), []).append(run)
    if keep == "last":
        return [max(group, key=lambda run: (str(run.created or ""), run.path.name)) for group in groups.values()]
    kept_runs: list[Run] = []
    for group in groups.values() if keep == "best" else ():
        values = {run: run.progress.best for run in group if run.progress.best is not None}
        choose = max if group[0].maximize else min
        kept_runs += [choose(values, key=values.__getitem__)] if values else group
    return kept_runs


def refuse_running(deletions: Sequence[Deletion], roots: Sequence[Path]) -> None:
    """Refuse roots that are links, and runs of a sweep that is running."""
    for root in roots:
        if root.is_symlink():
            raise UserError(f"{root}: is a link, and prune follows none; name the folder, {root.resolve()}")
    for sweep in _sweeps(deletions):
        if is_locked(sweep):
            raise UserError(f"{sweep}: this sweep is running; end it, or leave it out with 'name!={sweep.name}/*'")


def _sweeps(deletions: Sequence[Deletion]) -> list[Path]:
    sweeps = (deletion.run.sweep for deletion in deletions)
    return list(dict.fromkeys(sweep for sweep in sweeps if sweep))


def show_plan(deletions: Sequence[Deletion], runs: Sequence[Run]) -> None:
    """Print what would be deleted, and what follows from it."""
    if deletions:
        paths = [str(deletion.run.path) for deletion in deletions]
        files = [" ".join(deletion.names) or "the whole folder" for deletion in deletions]
        sizes = [decimal(deletion.size) for deletion in deletions]
        print_columns([Column("run", paths, 0), Column("deletes", files, 1), Column("size", sizes, 1, right=True)])
    for line in consequences(deletions, runs):
        print_line(line)


def consequences(deletions: Sequence[Deletion], runs: Sequence[Run]) -> Iterator[str]:
    """A line for each consequence that the user should know."""
    if running := sum(run.status == RunStatus.RUNNING for run in runs):
        yield f"left alone: {running} running"
    undone = [deletion for deletion in deletions if not deletion.checkpoints or deletion.ends_resuming]
    for sweep in _sweeps(undone):
        count = sum(deletion.run.sweep == sweep for deletion in undone)
        if (sweep / STUDY).is_file():
            yield f"{sweep.name}: a search tries nothing twice, so {count} job(s) stay undone after this"
        else:
            again = resume_command(Path(os.path.relpath(sweep)))
            yield f"{sweep.name}: {count} job(s) are trained anew by `{again}`, or by the command of the sweep"
    if count := sum(deletion.ends_resuming for deletion in deletions):
        yield f"{count} unfinished run(s) will restart from the beginning when resumed"
    if count := sum(BEST in deletion.names for deletion in deletions):
        yield f"{count} run(s) have no best weights after this, to predict, evaluate or export with"


def delete(deletions: Sequence[Deletion]) -> tuple[int, list[str]]:
    """Delete; return the bytes freed, and a message for each run that could not be deleted."""
    folders = _sweeps(deletions)
    with ExitStack() as locks:
        for folder in folders:
            locks.enter_context(lock_folder(folder))  # nobody resumes it meanwhile
        sweeps = list(map(read_sweep, folders))  # before anything is deleted: one may be damaged
        for sweep in sweeps:
            refuse_links(sweep.path)
        freed, messages = _delete_runs(deletions)
        for sweep in sweeps:
            for job in sweep.jobs:
                sync_from_folder(sweep, job)
            if any(job.status == RunStatus.WAITING for job in sweep.jobs):
                sweep.status = RunStatus.INTERRUPTED
            save_sweep(sweep)
            write_sweep_readme(sweep)
    return freed, messages


def _delete_runs(deletions: Sequence[Deletion]) -> tuple[int, list[str]]:
    freed, messages = 0, []
    for deletion in deletions:
        path, hidden = deletion.run.path, None
        path = path if path.name else path.absolute()  # "." has no name to change
        try:
            with lock_run(path):  # nobody resumes it meanwhile
                if deletion.checkpoints:
                    refuse_links(path)
                    _delete_checkpoints(deletion)
                else:
                    # Hidden first: if deleting is cut off, no half run is left.
                    hidden = path.rename(path.with_name(f".{path.name}.{secrets.token_hex(4)}.deleted"))
                    shutil.rmtree(hidden)
            freed += deletion.size
        except (OSError, UserError) as error:
            remainder = f"; what is left of it is in {hidden}" if hidden else ""
            reason = getattr(error, "strerror", None) or error
            messages.append(f"{path}: not deleted, or only in part: {reason}{remainder}")
    return freed, messages


def _delete_checkpoints(deletion: Deletion) -> None:
    """Delete checkpoints; first run.json records them.

    The status of a killed run becomes ``interrupted``, since writing run.json would otherwise make it look running.
    """
    run, path = deletion.run, deletion.run.path
    deleted = [*(run.info.get("deleted") or []), *(f"{CHECKPOINTS}/{name}" for name in deletion.names)]
    status = {"status": RunStatus.INTERRUPTED} if run.status == RunStatus.STOPPED else {}
    update_info(path, deleted=list(dict.fromkeys(deleted)), **status)
    for file in deletion.checkpoints:
        file.unlink(missing_ok=True)
    if (path / README).is_file():
        write_run_readme(path)
