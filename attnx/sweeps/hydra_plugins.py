"""Hydra's launcher and sweepers of attnx: every job its own process, and what was checked is not checked again."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from attnx.config.compose import check
from attnx.errors import UserError
from attnx.runs.status import RunStatus
from attnx.runs.sweep import SweepJob
from attnx.sweeps.expand_overrides import ours
from attnx.sweeps.job_process import JobSpec
from attnx.sweeps.record import refuse_unlike
from attnx.sweeps.session import DONE, SweepSession, current, to_minimize

# Hydra takes plug-ins from this package only; so this module goes by such a name too, and needs no folder there.
PACKAGE = "hydra_plugins"
NAMED = f"{PACKAGE}.attnx"


class ProcessLauncher(Launcher):
    """Runs jobs in processes of their own.

    Args:
        fork: copy a process that has imported everything, instead of starting a new one.
    """

    __module__ = NAMED

    def __init__(self, fork: bool = True) -> None:
        self.fork = fork

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take what Hydra gives."""
        self.hydra_context, self.config = hydra_context, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run jobs, and return of each what is to be minimized."""
        return launch(self, job_overrides)


class Submitted(Launcher):
    """Sends jobs to SLURM, or runs them here as SLURM would; see :mod:`attnx.sweeps.submission`.

    Args:
        cluster: ``slurm`` or ``local``.
        knobs: what is asked for a job, as submitit calls it.
    """

    __module__ = NAMED

    def __init__(self, cluster: str, **knobs: Any) -> None:
        plain = OmegaConf.to_object(OmegaConf.create(knobs))
        assert isinstance(plain, dict)
        self.cluster, self.knobs = cluster, {str(name): value for name, value in plain.items()}

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take what Hydra gives."""
        self.hydra_context, self.config = hydra_context, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Send jobs, wait for them, and return of each what is to be minimized."""
        from attnx.sweeps.submission import Remote, submit

        running = current()
        jobs = [running.job(ours(asked)) for asked in job_overrides]
        path, set_by_hydra = str(running.sweep.path), variables(self)
        doing = tasks(self, running, {job.index: job for job in jobs}.values())
        sent = [(job, Remote(path, job.index, task.config, set_by_hydra, task.place)) for job, task in doing]
        submit(running, self.cluster, self.knobs, sent)
        return [_returned(job) for job in jobs]


class GridSweeper(Sweeper):
    """Hydra's own sweeper, without its composing every job once more: they have been checked.

    Holds that sweeper and does not inherit from it: Hydra runs the files of its plug-ins anew when it looks for them,
    and a class imported before no longer works.
    """

    __module__ = NAMED

    def __init__(self, **knobs: Any) -> None:
        from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

        self.sweeper = BasicSweeper(**knobs)
        self.sweeper.validate_batch_is_legal = _nothing  # type: ignore[method-assign]

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take what Hydra gives."""
        self.sweeper.setup(hydra_context=hydra_context, task_function=task_function, config=config)

    def sweep(self, arguments: list[str]) -> None:
        """Run all jobs."""
        self.sweeper.sweep(arguments)


class OptunaSweeper(Sweeper):
    """Lets Optuna choose what to try next; see :mod:`attnx.sweeps.optuna_sweeper`."""

    __module__ = NAMED

    def __init__(self, **knobs: Any) -> None:
        from attnx.sweeps.optuna_sweeper import OptunaSearch

        self.search = OptunaSearch(**knobs)

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take what Hydra gives."""
        self.search.setup(hydra_context=hydra_context, task_function=task_function, config=config)

    def sweep(self, arguments: list[str]) -> None:
        """Search."""
        self.search.sweep(arguments)


def _nothing(batch: Sequence[Sequence[str]]) -> None:
    pass


def offer() -> None:
    """Let Hydra find them."""
    try:
        importlib.import_module(PACKAGE)
    except ModuleNotFoundError:  # nobody else has a plug-in
        sys.modules[PACKAGE] = ModuleType(PACKAGE)
        sys.modules[PACKAGE].__path__ = []
    sys.modules[NAMED] = sys.modules[__name__]
    for plugin in (ProcessLauncher, Submitted, GridSweeper, OptunaSweeper):
        Plugins.instance().register(plugin)


def launch(launcher: ProcessLauncher, job_overrides: Sequence[Sequence[str]]) -> list[JobReturn]:
    """Run a batch of jobs."""
    running = current()
    running.fork = launcher.fork
    jobs = [running.job(ours(asked)) for asked in job_overrides]
    running.run(tasks(launcher, running, {job.index: job for job in jobs}.values()))
    return [_returned(job) for job in jobs]


def tasks(launcher: Any, running: SweepSession, jobs: Any) -> Iterator[tuple[SweepJob, JobSpec]]:
    """What those jobs are to do that are not done; one that cannot be composed has failed."""
    for job in jobs:
        if job.status in DONE:
            continue
        try:
            config = running.config(job.overrides) or composed(launcher, job.overrides)
            refuse_unlike(running.sweep.folder(job), config)
        except UserError as error:
            job.status, job.error = RunStatus.FAILED, str(error)
            running.screen.tell(running.sweep, job)
            continue
        yield job, running.task(job, config, **variables(launcher))


def variables(launcher: Any) -> dict[str, str]:
    """Those that Hydra is asked to set for a job."""
    return {str(name): str(value) for name, value in launcher.config.hydra.job.env_set.items()}


def composed(launcher: Any, asked: Sequence[str]) -> Mapping[str, Any]:
    """Compose and check the configuration of a job.

    Raises:
        UserError: a mistake in it.
    """
    try:
        config = launcher.hydra_context.config_loader.load_sweep_config(launcher.config, list(asked))
        plain = OmegaConf.to_container(OmegaConf.masked_copy(config, [k for k in config if k != "hydra"]), resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(" ".join(str(error).split())) from error
    assert isinstance(plain, dict)
    return check({str(name): value for name, value in plain.items()}, asked)


def _returned(job: SweepJob) -> JobReturn:
    returned = JobReturn(overrides=list(job.overrides), status=JobStatus.COMPLETED)
    returned.return_value = to_minimize(job)
    return returned
