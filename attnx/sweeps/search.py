"""Searches by Optuna: the jobs that it chooses, as those before them end; the space, sampler and pruner of a search."""

from __future__ import annotations

import inspect
import logging
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from attnx.config.hydra_internals import override_parser
from attnx.errors import UserError, suggest
from attnx.runs.info import RunStatus
from attnx.runs.layout import STUDY
from attnx.runs.run import Run
from attnx.runs.sweep import SweepJob
from attnx.sweeps.job_process import JobSpec
from attnx.sweeps.record import get_or_add_job, save_sweep, sync_from_folder
from attnx.sweeps.session import SweepSession


class OptunaSearch:
    """Searches with Optuna; the study is in the sweep's folder, so a search can be stopped and resumed.

    The objective is the best validation value, negated where higher is better; the test is not used.

    Args:
        session: the running sweep.
        options: ``n_trials``, the number of trials, of which those of equal values share one job, and those that failed
            are tried once more by each further command and do not count; the name of one of Optuna's ``sampler`` that
            take a seed, and its options; the same of a ``pruner``, None to prune nothing; the ``seed`` of the sampler.
        overrides: the search space in Hydra's words, ``optimizer.lr=tag(log,interval(1e-4,1e-2))``, and fixed values.
    """

    def __init__(self, session: SweepSession, options: Mapping[str, Any], overrides: Sequence[str]) -> None:
        import optuna

        optuna.logging.set_verbosity(logging.WARNING)
        self.session = session
        self.space = read_search_space(overrides)
        self.trials: dict[int, list[Any]] = {}  # job -> its unfinished trials, the first of which reports
        self.failed: set[int] = set()  # jobs that this command has tried in vain
        path = (session.sweep.path / STUDY).resolve()
        if "?" in str(path):
            raise UserError(f"{path}: the path of a search cannot have a question mark; choose another name=...")
        storage = f"sqlite:///{path}"
        self.study = optuna.create_study(storage=storage, study_name="attnx", direction="minimize", load_if_exists=True)
        trials, states = self.study.get_trials(deepcopy=False), optuna.trial.TrialState
        failed = [trial.params for trial in trials if trial.state in (states.FAIL, states.RUNNING)]
        succeeded = [trial.params for trial in trials if trial.state not in (states.FAIL, states.RUNNING)]
        self.max_trials = options["n_trials"] + len(failed)
        # A sampler calls it when it has tried its whole space; Optuna's own method is for its own loop.
        self.study.stop = partial(setattr, self, "max_trials", 0)  # type: ignore[method-assign]
        seed = options["seed"] + len(trials)  # another one than earlier commands had
        self.study.sampler = build_optuna_part("sampler", options.get("sampler"), seed=seed)
        self.study.pruner = build_optuna_part("pruner", options.get("pruner") or "NopPruner")
        for trial in trials:
            if trial.state == states.RUNNING:  # interrupted; its job goes on in a new trial of the same values
                self.study.tell(trial.number, state=states.FAIL)
        self.failed_params = [
            params for index, params in enumerate(failed) if params not in succeeded and params not in failed[:index]
        ]

    def run(self) -> None:
        """Search, or resume a search, in processes of this machine."""
        self.session.run(self._jobs(), self._record_trial, self._should_prune)

    def run_in_batches(self, launch: Callable[[Iterator[tuple[SweepJob, JobSpec]]], None]) -> None:
        """Search with ``max_parallel`` jobs at a time, which ``launch`` runs; nothing is pruned."""
        while jobs := [job for job in (self._suggest_job() for _ in range(self.session.max_parallel)) if job]:
            launch(self.session.pending(job for job in jobs if job.index not in self.failed))
            for job in jobs:
                sync_from_folder(self.session.sweep, job)
                self._record_trial(job)

    def _suggest_job(self) -> SweepJob | None:
        """The job of the next trial; None after ``n_trials``, or when all of the space is tried.

        A trial of a job that runs already ends with that job.
        """
        while self.failed_params or len(self.study.get_trials(deepcopy=False)) < self.max_trials:
            if self.failed_params:  # first those that failed or were interrupted
                self.study.enqueue_trial(self.failed_params.pop(0))
            trial = self.study.ask(self.space.distributions)
            job = get_or_add_job(self.session.sweep, self.space.overrides(trial.params))
            trials = self.trials.setdefault(job.index, [])
            trials.append(trial)
            if len(trials) == 1:
                save_sweep(self.session.sweep)
                return job
        return None

    def _jobs(self) -> Iterator[tuple[SweepJob, JobSpec]]:
        while (job := self._suggest_job()) is not None:
            pending = None if job.index in self.failed else next(self.session.pending([job]), None)
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
            if job.status == RunStatus.FINISHED and job.best is not None and not math.isnan(job.best):
                self.study.tell(trial, -job.best if job.maximize else job.best)
            else:
                self.study.tell(trial, state=TrialState.PRUNED if job.status == RunStatus.PRUNED else TrialState.FAIL)

    def _should_prune(self, job: SweepJob) -> bool:
        """Report a running job's validations to the study; return whether others were clearly better by then.

        Trials are compared at the same validation, not at the same step: steps may differ with budget=time.
        """
        trial, progress = self.trials[job.index][0], Run(self.session.sweep.folder(job)).progress
        reported = len(self.study.get_trials(deepcopy=False)[trial.number].intermediate_values)
        for index, value in list(enumerate(progress.curve))[reported:]:
            trial.report(-value if progress.maximize else value, index)
        is_training = progress.step < progress.steps  # a job that is tested loses its results
        return len(progress.curve) > reported and is_training and bool(trial.should_prune())


