"""Hydra's sweepers of attnx, grid and search by Optuna, and the registration of launchers and sweepers with Hydra."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from attnx.config.hydra_internals import basic_sweeper
from attnx.errors import UserError
from attnx.runs.info import DONE_STATUSES, RunStatus
from attnx.runs.layout import STUDY
from attnx.runs.run import Run
from attnx.runs.sweep import SweepJob
from attnx.sweeps.expand_overrides import PLUGIN_MODULE, build_optuna_part, read_search_space, without_hydra_overrides
from attnx.sweeps.job_process import JobSpec
from attnx.sweeps.launchers import ProcessLauncher, SlurmLauncher
from attnx.sweeps.record import get_or_add_job, save_sweep, sync_from_folder
from attnx.sweeps.session import SweepSession, current_session, objective


class OptunaSweeper(Sweeper):
    """Searches with Optuna; the study is in the sweep's folder, so a search can be stopped and resumed.

    The objective is the best validation value, negated where higher is better; the test is not used. It searches
    intervals, ranges and choices in Hydra's words; ``tag(log, interval(1e-4, 1e-2))`` has a logarithmic scale.

    Args:
        n_trials: number of trials; trials of equal values share one job. Those that failed are tried once more by each
            further command, and do not count.
        sampler: the name of one of Optuna's samplers that take a seed, and its options.
        pruner: the name of one of Optuna's pruners, and its options; None prunes nothing.
        seed: of the sampler.
        params: the search space, as on the command line: ``{optimizer.lr: "tag(log, interval(1e-4, 1e-2))"}``.
    """

    __module__ = PLUGIN_MODULE

    def __init__(
        self,
        n_trials: int,
        sampler: Mapping[str, Any],
        pruner: Mapping[str, Any] | None,
        seed: int,
        params: Mapping[str, str] | None,
    ) -> None:
        self.n_trials, self.sampler, self.pruner, self.seed, self.params = n_trials, sampler, pruner, seed, params

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take what Hydra gives."""
        self.hydra_context, self.config = hydra_context, config
        self.launcher = Plugins.instance().instantiate_launcher(
            config=config, hydra_context=hydra_context, task_function=task_function
        )

    def sweep(self, arguments: list[str]) -> None:
        """Search, or resume a search."""
        import optuna

        optuna.logging.set_verbosity(logging.WARNING)
        session = current_session()
        overrides = [*(f"{name}={value}" for name, value in (self.params or {}).items()), *arguments]
        self.space, self.fixed = read_search_space(without_hydra_overrides(overrides))
        self.study = self._open_study(session.sweep.path)
        self.trials: dict[int, list[Any]] = {}  # job -> its unfinished trials, the first of which reports
        self.failed: set[int] = set()  # jobs that this command has tried in vain
        if isinstance(self.launcher, ProcessLauncher):
            session.run(self._suggest_jobs(session, self.launcher), self._record_trial, self._should_prune)
        else:
            self._run_batches(session)

    def _open_study(self, folder: Path) -> Any:
        """Open or create the study in a folder; the sampler's seed differs from earlier commands'."""
        import optuna

        path = (folder / STUDY).resolve()
        if "?" in str(path):
            raise UserError(f"{path}: the path of a search cannot have a question mark; choose another name=...")
        storage = f"sqlite:///{path}"
        study = optuna.create_study(storage=storage, study_name="attnx", direction="minimize", load_if_exists=True)
        trials, states = study.get_trials(deepcopy=False), optuna.trial.TrialState
        study.sampler = build_optuna_part("sampler", {**self.sampler, "seed": self.seed + len(trials)})
        study.pruner = build_optuna_part("pruner", self.pruner or {"name": "NopPruner"})
        for trial in trials:
            if trial.state == states.RUNNING:  # interrupted; its job goes on in a new trial of the same values
                study.tell(trial.number, state=states.FAIL)
        failed = [trial.params for trial in trials if trial.state in (states.FAIL, states.RUNNING)]
        succeeded = [trial.params for trial in trials if trial.state not in (states.FAIL, states.RUNNING)]
        self.max_trials = self.n_trials + len(failed)
        self.failed_params = [
            params for index, params in enumerate(failed) if params not in succeeded and params not in failed[:index]
        ]
        return study

    def _suggest_job(self, session: SweepSession) -> SweepJob | None:
        """The job of the next trial; None after ``n_trials``. A trial of a job that runs already ends with that job."""
        while (trial := self._next_trial()) is not None:
            overrides = [*(f"{name}={value}" for name, value in trial.params.items()), *self.fixed]
            job = get_or_add_job(session.sweep, overrides)
            trials = self.trials.setdefault(job.index, [])
            trials.append(trial)
            if len(trials) == 1:
                save_sweep(session.sweep)
                return job
        return None

    def _next_trial(self) -> Any:
        """The next trial: first those that failed or were interrupted; None after ``n_trials``."""
        if self.failed_params:
            self.study.enqueue_trial(self.failed_params.pop(0))
        elif len(self.study.get_trials(deepcopy=False)) >= self.max_trials:
            return None
        return self.study.ask(self.space)

    def _suggest_jobs(self, session: SweepSession, launcher: ProcessLauncher) -> Iterator[tuple[SweepJob, JobSpec]]:
        while (job := self._suggest_job(session)) is not None:
            pending = None if job.index in self.failed else next(launcher.pending_jobs(session, [job]), None)
            if pending is None:  # a job with these values is done or has failed, or it cannot be composed
                self._record_trial(job)
            else:
                yield pending

    def _record_trial(self, job: SweepJob) -> None:
        """Tell the study how a job ended; the trials of an interrupted job stay unfinished."""
        from optuna.trial import TrialState

        if job.status in (RunStatus.INTERRUPTED, RunStatus.WAITING):
            return
        if job.status == RunStatus.FAILED:
            self.failed.add(job.index)
        for trial in self.trials.pop(job.index):
            if job.status == RunStatus.FINISHED and (value := objective(job)) == value:
                self.study.tell(trial, value)
            else:
                self.study.tell(trial, state=TrialState.PRUNED if job.status == RunStatus.PRUNED else TrialState.FAIL)

    def _should_prune(self, job: SweepJob) -> bool:
        """Report a running job's validations to the study; return whether others were clearly better by then.

        Trials are compared at the same validation, not at the same step: steps may differ with budget=time.
        """
        trial, progress = self.trials[job.index][0], Run(current_session().sweep.folder(job)).progress
        reported = len(self.study.get_trials(deepcopy=False)[trial.number].intermediate_values)
        for index, value in list(enumerate(progress.curve))[reported:]:
            trial.report(-value if progress.maximize else value, index)
        is_training = progress.step < progress.steps  # a job that is tested loses its results
        return len(progress.curve) > reported and is_training and bool(trial.should_prune())

    def _run_batches(self, session: SweepSession) -> None:
        """Run ``max_parallel`` jobs at a time under SLURM, where nothing is pruned."""
        while True:
            jobs = [job for job in (self._suggest_job(session) for _ in range(session.max_parallel)) if job]
            if not jobs:
                return
            pending = [job for job in jobs if job.status not in DONE_STATUSES and job.index not in self.failed]
            if pending and self.launcher is not None:
                self.launcher.launch([job.overrides for job in pending], initial_job_idx=pending[0].index)
            for job in jobs:
                sync_from_folder(session.sweep, job)
                self._record_trial(job)


