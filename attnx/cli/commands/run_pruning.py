"""Deletes checkpoints or whole run folders: never of a run that is running, through a link, or half."""

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

from attnx.cli.commands.run_table import Column, show, weighed
from attnx.errors import UserError
from attnx.reports.run.readme import write_explanation
from attnx.runs.find import Found, weight
from attnx.runs.layout import CHECKPOINTS, EXPLANATION, LOCK, RUN, STUDY
from attnx.runs.status import STOPPED
from attnx.runs.sweep import at_work, is_sweep, read_sweep
from attnx.sweeps.readme import write_explanation as write_explanation_of_sweep
from attnx.sweeps.record import note_run, refresh, save

WHAT = ("checkpoints", "folders")
KEEP = ("best", "last", "none")
# A folder that is being deleted, or whose deletion was cut off.
DELETED = re.compile(r"\..+\.[0-9a-f]{8}\.deleted")
# In run.json: the files that were deleted on purpose.
NOTE = "deleted"


class Step(NamedTuple):
    """What is to be deleted of one run: some checkpoints, or with none its whole folder."""

    run: Found
    checkpoints: tuple[Path, ...]
    size: int

    @property
    def sweep(self) -> Path | None:
        """The folder of the sweep that the run is a job of."""
        above = self.run.path.resolve().parent
        return above if is_sweep(above) else None

    @property
    def told(self) -> str:
        """What goes."""
        return " ".join(file.name for file in self.checkpoints) or "the whole folder"


def plan(runs: Sequence[Found], what: str, keep: str) -> list[Step]:
    """What is to be deleted of runs; nothing of those that are running.

    Args:
        runs: those that were chosen.
        what: ``checkpoints`` or ``folders``.
        keep: of checkpoints, that which stays in each run; of folders, the run that stays in each sweep, by its
            validation or by when it was begun.
    """
    still = [run for run in runs if run.status != "running"]
    if what == "folders":
        kept = _kept(still, keep)
        return [Step(run, (), run.size) for run in still if run not in kept]
    steps = []
    for run in still:
        files = _checkpoints(run, keep)
        if files:
            steps.append(Step(run, files, sum(file.lstat().st_size for file in files)))
    return steps


def _checkpoints(run: Found, keep: str) -> tuple[Path, ...]:
    """Those that go; with ``best`` a run that has not ended keeps what it would go on from, too."""
    folder = run.path / CHECKPOINTS
    if folder.is_symlink() or not folder.is_dir():
        return ()
    files = sorted(file for file in folder.glob("*.ckpt") if file.is_symlink() or file.is_file())
    if keep == "none":
        return tuple(files)
    there = {file.name for file in files}
    stay = {f"{keep}.ckpt"} if f"{keep}.ckpt" in there else {"best.ckpt", "last.ckpt"}
    if keep == "best" and run.status != "finished":
        stay.add("last.ckpt")
    return tuple(file for file in files if file.name not in stay)


def _kept(runs: Sequence[Found], keep: str) -> list[Found]:
    """Of each folder of runs the best or the last; all of one in which there is none."""
    groups: dict[tuple[Path, str], list[Found]] = {}
    for run in runs:
        groups.setdefault((run.path.resolve().parent, run.monitor if keep == "best" else ""), []).append(run)
    found: list[Found] = []
    for group in groups.values():
        if keep == "last":
            found.append(max(group, key=lambda run: (run.begun.timestamp() if run.begun else 0.0, run.path.name)))
        elif keep == "best":
            known = [run for run in group if run.best is not None]
            sign = -1 if group[0].maximize else 1
            found += [min(known, key=lambda run: sign * (run.best or 0.0))] if known else group
    return found


def refuse_running(steps: Sequence[Step], roots: Sequence[Path]) -> None:
    """See that nobody works on what is to be deleted, and that it lies where it seems to.

    Raises:
        UserError: a sweep is running, or a folder is a link.
    """
    for root in roots:
        if root.is_symlink():
            raise UserError(f"{root}: is a link, and prune follows none; name the folder, {root.resolve()}")
    for sweep in dict.fromkeys(step.sweep for step in steps):
        if sweep and at_work(sweep):
            raise _at_work(sweep)


def _at_work(sweep: Path) -> UserError:
    return UserError(f"{sweep}: this sweep is running; end it, or leave it out with 'name!={sweep.name}/*'")


def tell(steps: Sequence[Step], chosen: Sequence[Found], what: str) -> None:
    """Say what would be deleted, what would not, and what follows."""
    if steps:
        paths, goes, sizes = zip(*((str(step.run.path), step.told, weighed(step.size)) for step in steps), strict=True)
        show([Column("run", [*paths], 0), Column("deletes", [*goes], 1), Column("size", [*sizes], 1, right=True)])
    for line in consequences(steps, chosen, what):
        print(line)