class SearchSpace(NamedTuple):
    """What a search chooses from."""

    distributions: dict[str, Any]  #: of Optuna, by key
    decimals: dict[str, list[str]]  #: the values of each range of decimals, as a grid writes them
    fixed: list[str]  #: overrides that all jobs have

    def overrides(self, chosen: Mapping[str, Any]) -> list[str]:
        """The overrides of a job, of the values that Optuna has chosen: decimals as a grid writes them."""

        def word(key: str, value: Any) -> str:
            words = self.decimals.get(key)
            return min(words, key=lambda word: abs(float(word) - value)) if words else str(value)

        return [*(f"{key}={word(key, value)}" for key, value in chosen.items()), *self.fixed]


def read_search_space(overrides: Sequence[str]) -> SearchSpace:
    """The space that overrides describe in Hydra's words.

    >>> words = ["optimizer.lr=tag(log,interval(0.001,0.1))", "model.layers=range(1,7,2)", "seed=1"]
    >>> read_search_space(words).distributions
    {'optimizer.lr': FloatDistribution(high=0.1, log=True, low=0.001, step=None), \
'model.layers': IntDistribution(high=5, log=False, low=1, step=2)}
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    space, decimals, fixed = SearchSpace({}, {}, [])
    for override in override_parser().parse_overrides(list(overrides)):
        key = override.get_key_element()
        if not override.is_sweep_override():
            fixed.append(override.input_line)
        elif override.is_interval_sweep():
            interval = override.value()
            is_whole = isinstance(interval.start, int) and isinstance(interval.end, int)
            kind = IntDistribution if is_whole else FloatDistribution
            space[key] = kind(interval.start, interval.end, log="log" in interval.tags)
        elif override.is_range_sweep() and len(values := list(override.value().range())) > 1:
            if isinstance(values[0], int):
                space[key] = IntDistribution(min(values), max(values), step=abs(values[1] - values[0]))
            else:
                decimals[key] = [*map(str, values)]
                first, step = (Decimal(str(number)) for number in (override.value().start, override.value().step))
                low, high = sorted((first, first + (len(values) - 1) * step))  # a sum of floats may be beyond the last
                space[key] = FloatDistribution(float(low), float(high), step=float(abs(step)))
        else:
            space[key] = CategoricalDistribution([*override.sweep_string_iterator()])
    return SearchSpace(space, decimals, fixed)


def build_optuna_part(kind: str, part: object, **further: int) -> Any:
    """Build a ``sampler`` or ``pruner`` of Optuna from its name, or a mapping of its name and options.

    Raises:
        UserError: Optuna has no such class, or it has no such option or value.
    """
    import optuna

    module, place = {"sampler": optuna.samplers, "pruner": optuna.pruners}[kind], f"hydra.sweeper.{kind}"
    names = [name for name in module.__all__ if name.lower().endswith(kind) and not name.startswith("Base")]
    named = part if isinstance(part, Mapping) else {"name": part}
    name, options = str(named.get("name")), {**{key: value for key, value in named.items() if key != "name"}, **further}
    if name not in names:
        raise UserError(f"{place}.name={name}: Optuna has no such {kind}{suggest(name, names)}")
    parameters = inspect.signature(getattr(module, name)).parameters
    if unknown := [option for option in options if option not in parameters]:
        remedy = f"leave it out: ~{place}.{unknown[0]}"
        raise UserError(f"{place}.{unknown[0]}: {name} has no such option{suggest(unknown[0], parameters)}; {remedy}")
    for option, value in options.items():
        if parameters[option].annotation in (int, "int") and type(value) is not int:  # Optuna would fail in a trial
            raise UserError(f"{place}.{option}={value}: expected a whole number")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return getattr(module, name)(**options)
    except (TypeError, ValueError) as error:
        raise UserError(f"{place}: {name}: {error}") from error
