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

from attnx.config.compose import check_config
from attnx.config.hydra_errors import translate_hydra_error
from attnx.config.hydra_session import plain_config
from attnx.errors import UserError
from attnx.runs.info import DONE_STATUSES, RunStatus
from attnx.runs.sweep import SweepJob, overrides_key
from attnx.sweeps.expand_overrides import PLUGIN_MODULE, without_hydra_overrides
from attnx.sweeps.job_process import JobSpec
from attnx.sweeps.record import get_or_add_job, reject_other_config
from attnx.sweeps.session import SweepSession, current_session, objective


class SessionLauncher(Launcher):
    """Launches the jobs of the running sweep that are not done."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Store what Hydra gives."""
        self.hydra_context, self.config = hydra_context, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run jobs, and return the objective of each."""
        session = current_session()
        asked = [without_hydra_overrides(overrides) for overrides in job_overrides]
        jobs = [get_or_add_job(session.sweep, session.solved.get(overrides_key(job), job)) for job in asked]
        self.run_jobs(session, self.pending_jobs(session, jobs))
        results = [JobReturn(overrides=list(job.overrides), status=JobStatus.COMPLETED) for job in jobs]
        for result, job in zip(results, jobs, strict=True):
            result.return_value = objective(job)
        return results

    def run_jobs(self, session: SweepSession, pending: Iterator[tuple[SweepJob, JobSpec]]) -> None:
        """Run jobs, and wait until they have ended."""
        raise NotImplementedError

    def pending_jobs(self, session: SweepSession, jobs: Iterable[SweepJob]) -> Iterator[tuple[SweepJob, JobSpec]]:
        """Those jobs that are not done, each once, with their specs; a job that cannot be composed has failed."""
        for job in {job.index: job for job in jobs}.values():
            if job.status in DONE_STATUSES:
                continue
            try:
                config = session.configs.get(overrides_key(job.overrides)) or self._compose(job.overrides)
                reject_other_config(session.sweep.folder(job), config)
            except UserError as error:
                job.status, job.error = RunStatus.FAILED, str(error)
                session.screen.report_job(session.sweep, job)
                continue
            yield job, session.job_spec(job, config, **self.variables)

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that Hydra is asked to set for a job."""
        return {str(name): str(value) for name, value in self.config.hydra.job.env_set.items()}

    def _compose(self, overrides: Sequence[str]) -> Mapping[str, Any]:
        """Compose and check the configuration of a job."""
        try:
            config = self.hydra_context.config_loader.load_sweep_config(self.config, list(overrides))
            keys = [str(key) for key in config if key != "hydra"]
            plain = plain_config(OmegaConf.masked_copy(config, keys))
        except (HydraException, OmegaConfBaseException) as error:
            raise UserError(translate_hydra_error(error, overrides)) from error
        return check_config(plain, overrides)


class ProcessLauncher(SessionLauncher):
    """Runs each job in a process of its own, a fork of one that has imported everything."""

    __module__ = PLUGIN_MODULE

    def run_jobs(self, session: SweepSession, pending: Iterator[tuple[SweepJob, JobSpec]]) -> None:
        """Run jobs on this machine, several at a time."""
        session.run(pending)


class SlurmLauncher(SessionLauncher):
    """Submits jobs to SLURM.

    Options are as submitit calls them; with ``detach`` it returns when the jobs are submitted. See
    :mod:`attnx.sweeps.slurm_jobs`.
    """

    __module__ = PLUGIN_MODULE

    def __init__(self, detach: bool = False, **options: Any) -> None:
        self.detach, self.options = detach, options

    def run_jobs(self, session: SweepSession, pending: Iterator[tuple[SweepJob, JobSpec]]) -> None:
        """Submit jobs, and wait for them unless detached."""
        from attnx.sweeps.slurm_jobs import RemoteJob, SlurmQueue, leave_out_queued, submit, wait

        path, created, variables = str(session.sweep.path), session.sweep.created, self.variables
        submissions = [
            (job, RemoteJob(path, created, job.index, spec.config, variables, spec.working_folder))
            for job, spec in pending
        ]
        if self.detach:
            submissions = leave_out_queued(session, submissions)
        waiting = submit(session, self.options, submissions)
        if not self.detach:
            wait(session, waiting, SlurmQueue(session.screen.print))
        session.reject_stop()