class GridSweeper(Sweeper):
    """Runs every combination, or the listed jobs: Hydra's own sweeper, which does not compose each job again.

    It holds that sweeper and does not inherit from it: Hydra executes the files of its plug-ins again when it looks
    for them, and a class imported before no longer works.
    """

    __module__ = PLUGIN_MODULE

    def __init__(self, **options: Any) -> None:
        self.sweeper = basic_sweeper(**options)

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take what Hydra gives."""
        self.sweeper.setup(hydra_context=hydra_context, task_function=task_function, config=config)

    def sweep(self, arguments: list[str]) -> None:
        """Run all jobs."""
        if listed := current_session().listed:
            self.sweeper.split_arguments = lambda overrides, max_batch_size: [[*listed]]
        self.sweeper.sweep(arguments)


def register_plugins() -> None:
    """Register attnx's launchers and sweepers with Hydra.

    Hydra takes plug-ins from the package ``hydra_plugins`` only, so this module goes by a name in it, too.
    """
    package = PLUGIN_MODULE.partition(".")[0]
    try:
        importlib.import_module(package)
    except ModuleNotFoundError:  # no other plug-in is installed
        sys.modules[package] = ModuleType(package)
        sys.modules[package].__path__ = []
    sys.modules[PLUGIN_MODULE] = sys.modules[__name__]
    for plugin in (ProcessLauncher, SlurmLauncher, GridSweeper, OptunaSweeper):
        Plugins.instance().register(plugin)
