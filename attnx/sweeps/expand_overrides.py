"""Expand a sweep's command line into jobs, or a search's space, before anything runs; find its launcher and sweeper."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from attnx.config.compose import canonicalize_overrides, reject_ambiguous
from attnx.config.hydra_internals import BASIC_SWEEPER, is_glob, override_parser, split_jobs
from attnx.errors import UserError, suggest
from attnx.registry.dependencies import require_package

# Hydra takes plug-ins from the package hydra_plugins only; see attnx.sweeps.sweepers.
PLUGIN_MODULE = "hydra_plugins.attnx"
GRID_SWEEPERS = (f"{PLUGIN_MODULE}.GridSweeper", BASIC_SWEEPER)
SEARCH_SWEEPER = f"{PLUGIN_MODULE}.OptunaSweeper"
PROCESS_LAUNCHER = f"{PLUGIN_MODULE}.ProcessLauncher"
SLURM_LAUNCHER = f"{PLUGIN_MODULE}.SlurmLauncher"


class SweepRequest(NamedTuple):
    """A sweep as the command line asks for it."""

    jobs: list[list[str]]  #: the overrides of each job; for a search, of one job that it could choose
    is_search: bool  #: whether the sweeper chooses the jobs as it goes
    sweeper: str  #: class of Hydra's sweeper
    is_on_slurm: bool = False  #: whether SLURM runs the jobs, and not processes of this machine
    environment: Mapping[str, str] = {}  #: further environment variables of the jobs
    is_detached: bool = False  #: whether the command ends when the launcher has submitted the jobs
    search_parts: Mapping[str, Mapping[str, Any]] = {}  #: the sampler and the pruner of a search, with their options


def expand_sweep(overrides: Sequence[str], config_dir: str | None = None) -> SweepRequest:
    """Expand a command line as Hydra's sweepers will.

    Raises:
        UserError: it cannot be parsed, or has no job.
    """
    from attnx.config.hydra_session import hydra_session  # imports Hydra, which `attnx runs` does without

    with hydra_session(overrides, config_dir):
        request = _expand(overrides)
    if not request.jobs:
        raise UserError(f"{' '.join(overrides)}: has no jobs; give each key at least one value")
    return request


def _expand(overrides: Sequence[str]) -> SweepRequest:
    from hydra import compose

    parser = override_parser(has_globs=True)
    first_job = _first_values(parser.parse_overrides(list(overrides)))
    if first_job is None:
        return SweepRequest([], False, GRID_SWEEPERS[0])
    reject_ambiguous(canonicalize_overrides(without_hydra_overrides(first_job)))
    node = compose("config", first_job, return_hydra_config=True).hydra
    if (launcher := str(node.launcher._target_)) not in (PROCESS_LAUNCHER, SLURM_LAUNCHER):
        raise UserError(f"{launcher}: attnx has two launchers, hydra/launcher=processes and slurm; use one of them")
    params = [f"{name}={value}" for name, value in (node.sweeper.get("params") or {}).items()]
    parsed = parser.parse_overrides([*params, *overrides])
    request = SweepRequest(
        jobs=[],
        is_search=str(node.sweeper._target_) not in GRID_SWEEPERS,
        sweeper=str(node.sweeper._target_),
        is_on_slurm=launcher == SLURM_LAUNCHER,
        environment={str(name): str(value) for name, value in node.job.env_set.items()},
        is_detached=bool(node.launcher.get("detach", False)),
    )
    globs = [item.input_line for item in parsed if is_glob(item)]
    if request.is_search and globs:
        raise UserError(f"{globs[0]}: a search cannot expand a pattern; list names, as in choice(dot,scaled)")
    if request.is_search and request.is_detached:
        raise UserError(
            "hydra.launcher.detach=true: a search chooses its next job by results, so it waits; leave it out"
        )
    if request.is_search:
        check_intervals(parsed)
        parts = {kind: dict(node.sweeper[kind]) for kind in ("sampler", "pruner") if node.sweeper.get(kind)}
        return request._replace(jobs=[without_hydra_overrides(_first_values(parsed) or [])], search_parts=parts)
    if intervals := [item.input_line for item in parsed if item.is_sweep_override() and item.is_interval_sweep()]:
        raise UserError(f"{intervals[0]}: a grid cannot try an interval; add hydra/sweeper=search, or list values")
    return request._replace(jobs=[without_hydra_overrides(job) for job in split_jobs(parsed)])


def _first_values(parsed: list[Any]) -> list[str] | None:
    """Overrides with the first of their values; None if one has none."""
    values: dict[str, str] = {}
    deleted: list[str] = []
    for override in parsed:
        key = override.get_key_element()  # with its plus
        if override.is_delete():
            deleted.append(override.input_line)
        elif not override.is_sweep_override():
            values[key] = override.get_value_element_as_str()
        elif override.is_interval_sweep():
            values[key] = str(override.value().start)
        elif (value := next(override.sweep_string_iterator(), None)) is None:
            return None
        else:
            values[key] = value
    return [*(f"{key}={value}" for key, value in values.items()), *deleted]


def without_hydra_overrides(overrides: Sequence[str]) -> list[str]:
    """Overrides except Hydra's own."""
    return [override for override in overrides if not override.lstrip("+~").startswith(("hydra.", "hydra/"))]