def consequences(steps: Sequence[Step], chosen: Sequence[Found], what: str) -> Iterator[str]:
    """A line for each thing worth knowing before."""
    running = sum(run.status == "running" for run in chosen)
    if running:
        yield f"left alone: {running} running"
    sweeps: dict[Path, int] = {}
    for step in steps:
        if step.sweep and (not step.checkpoints or _ends_it(step)):
            sweeps[step.sweep] = sweeps.get(step.sweep, 0) + 1
    for sweep, count in sweeps.items():
        if (sweep / STUDY).is_file():
            yield f"{sweep.name}: a search tries nothing twice, so {count} job(s) stay undone after this"
            continue
        again = f"attnx resume {shlex.quote(_seen_from_here(sweep))}"
        yield f"{sweep.name}: {count} job(s) are trained anew by `{again}`, or by the command of the sweep"
    if what == "folders":
        return
    if count := sum(_ends_it(step) for step in steps):
        yield f"{count} run(s) that did not end begin anew if resumed after this"
    if count := sum("best.ckpt" in _names(step) for step in steps):
        yield f"{count} run(s) have no best weights after this, to predict, evaluate or export with"


def _names(step: Step) -> set[str]:
    return {file.name for file in step.checkpoints}


def _ends_it(step: Step) -> bool:
    """Whether a run loses what it would go on from."""
    return step.run.status != "finished" and "last.ckpt" in _names(step)


def _seen_from_here(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def carry_out(steps: Sequence[Step], halves: Sequence[Path] = ()) -> tuple[int, list[str]]:
    """Delete; return how many bytes, and a line for each run that could not be or was written to meanwhile.

    Args:
        steps: what is to be deleted of runs.
        halves: folders whose deletion was cut off.

    Raises:
        UserError: a sweep was begun meanwhile; nothing was deleted.
    """
    freed, problems = 0, []
    sweeps = [sweep for sweep in dict.fromkeys(step.sweep for step in steps) if sweep]
    with ExitStack() as stack:
        for sweep in sweeps:
            stack.enter_context(_holding(sweep))
        for step in steps:
            try:
                if weight(step.run.path)[1] > step.run.written:
                    problems.append(f"{step.run.path}: was written to meanwhile; left alone")
                    continue
                _delete(step)
                freed += step.size
            except (OSError, UserError) as error:
                problems.append(f"{step.run.path}: not deleted, or not whole: {error}")
        for sweep in sweeps:
            _note_sweep(sweep)
    for half in halves:
        try:
            clear(half)
        except OSError as error:
            problems.append(f"{half}: not deleted whole: {error}")
    return freed, problems


@contextmanager
def _holding(sweep: Path) -> Iterator[None]:
    """Let no command run a sweep meanwhile."""
    try:
        file = os.open(sweep / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise UserError(f"{sweep}: cannot be written: {error.strerror}") from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _at_work(sweep) from None
        yield
    finally:
        os.close(file)


def _delete(step: Step) -> None:
    path = step.run.path.resolve()
    if not step.checkpoints:
        aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.deleted")
        path.rename(aside)
        clear(aside)
        return
    already = step.run.run.info.get(NOTE) or []
    names = [f"{CHECKPOINTS}/{file.name}" for file in step.checkpoints]
    # Before they are deleted: what is noted and still there can be opened. And a run that was killed, and so could not
    # say that it was, would look alive again.
    stopped = {"status": "interrupted"} if step.run.status == STOPPED else {}
    note_run(path, **{NOTE: list(dict.fromkeys([*already, *names]))}, **stopped)
    for file in step.checkpoints:
        file.unlink(missing_ok=True)
    if (path / EXPLANATION).is_file():
        write_explanation(path)


def clear(aside: Path) -> None:
    """Delete a folder that was put aside; what makes it a run goes first."""
    (aside / RUN).unlink(missing_ok=True)
    shutil.rmtree(aside)


def left_over(root: Path) -> Iterator[Path]:
    """Folders whose deletion was cut off."""
    if (root / RUN).is_file():
        return
    with os.scandir(root) as entries:
        inside = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    for name in inside:
        if DELETED.fullmatch(name):
            yield root / name
        elif not name.startswith("."):
            yield from left_over(root / name)


def _note_sweep(sweep: Path) -> None:
    """Let a sweep's record say which of its jobs are to be done again."""
    record = read_sweep(sweep)
    before = [job.status for job in record.jobs]
    for job in record.jobs:
        if not (record.folder(job) / RUN).is_file():
            refresh(record, job)
    if before != [job.status for job in record.jobs]:
        record.status = "interrupted"
        save(record)
        write_explanation_of_sweep(record)
