"""``attnx -m``: checks a sweep's command line, and runs the jobs that are not done."""

from __future__ import annotations

import contextlib
import hashlib
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from attnx.config.compose import compose_jobs
from attnx.config.hydra_errors import reject_folder_overrides
from attnx.errors import RunFailed, UserError
from attnx.files.printable import print_line, show_waiting
from attnx.registry.dependencies import require_package
from attnx.registry.plugin_code import reject_parts_of_this_process
from attnx.runs.info import DONE_STATUSES
from attnx.runs.layout import RUN_JSON, SWEEP_JSON, SWEEPS, config_dir_words, refuse_links
from attnx.runs.sweep import Sweep, SweepJob, is_sweep, overrides_key, read_sweep
from attnx.sweeps import session
from attnx.sweeps.equal_budgets import (
    EqualJob,
    check_equal_cost,
    check_equal_time,
    describe_length,
    describe_match,
    equalize,
)
from attnx.sweeps.gpus import count_parallel_jobs, visible_gpus
from attnx.sweeps.overrides import SweepRequest, expand_sweep, reject_unsafe_overrides, without_hydra_overrides
from attnx.sweeps.preflight import check_files, check_jobs, reject_equal
from attnx.sweeps.processes import ForkServerProcesses
from attnx.sweeps.record import (
    get_or_add_job,
    lock_folder,
    note_start,
    open_record,
    refuse_occupied,
    reject_other_code,
    reject_other_config,
    reject_other_sweep,
    rename_existing,
    save_sweep,
    sync_from_folder,
)
from attnx.sweeps.search import OptunaSearch, build_optuna_part
from attnx.sweeps.session import Configs, SweepSession, job_environment
from attnx.sweeps.slurm_jobs import require_slurm, run_on_slurm
from attnx.sweeps.summary import failure_message, note_sweep_end, report_detached, report_sweep, write_sweep_report
from attnx.training.distributed.launched_rank import reject_launched_sweep
from attnx.training.distributed.slurm import is_requeued, slurm_job


class SweepArgs(NamedTuple):
    """A sweep's command line: overrides, the user's configuration folder, and its ``-j``.

    ``jobs`` are the overrides of each job, where they form no grid; then ``overrides`` are Hydra's alone, and
    ``command_line`` is what the user has typed.
    """

    overrides: Sequence[str]
    config_dir: str | None = None
    max_parallel: int | str = 1
    jobs: Sequence[Sequence[str]] = ()
    command_line: str = ""

    def command(self) -> str:
        """The command, to be run again."""
        if self.command_line:
            return self.command_line
        options = ["-m", *(["-j", str(self.max_parallel)] if self.max_parallel != 1 else [])]
        return shlex.join(["attnx", *options, *config_dir_words(self.config_dir), *self.overrides])


def sweep(args: SweepArgs, folder: Path | None = None, shared: ForkServerProcesses | None = None) -> int:
    """Run a sweep, or the jobs of it that are not done; ``fresh=true`` renames a folder that holds this sweep already.

    Without a folder it follows from the overrides. A ``shared`` fork server is that of several sweeps, whose jobs it
    has checked.

    Raises:
        UserError: a mistake in any job, before anything is written; or the folder holds something else.
        KeyboardInterrupt: Ctrl-C; the message says how to resume.
    """
    reject_launched_sweep()
    is_fresh, overrides = split_fresh(args.overrides)
    args = args._replace(overrides=overrides)
    if folders := [override for override in overrides if override.lstrip("+").startswith("folder=")]:
        raise UserError(f"{folders[-1]}: each job of a sweep has its own folder; name the sweep by name=...")
    reject_folder_overrides(overrides)
    request = expand_sweep(overrides, args.config_dir)
    if args.jobs:
        request = request._replace(jobs=[*map(list, args.jobs)])
    configs = _compose(request.jobs, args.config_dir)
    if not args.jobs:  # a suite compares its mechanisms itself
        reject_equal(request.jobs, configs)
    for config in configs.values():
        reject_parts_of_this_process(config, "the processes of a sweep")
    folder = folder or _sweep_folder(overrides, configs)
    if request.is_on_slurm and args.max_parallel != 1 and not request.is_search:
        advice = "SLURM gets all jobs at once; set hydra.launcher.array_parallelism"
        raise UserError(f"-j {args.max_parallel}: {advice}")
    _check_packages(request)
    equal_jobs = _equalize(request, configs)
    if equal_jobs:
        request = request._replace(jobs=[job.overrides for job in equal_jobs])
        configs = _compose(request.jobs, args.config_dir)
    gpus = [] if request.is_on_slurm else visible_gpus()
    max_parallel = count_parallel_jobs(args.max_parallel, configs.values(), gpus)
    check_equal_time(configs.values(), max_parallel)
    is_fresh = is_fresh and not _continues_after_requeue(folder)
    pending = request.jobs if is_fresh else _check_folder(folder, overrides, request, configs)
    checked = _checked_processes(pending, request, configs, max_parallel)
    with contextlib.nullcontext(shared) if shared else checked as fork_server:
        if is_fresh and (renamed := rename_existing(folder)):
            print_line(f"{folder} is now {renamed}", flush=True)
        with lock_folder(folder):
            record = open_record(folder, args.command(), overrides, args.config_dir, max_parallel)
            variables, is_shared = request.environment, shared is not None
            running = SweepSession(record, configs, max_parallel, fork_server, gpus, variables, is_shared)
            return _run_sweep(running, request, equal_jobs)


