"""Searches with Optuna: what is tried next follows from what was found, and what is hopeless is stopped."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attnx.runs.layout import STUDY
from attnx.runs.run import Run
from attnx.runs.sweep import SweepJob
from attnx.sweeps.expand_overrides import ours
from attnx.sweeps.hydra_plugins import ProcessLauncher, tasks
from attnx.sweeps.job_process import JobSpec
from attnx.sweeps.record import refresh, save
from attnx.sweeps.session import DONE, SweepSession, current, to_minimize


def _sweeper() -> Any:
    from hydra_plugins.hydra_optuna_sweeper import _impl

    return _impl


class OptunaSearch:
    """A search that can be stopped and gone on with: what was tried lies in the sweep's folder.

    The values are minimized, negated where higher is better, and are those of validation: a test decides nothing.

    Args:
        n_trials: how many jobs there are in all.
        sampler: what chooses, a class of Optuna's that is given a seed.
        pruner: what says which running job is hopeless, a class of Optuna's; null stops none.
        seed: of what is drawn.
        params: what is searched, as on a command line: ``{optimizer.lr: "tag(log, interval(1e-4, 1e-2))"}``.
    """

    def __init__(self, n_trials: int, sampler: Any, pruner: Any, seed: int, params: Any) -> None:
        self.n_trials, self.sampler, self.pruner, self.seed, self.params = n_trials, sampler, pruner, seed, params

    def setup(self, *, hydra_context: Any, task_function: Any, config: Any) -> None:
        """Take what Hydra gives."""
        from hydra.core.plugins import Plugins

        self.hydra_context, self.config = hydra_context, config
        self.launcher = Plugins.instance().instantiate_launcher(
            config=config, hydra_context=hydra_context, task_function=task_function
        )

    def sweep(self, arguments: list[str]) -> None:
        """Search, or go on."""
        import optuna

        optuna.logging.set_verbosity(logging.WARNING)
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        running = current()
        words = [*(f"{name}={value}" for name, value in (self.params or {}).items()), *arguments]
        self.space, self.fixed = _sweeper().create_params_from_overrides(ours(words))
        self.study = self._open(running.sweep.path, optuna)
        self.trials: dict[int, Any] = {}  # job -> its trial
        if isinstance(self.launcher, ProcessLauncher):
            running.fork = self.launcher.fork
            running.run(self._asked(running), self._tell, self._hopeless)
        else:
            self._in_batches(running)

    def _open(self, folder: Path, optuna: Any) -> Any:
        """The study in a folder, which may hold trials; a sampler that begins anew must not draw the same again."""
        kept = {"study_name": "attnx", "storage": f"sqlite:///{(folder / STUDY).resolve()}", "load_if_exists": True}
        study = optuna.create_study(direction="minimize", **kept)
        study.sampler = self.sampler(seed=self.seed + len(study.get_trials(deepcopy=False)))
        if self.pruner is not None:
            study.pruner = self.pruner
        self.unfinished = [
            optuna.trial.Trial(study, trial._trial_id)
            for trial in study.get_trials(deepcopy=False)
            if not trial.state.is_finished()
        ]
        return study

    def _next(self, running: SweepSession) -> SweepJob | None:
        """The job of the next trial: first of those that were cut off, then of new ones."""
        if self.unfinished:
            trial = self.unfinished.pop(0)
        elif len(self.study.get_trials(deepcopy=False)) < self.n_trials:
            trial = self.study.ask()
        else:
            return None
        values = {name: trial._suggest(name, distribution) for name, distribution in self.space.items()}
        job = running.job([f"{name}={value}" for name, value in {**values, **self.fixed}.items()])
        self.trials[job.index] = trial
        save(running.sweep)
        return job

    def _asked(self, running: SweepSession) -> Iterator[tuple[SweepJob, JobSpec]]:
        while (job := self._next(running)) is not None:
            doing = next(tasks(self.launcher, running, [job]), None)
            if doing is None:  # there was such a job, or it cannot be composed
                self._tell(job)
            else:
                yield doing

    def _tell(self, job: SweepJob) -> None:
        """Tell the study how a job ended; one that was interrupted goes on another time."""
        from optuna.trial import TrialState

        if job.status == "interrupted":
            return
        trial = self.trials.pop(job.index)
        if job.status == "finished" and (value := to_minimize(job)) == value:
            self.study.tell(trial, value)
        else:
            self.study.tell(trial, state=TrialState.PRUNED if job.status == "pruned" else TrialState.FAIL)

    def _hopeless(self, job: SweepJob) -> bool:
        """Report what a running job has found in validation, and ask whether others were clearly better by then.

        What is compared is the same validation, the first with the first: steps may differ with budget=time.
        """
        trial, stands = self.trials[job.index], Run(current().sweep.folder(job)).progress
        reported = len(self.study._storage.get_trial(trial._trial_id).intermediate_values)
        for number, value in list(enumerate(stands.curve, start=1))[reported:]:
            trial.report(-value if stands.maximize else value, number)
        return len(stands.curve) > reported and bool(trial.should_prune())

    def _in_batches(self, running: SweepSession) -> None:
        """Under another launcher, so many at a time; there nobody is stopped."""
        while jobs := [job for job in (self._next(running) for _ in range(running.side_by_side)) if job]:
            new = [job for job in jobs if job.status not in DONE]
            if new:
                self.launcher.launch([job.overrides for job in new], initial_job_idx=new[0].index)
            for job in jobs:
                refresh(running.sweep, job)
                self._tell(job)