def check_dependencies(request: SweepRequest) -> None:
    """Check that the packages of the sweeper and the launcher are installed, and have what is asked of them."""
    if request.is_on_slurm:
        require_package("submitit", "slurm", "a sweep that SLURM runs")
    if request.sweeper == SEARCH_SWEEPER:
        require_package("optuna", "optuna", "a search")
        for kind, part in request.search_parts.items():
            build_optuna_part(kind, part)


def read_search_space(overrides: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The distributions of Optuna that overrides name, by key, and the overrides that fix a value.

    >>> read_search_space(["optimizer.lr=tag(log,interval(0.001,0.1))", "model.layers=range(1,7,2)", "seed=1"])[0]
    {'optimizer.lr': FloatDistribution(high=0.1, log=True, low=0.001, step=None), \
'model.layers': IntDistribution(high=5, log=False, low=1, step=2)}
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    space: dict[str, Any] = {}
    fixed: list[str] = []
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
            kind = IntDistribution if all(isinstance(value, int) for value in values) else FloatDistribution
            space[key] = kind(min(values), max(values), step=abs(values[1] - values[0]))
        else:
            space[key] = CategoricalDistribution([*override.sweep_string_iterator()])
    return space, fixed


def check_intervals(parsed: list[Any]) -> None:
    """Check the intervals that a search draws from."""
    for override in parsed:
        if not (override.is_sweep_override() and override.is_interval_sweep()):
            continue
        interval, place = override.value(), override.input_line
        if unknown := interval.tags - {"log"}:
            raise UserError(f"{place}: unknown tag {min(unknown)!r}; a search knows tag(log, interval(...))")
        if not interval.start < interval.end:
            raise UserError(f"{place}: expected interval(low, high) with low below high")
        if "log" in interval.tags and interval.start <= 0:
            raise UserError(f"{place}: a logarithmic scale begins above 0")


def build_optuna_part(kind: str, part: Mapping[str, Any]) -> Any:
    """Build a ``sampler`` or ``pruner`` of Optuna from its name and options.

    Raises:
        UserError: Optuna has no such class, or it has no such option or value.
    """
    import optuna

    module, place = {"sampler": optuna.samplers, "pruner": optuna.pruners}[kind], f"hydra.sweeper.{kind}"
    names = [name for name in module.__all__ if name.lower().endswith(kind) and not name.startswith("Base")]
    name, options = str(part.get("name")), {key: value for key, value in part.items() if key != "name"}
    if name not in names:
        raise UserError(f"{place}.name={name}: Optuna has no such {kind}{suggest(name, names)}")
    parameters = inspect.signature(getattr(module, name)).parameters
    if unknown := [option for option in options if option not in parameters]:
        remedy = f"leave it out: ~{place}.{unknown[0]}"
        raise UserError(f"{place}.{unknown[0]}: {name} has no such option{suggest(unknown[0], parameters)}; {remedy}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return getattr(module, name)(**options)
    except (TypeError, ValueError) as error:
        raise UserError(f"{place}: {name}: {error}") from error
