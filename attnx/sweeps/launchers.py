"""Hydra's launchers of attnx: run jobs in processes of this machine, or submit them to SLURM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from attnx.config.check import check
from attnx.errors import UserError
from attnx.runs.status import RunStatus
from attnx.runs.sweep import SweepJob
from attnx.sweeps.expand_overrides import PLUGIN_MODULE, without_hydra_overrides
from attnx.sweeps.job_process import JobSpec
from attnx.sweeps.record import DONE_STATUSES, reject_other_config
from attnx.sweeps.session import SweepSession, current_session, objective


class ProcessLauncher(Launcher):
    """Runs each job in a process of its own.

    Args:
        fork: fork a process that has imported everything, instead of starting a new one.
    """

    __module__ = PLUGIN_MODULE

    def __init__(self, fork: bool = True) -> None:
        self.fork = fork

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take what Hydra gives."""
        self.hydra_context, self.config = hydra_context, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run jobs, and return the objective of each."""
        session = current_session()
        session.use_fork = self.fork
        jobs = [session.job(without_hydra_overrides(overrides)) for overrides in job_overrides]
        session.run(pending_jobs(self, session, jobs))
        return [_job_return(job) for job in jobs]


class SlurmLauncher(Launcher):
    """Submits jobs to SLURM, or runs them here as SLURM would; see :mod:`attnx.sweeps.submission`.

    Args:
        cluster: ``slurm`` or ``local``.
        options: of a job, as submitit calls them.
    """

    __module__ = PLUGIN_MODULE

    def __init__(self, cluster: str, **options: Any) -> None:
        self.cluster, self.options = cluster, options

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take what Hydra gives."""
        self.hydra_context, self.config = hydra_context, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Submit jobs, wait for them, and return the objective of each."""
        from attnx.sweeps.submission import RemoteJob, submit

        session = current_session()
        jobs = [session.job(without_hydra_overrides(overrides)) for overrides in job_overrides]
        path, variables = str(session.sweep.path), hydra_variables(self)
        submissions = [
            (job, RemoteJob(path, job.index, spec.config, variables, spec.working_folder))
            for job, spec in pending_jobs(self, session, jobs)
        ]
        submit(session, self.cluster, self.options, submissions)
        return [_job_return(job) for job in jobs]


def pending_jobs(launcher: Any, session: SweepSession, jobs: Iterable[SweepJob]) -> Iterator[tuple[SweepJob, JobSpec]]:
    """Those jobs that are not done, each once, with their specs; a job that cannot be composed has failed."""
    for job in {job.index: job for job in jobs}.values():
        if job.status in DONE_STATUSES:
            continue
        try:
            config = session.config(job.overrides) or _compose(launcher, job.overrides)
            reject_other_config(session.sweep.folder(job), config)
        except UserError as error:
            job.status, job.error = RunStatus.FAILED, str(error)
            session.screen.report_job(session.sweep, job)
            continue
        yield job, session.job_spec(job, config, **hydra_variables(launcher))


def hydra_variables(launcher: Any) -> dict[str, str]:
    """The environment variables that Hydra is asked to set for a job."""
    return {str(name): str(value) for name, value in launcher.config.hydra.job.env_set.items()}


def _compose(launcher: Any, overrides: Sequence[str]) -> Mapping[str, Any]:
    """Compose and check the configuration of a job.

    Raises:
        UserError: a mistake in it.
    """
    try:
        config = launcher.hydra_context.config_loader.load_sweep_config(launcher.config, list(overrides))
        plain = OmegaConf.to_container(OmegaConf.masked_copy(config, [k for k in config if k != "hydra"]), resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(" ".join(str(error).split())) from error
    assert isinstance(plain, dict)
    return check({str(name): value for name, value in plain.items()}, overrides)


def _job_return(job: SweepJob) -> JobReturn:
    result = JobReturn(overrides=list(job.overrides), status=JobStatus.COMPLETED)
    result.return_value = objective(job)
    return result
