"""What only Hydra itself can do: sweeps, printing configurations, completing choices."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from attnx.config.compose import compose
from attnx.config.groups import conf_folder
from attnx.config.hydra_errors import in_our_words, refuse_folders
from attnx.config.hydra_store import store_options
from attnx.errors import RunFailed, UserError
from attnx.registry.plugin_code import refuse_by_hand
from attnx.runs.layout import RUN, SWEEP
from attnx.runs.naming import SWEEPS
from attnx.runs.run import refuse_links
from attnx.runs.sweep import Sweep, is_sweep, read_sweep
from attnx.sweeps import session
from attnx.sweeps.expand_overrides import GRIDS, SweepRequest, refuse_without, what_is_asked
from attnx.sweeps.external_launchers import elsewhere
from attnx.sweeps.folder_lock import held, put_aside, refuse_occupied
from attnx.sweeps.preflight import FORKING, check_files, check_jobs, is_local
from attnx.sweeps.processes import Processes
from attnx.sweeps.record import (
    begin,
    open_record,
    refresh,
    refuse_another,
    refuse_other_code,
    refuse_unlike,
    save,
    take,
)
from attnx.sweeps.recorded import refuse_foreign
from attnx.sweeps.session import DONE, Configs, SweepSession, environment, key
from attnx.sweeps.summary import FINISHED, conclude, failure, is_done, report, write_comparison
from attnx.sweeps.training_length import planned, refuse_crowded

# Has Hydra raise what went wrong, instead of printing its traceback and leaving.
UNTOUCHED = "HYDRA_FULL_ERROR"


def show(flags: Sequence[str], overrides: Sequence[str], config_dir: str | None = None) -> int:
    """``--cfg``, ``--info``, ``--shell-completion`` and the like."""
    return _hydra([*flags, *overrides], lambda config: None, config_dir)


def sweep(
    flags: Sequence[str],
    overrides: Sequence[str],
    config_dir: str | None = None,
    side_by_side: int = 1,
    folder: Path | None = None,
) -> int:
    """Run a multirun, or what is missing of it.

    Args:
        flags: Hydra's.
        overrides: what is asked; ``fresh=true`` puts a folder aside that holds this sweep already.
        config_dir: a folder of the user's own configuration files.
        side_by_side: how many jobs run at a time.
        folder: the sweep's; left out, it follows from the overrides.

    Raises:
        UserError: a mistake in any job, before anything is written; or the folder holds something else.
        KeyboardInterrupt: Ctrl-C; the message says how to go on.
    """
    fresh, overrides = _without_fresh(overrides)
    if named := [override for override in overrides if override.lstrip("+").startswith("folder=")]:
        raise UserError(f"{named[-1]}: each job of a sweep has a folder of its own; name the sweep by name=...")
    refuse_folders(overrides)
    asked = what_is_asked(overrides, config_dir)
    configs = {key(job): compose(job, config_dir) for job in asked.jobs}
    for config in configs.values():
        refuse_by_hand(config, "the processes of a sweep")
    folder = folder or _sweep_folder(overrides, configs)
    refuse_without(asked)
    refuse_crowded(configs.values(), side_by_side, asked.cluster)
    pending = asked.jobs if fresh else _refuse_changed(folder, overrides, asked, configs)
    with _checked(pending, asked, configs, side_by_side) as forked:
        if fresh and (aside := put_aside(folder)):
            print(f"{folder} is now {aside}", flush=True)
        with held(folder) as lock:
            record = open_record(folder, _command(overrides, side_by_side, config_dir), overrides, config_dir)
            for job in () if asked.search else asked.jobs:
                take(record, job)
            if is_done(record) and not asked.search:
                return report(record)
            if not is_done(record):  # a search that asks for more begins when its next job does
                begin(record)
            save(record)
            for line in planned(record, configs.values()):
                print(line, flush=True)
            told = _to_hydra(asked, side_by_side, overrides)
            words = [*flags, f"hydra.sweep.dir={_quoted(folder)}", *told, *overrides]
            return _run(SweepSession(record, configs, side_by_side, lock, forked), words, config_dir)


@contextlib.contextmanager
def _checked(
    jobs: Sequence[Sequence[str]], asked: SweepRequest, configs: Configs, side_by_side: int
) -> Iterator[Processes | None]:
    """Check jobs that will run on this machine; lend the process that did so if they are forked from it, too.

    Raises:
        UserError: some of them would refuse what they are asked.
    """
    if not jobs or not is_local(asked.launcher, asked.cluster):
        yield None
        return
    if not asked.environment:  # else only jobs know what a variable in a path stands for
        check_files(jobs, configs)
    variables = environment(side_by_side)
    with contextlib.closing(session.processes(True, variables, -1)) as forked:
        check_jobs(jobs, configs, {**variables, **asked.environment}, forked)
        if asked.launcher == FORKING:
            yield forked
            return
    yield None


def _run(running: SweepSession, words: Sequence[str], config_dir: str | None) -> int:
    """Hand a sweep to Hydra, and say at the end what became of it."""
    record = running.sweep
    try:
        with running:
            code = _hydra(words, elsewhere, config_dir)
    except (KeyboardInterrupt, Exception) as error:
        conclude(record, "interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        if is_sweep(record.path):
            write_comparison(record)
        if isinstance(error, KeyboardInterrupt | UserError):
            raise
        raise RunFailed(failure(record, error)) from error
    conclude(record, "failed")
    return report(record) or code


def go_on(folder: Path, side_by_side: int = 1, config_dir: str | None = None) -> int:
    """Finish what is missing of a sweep, by what its folder says that it was asked.

    Args:
        folder: the sweep's; nothing that it holds is run.
        side_by_side: how many jobs run at a time.
        config_dir: a folder of the user's own configuration files, which is not taken from the sweep's.

    Raises:
        UserError: the folder asks for more than parts, knobs and launchers by name; or as :func:`sweep`.
    """
    there = read_sweep(folder)
    refuse_foreign(there)
    if there.config_dir and not config_dir:
        raise UserError(
            f"{folder / SWEEP}: holds the --config-dir {there.config_dir!r}, which is not taken from a file since it "
            "could run code; if it is yours, add --config-dir yourself"
        )
    for job in there.jobs:
        refresh(there, job)
    if is_done(there):
        print(FINISHED.format(folder), flush=True)
        return 0
    return sweep(["--multirun"], there.overrides, config_dir, side_by_side, folder)


def _without_fresh(overrides: Sequence[str]) -> tuple[bool, list[str]]:
    asked = [override.lstrip("+") for override in overrides if override.lstrip("+").startswith("fresh=")]
    for one in asked:
        if one not in ("fresh=true", "fresh=false"):
            raise UserError(f"{one}: expected true or false")
    kept = [override for override in overrides if override.lstrip("+") not in asked]
    return asked[-1:] == ["fresh=true"], kept


def _refuse_changed(
    folder: Path, overrides: Sequence[str], asked: SweepRequest, configs: Configs
) -> Sequence[Sequence[str]]:
    """Refuse to take a folder of other jobs for these, and say what differs, before anything is written.

    Returns:
        the jobs that are not done.
    """
    there = read_sweep(folder) if is_sweep(folder) else Sweep(folder, "", [])
    refuse_links(folder)
    refuse_another(there, overrides, None if asked.search else asked.jobs)
    pending = []
    for job in asked.jobs:
        taken = take(there, job)
        if not asked.search:
            refuse_unlike(there.folder(taken), configs[key(job)])
        refresh(there, taken)
        pending += [] if taken.status in DONE else [job]
    for folder in map(there.folder, there.jobs if asked.search else []):
        if (folder / RUN).is_file():
            refuse_other_code(folder)
    return pending


def _to_hydra(asked: SweepRequest, side_by_side: int, overrides: Sequence[str]) -> list[str]:
    """What Hydra is told besides: which sweeper, unless that is said, and how many jobs run at a time under joblib."""
    named = any(override.startswith("hydra/sweeper=") for override in overrides)
    return [
        *(["hydra/sweeper=grid"] if asked.sweeper == GRIDS[1] and not named else []),
        *([f"hydra.launcher.n_jobs={side_by_side}"] if "joblib" in asked.launcher and side_by_side > 1 else []),
    ]


def _jobs(overrides: Sequence[str], config_dir: str | None) -> list[list[str]]:
    """The jobs of a sweep; of a search, one that it could choose."""
    return what_is_asked(_without_fresh(overrides)[1], config_dir).jobs


def _command(overrides: Sequence[str], side_by_side: int, config_dir: str | None) -> str:
    flags = ["-m", *(["-j", str(side_by_side)] if side_by_side > 1 else [])]
    flags += ["--config-dir", config_dir] if config_dir else []
    return shlex.join(["attnx", *flags, *overrides])


def _quoted(folder: Path) -> str:
    """A path as Hydra reads it, whatever it holds."""
    escaped = str(folder).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _sweep_folder(overrides: Sequence[str], configs: Configs) -> Path:
    """``name=`` under ``multirun/``, or a hash of the sorted overrides: the same command names the same folder.

    Raises:
        UserError: the jobs have several names, or that folder is not a sweep's.
    """
    names = {config["name"] for config in configs.values()}
    if len(names) > 1:
        told = ", ".join(sorted(map(str, names)))
        raise UserError(f"name={told}: a sweep has one name, and its jobs are numbered; write name=NAME")
    words = [override.lstrip("+") for override in overrides]
    name = names.pop() or hashlib.sha256("\n".join(sorted(words)).encode()).hexdigest()[:10]
    refuse_occupied(SWEEPS / name)
    return SWEEPS / name


def _hydra(argv: Sequence[str], task: Callable[[Any], Any], config_dir: str | None) -> int:
    """Hand an ordered command line to Hydra.

    Raises:
        UserError: what Hydra refuses, in one line; whatever else goes wrong is raised as it is.
    """
    import hydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from attnx.sweeps.hydra_plugins import offer

    store_options(config_dir)
    offer()
    kept, whole = sys.argv, os.environ.get(UNTOUCHED)
    sys.argv, os.environ[UNTOUCHED] = ["attnx", *argv], "1"
    try:
        hydra.main(config_path=str(conf_folder().resolve()), config_name="config", version_base="1.3")(task)()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(in_our_words(error, argv)) from error
    finally:
        sys.argv = kept
        del os.environ[UNTOUCHED]
        if whole is not None:
            os.environ[UNTOUCHED] = whole
    return 0