def _compose(jobs: Sequence[Sequence[str]], config_dir: str | None) -> Configs:
    with show_waiting(Console(), f"composing {len(jobs):,} jobs ..."):
        return dict(zip(map(overrides_key, jobs), compose_jobs(jobs, config_dir), strict=True))


def _run_sweep(running: SweepSession, request: SweepRequest, equal_jobs: Sequence[EqualJob]) -> int:
    """Run the jobs of a sweep that are not done, and report; return the exit code."""
    record = running.sweep
    jobs = [] if request.is_search else [get_or_add_job(record, job) for job in request.jobs]
    for equal_job in equal_jobs:
        get_or_add_job(record, equal_job.overrides).match = equal_job.note or None
    if record.is_done and not request.is_search:
        return report_sweep(record)
    if record.is_done:  # a search that is extended is marked when its next job starts
        save_sweep(record)
    else:
        note_start(record)
    lines = describe_match(equal_jobs, [*running.configs.values()]) if equal_jobs else []
    for line in [*lines, *describe_length(record, running.configs.values())]:
        print_line(line, flush=True)
    try:
        with running:
            _run_jobs(running, request, jobs)
    except (KeyboardInterrupt, Exception) as error:
        note_sweep_end(record, "interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        if is_sweep(record.path):
            write_sweep_report(record)
        if isinstance(error, KeyboardInterrupt | UserError):
            raise
        raise RunFailed(failure_message(record, error)) from error
    if request.is_detached:
        return report_detached(record)
    note_sweep_end(record, "failed")
    return report_sweep(record)


def _run_jobs(running: SweepSession, request: SweepRequest, jobs: Sequence[SweepJob]) -> None:
    """Run the jobs of a grid, or those that a search chooses, on this machine or on SLURM."""
    launch = partial(run_on_slurm, running, options=request.launcher) if request.is_on_slurm else running.run
    if not request.is_search:
        launch(running.pending(jobs))
        return
    search = OptunaSearch(running, request.search, request.space)
    if request.is_on_slurm:
        search.run_in_batches(launch)
    else:
        search.run()


def _check_packages(request: SweepRequest) -> None:
    """Check that the packages which a sweep needs are installed, and have what is asked of them."""
    if request.is_on_slurm:
        require_slurm()
    if request.is_search:
        require_package("optuna", "optuna", "a search")
        for kind in ("sampler", "pruner"):
            if part := request.search.get(kind):
                build_optuna_part(kind, part)


def _equalize(request: SweepRequest, configs: Configs) -> list[EqualJob]:
    """The jobs with what makes their costs equal; none if nothing does."""
    jobs = [configs[overrides_key(job)] for job in request.jobs]
    if not any(config["match"] or config["budget"] == "flops" for config in jobs):
        return []
    check_equal_cost(request, jobs)
    if not request.environment:  # else only jobs know the variables in paths
        check_files(request.jobs, configs)
    return equalize(request.jobs, jobs)


@contextlib.contextmanager
def _checked_processes(
    jobs: Sequence[Sequence[str]], request: SweepRequest, configs: Configs, max_parallel: int
) -> Iterator[ForkServerProcesses | None]:
    """Check jobs that run on this machine, and give the fork server that did so; None for SLURM, or without jobs.

    What jobs find on another machine is not known here.
    """
    if not jobs or request.is_on_slurm:
        yield None
        return
    if not request.environment:  # else only jobs know the variables in paths
        check_files(jobs, configs)
    environment = {**job_environment(max_parallel), **request.environment}
    with contextlib.closing(session.start_fork_server(environment)) as fork_server:
        check_jobs(jobs, configs, environment, fork_server)
        yield fork_server


def resume_sweep(folder: Path, max_parallel: int | str | None = None, config_dir: str | None = None) -> int:
    """Run the jobs of a sweep that are not done, by the overrides in its folder; no code in it is run.

    As many run at a time as before, if ``max_parallel`` does not say how many.

    Raises:
        UserError: the folder has unsafe overrides; or as :func:`sweep`.
    """
    stored = read_sweep(folder)
    reject_unsafe_overrides(stored)
    if stored.config_dir and not config_dir:
        raise UserError(
            f"{folder / SWEEP_JSON}: holds the --config-dir {stored.config_dir!r}, which could run code and is not "
            "read from a file; if it is yours, add --config-dir yourself"
        )
    for job in stored.jobs:
        sync_from_folder(stored, job)
    if stored.is_done:
        print_line(f"{folder}: finished; there is nothing left to do", flush=True)
        return 0
    is_listed = not without_hydra_overrides(stored.overrides)
    listed = tuple(job.overrides for job in stored.jobs) if is_listed else ()
    args = SweepArgs(stored.overrides, config_dir, max_parallel or stored.max_parallel, listed)
    return sweep(args._replace(command_line=stored.command if is_listed else ""), folder)


def split_fresh(overrides: Sequence[str]) -> tuple[bool, list[str]]:
    """The value of ``fresh=``, and the other overrides."""
    words = [override for override in overrides if override.lstrip("+").startswith("fresh=")]
    for word in words:
        if word.lstrip("+") not in ("fresh=true", "fresh=false"):
            raise UserError(f"{word.lstrip('+')}: expected true or false")
    is_fresh = bool(words) and words[-1].endswith("true")
    return is_fresh, [word for word in overrides if word not in words]


def _continues_after_requeue(folder: Path) -> bool:
    """Whether SLURM has started this command again: it has renamed the earlier folder, and goes on in its own."""
    return is_requeued() and is_sweep(folder) and read_sweep(folder).slurm_job == slurm_job()


def _check_folder(
    folder: Path, overrides: Sequence[str], request: SweepRequest, configs: Configs
) -> Sequence[Sequence[str]]:
    """Check that a folder holds the jobs of this sweep or none; return those that are not done."""
    stored = read_sweep(folder) if is_sweep(folder) else Sweep(folder, "", [])
    refuse_links(folder)
    if without_hydra_overrides(overrides):  # else the jobs are listed, and others may be there
        reject_other_sweep(stored, overrides, None if request.is_search else request.jobs)
    pending = []
    for overrides_of_job in request.jobs:
        job = get_or_add_job(stored, overrides_of_job)
        if not request.is_search:
            reject_other_config(stored.folder(job), configs[overrides_key(overrides_of_job)])
        sync_from_folder(stored, job)
        if job.status not in DONE_STATUSES:
            pending.append(overrides_of_job)
    for run in map(stored.folder, stored.jobs if request.is_search else []):
        if (run / RUN_JSON).is_file():
            reject_other_code(run)
    return pending


def _sweep_folder(overrides: Sequence[str], configs: Configs) -> Path:
    """``name=`` in ``multirun/``, or a hash of the sorted overrides: the same command has the same folder."""
    names = {config["name"] for config in configs.values()}
    if len(names) > 1:
        listed = ", ".join(sorted(map(str, names)))
        raise UserError(f"name={listed}: a sweep has one name, and its jobs are numbered; write name=NAME")
    plain = sorted(override.lstrip("+") for override in overrides)
    name = names.pop() or hashlib.sha256("\n".join(plain).encode()).hexdigest()[:10]
    refuse_occupied(SWEEPS / name)
    return SWEEPS / name
