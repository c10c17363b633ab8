"""Deletes checkpoints or whole run folders: never of a running run, never through a link, and never by halves."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from attnx.cli.commands.run_table import Column, show, size_text
from attnx.errors import UserError
from attnx.reports.run.readme import write_run_readme
from attnx.runs.folder_use import folder_use
from attnx.runs.info import update_info
from attnx.runs.layout import BEST, CHECKPOINTS, EXPLANATION, LAST, LOCK, RUN, STUDY
from attnx.runs.run import Run
from attnx.runs.status import RunStatus
from attnx.runs.sweep import is_locked, read_sweep
from attnx.sweeps.record import save_sweep, sync_from_folder
from attnx.sweeps.summary import write_sweep_readme

WHAT = ("checkpoints", "folders")
KEEP = ("best", "last", "none")
# The name of a folder whose deletion has begun.
DELETED = re.compile(r"\..+\.[0-9a-f]{8}\.deleted")


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
    """The deletions for some runs, of which running ones are left alone.

    Args:
        runs: the selected runs.
        what: ``checkpoints`` or ``folders``.
        keep: the checkpoint to keep in each run; of folders, the run to keep in each sweep, ``best`` in validation or
            ``last`` created.
    """
    idle = [run for run in runs if run.status != RunStatus.RUNNING]
    if what == "folders":
        kept_runs = _runs_to_keep(idle, keep)
        return [Deletion(run, (), run.use.size) for run in idle if run not in kept_runs]
    files = {run: _checkpoints_to_delete(run, keep) for run in idle}
    return [Deletion(run, paths, sum(path.lstat().st_size for path in paths)) for run, paths in files.items() if paths]


def _checkpoints_to_delete(run: Run, keep: str) -> tuple[Path, ...]:
    """With ``best`` a run that has not finished keeps the checkpoint it resumes from, too."""
    folder = run.path / CHECKPOINTS
    if folder.is_symlink() or not folder.is_dir():
        return ()
    files = sorted(file for file in folder.glob("*.ckpt") if file.is_symlink() or file.is_file())
    if keep == "none":
        return tuple(files)
    kept_file = f"{keep}.ckpt"
    stay = {kept_file} if any(file.name == kept_file for file in files) else {BEST, LAST}
    if keep == "best" and run.status != RunStatus.FINISHED:
        stay.add(LAST)
    return tuple(file for file in files if file.name not in stay)


def _runs_to_keep(runs: Sequence[Run], keep: str) -> list[Run]:
    """The best or the last run of each parent folder; all runs of a folder where none was validated."""
    groups: dict[tuple[Path, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.path.resolve().parent, run.monitor if keep == "best" else ""), []).append(run)
    kept_runs: list[Run] = []
    for group in groups.values():
        if keep == "last":
            kept_runs.append(max(group, key=lambda run: (run.created.timestamp() if run.created else 0, run.path.name)))
        elif keep == "best":
            values = {run: run.progress.best for run in group if run.progress.best is not None}
            choose = max if group[0].maximize else min
            kept_runs += [choose(values, key=values.__getitem__)] if values else group
    return kept_runs


def refuse_running(deletions: Sequence[Deletion], roots: Sequence[Path]) -> None:
    """Check that no sweep concerned is running, and that the roots are not links.

    Raises:
        UserError: one is.
    """
    for root in roots:
        if root.is_symlink():
            raise UserError(f"{root}: is a link, and prune follows none; name the folder, {root.resolve()}")
    for sweep in _sweeps(deletions):
        if is_locked(sweep):
            raise _running(sweep)


def _sweeps(deletions: Sequence[Deletion]) -> list[Path]:
    sweeps = (deletion.run.sweep for deletion in deletions)
    return list(dict.fromkeys(sweep for sweep in sweeps if sweep))


def _running(sweep: Path) -> UserError:
    return UserError(f"{sweep}: this sweep is running; end it, or leave it out with 'name!={sweep.name}/*'")


def show_plan(deletions: Sequence[Deletion], runs: Sequence[Run], what: str) -> None:
    """Print what would be deleted, and what follows from it."""
    if deletions:
        paths = [str(deletion.run.path) for deletion in deletions]
        files = [" ".join(deletion.names) or "the whole folder" for deletion in deletions]
        sizes = [size_text(deletion.size) for deletion in deletions]
        show([Column("run", paths, 0), Column("deletes", files, 1), Column("size", sizes, 1, right=True)])
    for line in consequences(deletions, runs, what):
        print(line)


def consequences(deletions: Sequence[Deletion], runs: Sequence[Run], what: str) -> Iterator[str]:
    """A line for each consequence that the user should know."""
    if running := sum(run.status == RunStatus.RUNNING for run in runs):
        yield f"left alone: {running} running"
    undone = [deletion for deletion in deletions if not deletion.checkpoints or deletion.ends_resuming]
    for sweep in _sweeps(undone):
        count = sum(deletion.run.sweep == sweep for deletion in undone)
        if (sweep / STUDY).is_file():
            yield f"{sweep.name}: a search tries nothing twice, so {count} job(s) stay undone after this"
        else:
            path = sweep.relative_to(Path.cwd()) if sweep.is_relative_to(Path.cwd()) else sweep
            again = f"attnx resume {shlex.quote(str(path))}"
            yield f"{sweep.name}: {count} job(s) are trained anew by `{again}`, or by the command of the sweep"
    if what == "folders":
        return
    if count := sum(deletion.ends_resuming for deletion in deletions):
        yield f"{count} run(s) that did not end begin anew if resumed after this"
    if count := sum(BEST in deletion.names for deletion in deletions):
        yield f"{count} run(s) have no best weights after this, to predict, evaluate or export with"


def delete(deletions: Sequence[Deletion], cut_off: Sequence[Path] = ()) -> tuple[int, list[str]]:
    """Delete; return the bytes freed, and a message for each run that was not deleted.

    Args:
        deletions: as planned.
        cut_off: folders whose deletion was cut off before.

    Raises:
        UserError: a sweep was started meanwhile; nothing was deleted.
    """
    freed, messages = 0, []
    sweeps = _sweeps(deletions)
    with ExitStack() as stack:
        for sweep in sweeps:
            stack.enter_context(_lock(sweep))
        for deletion in deletions:
            path = deletion.run.path
            try:
                if folder_use(path).modified > deletion.run.use.modified:
                    messages.append(f"{path}: was written to meanwhile; left alone")
                    continue
                _delete(deletion)
                freed += deletion.size
            except (OSError, UserError) as error:
                messages.append(f"{path}: not deleted, or only in part: {error}")
        for sweep in sweeps:
            _update_record(sweep)
    for folder in cut_off:
        try:
            _remove_folder(folder)
        except OSError as error:
            messages.append(f"{folder}: deleted only in part: {error}")
    return freed, messages


@contextmanager
def _lock(sweep: Path) -> Iterator[None]:
    """Keep commands from running a sweep meanwhile."""
    try:
        file = os.open(sweep / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise UserError(f"{sweep}: cannot be written: {error.strerror}") from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _running(sweep) from None
        yield
    finally:
        os.close(file)


def _delete(deletion: Deletion) -> None:
    run, path = deletion.run, deletion.run.path.resolve()
    if not deletion.checkpoints:
        renamed = path.with_name(f".{path.name}.{secrets.token_hex(4)}.deleted")
        path.rename(renamed)
        _remove_folder(renamed)
        return
    deleted = [*(run.info.get("deleted") or []), *(f"{CHECKPOINTS}/{name}" for name in deletion.names)]
    # Written before the files go, so that run.json never lacks one. A killed run, whose folder would look active
    # because of this write, is marked as interrupted.
    status = {"status": RunStatus.INTERRUPTED} if run.status == RunStatus.STOPPED else {}
    update_info(path, deleted=list(dict.fromkeys(deleted)), **status)
    for file in deletion.checkpoints:
        file.unlink(missing_ok=True)
    if (path / EXPLANATION).is_file():
        write_run_readme(path)


def _remove_folder(folder: Path) -> None:
    """Delete a renamed folder; run.json goes first, so that a half-deleted folder is not a run."""
    (folder / RUN).unlink(missing_ok=True)
    shutil.rmtree(folder)


def find_cut_off(root: Path) -> Iterator[Path]:
    """Folders whose deletion was cut off."""
    if (root / RUN).is_file():
        return
    with os.scandir(root) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    for name in names:
        if DELETED.fullmatch(name):
            yield root / name
        elif not name.startswith("."):
            yield from find_cut_off(root / name)


def _update_record(sweep: Path) -> None:
    """Mark the jobs of a sweep that have to be done again."""
    record = read_sweep(sweep)
    statuses = [job.status for job in record.jobs]
    for job in record.jobs:
        if not (record.folder(job) / RUN).is_file():
            sync_from_folder(record, job)
    if statuses != [job.status for job in record.jobs]:
        record.status = RunStatus.INTERRUPTED
        save_sweep(record)
        write_sweep_readme(record)
