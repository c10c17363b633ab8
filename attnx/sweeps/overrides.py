"""The overrides of a sweep: expanded into jobs, or a search's space, and checked where they are read from a file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from attnx.config.compose import canonicalize_overrides, reject_ambiguous
from attnx.config.groups import GROUPS, HYDRA_OPTIONS, PART_GROUPS, SCALARS, check_typed
from attnx.config.hydra_internals import BASIC_SWEEPER, is_glob, override_parser, split_jobs
from attnx.errors import UserError, suggest
from attnx.runs.layout import SWEEP_JSON
from attnx.runs.sweep import Sweep

# What attnx has of the two groups of Hydra's that a sweep chooses from.
CHOICES = {"launcher": "processes and slurm", "sweeper": "grid and search"}

# Options of Hydra's launchers and sweepers that are numbers or words. The others are commands, classes or variables.
SAFE_KEYS = {
    f"hydra.{kind}.{name}"
    for kind, options in HYDRA_OPTIONS.items()
    for name, value_type in options.items()
    if value_type is not None
}
PARAMS_PREFIX = "hydra.sweeper.params."
SEARCH_PREFIXES = ("hydra.sweeper.sampler.", "hydra.sweeper.pruner.")
QUOTES = "'\""
NAME = re.compile(r"[\w-]+")
NAMES = re.compile(r"[\w\-,*()\[\]'\" ]*")  # no path
WORD = re.compile(r"[\w.,:/@%+'\"-]*")
INTERPOLATION = re.compile(r"\$\{[\w.]+\}")  # the value of another key


class SweepRequest(NamedTuple):
    """A sweep as the command line asks for it."""

    jobs: list[list[str]]  #: the overrides of each job; for a search, of one job that it could choose
    launcher: Mapping[str, Any] = {}  #: the launcher's options, of ``cluster=slurm`` as submitit calls them
    search: Mapping[str, Any] = {}  #: the options of a search; empty for a grid
    space: Sequence[str] = ()  #: the overrides that say what is searched, and the others
    environment: Mapping[str, str] = {}  #: further environment variables of the jobs

    @property
    def is_search(self) -> bool:
        """Whether the jobs are chosen as the sweep goes."""
        return bool(self.search)

    @property
    def is_on_slurm(self) -> bool:
        """Whether SLURM runs the jobs, and not processes of this machine."""
        return self.launcher.get("cluster") == "slurm"

    @property
    def is_detached(self) -> bool:
        """Whether the command ends when the jobs are submitted."""
        return bool(self.launcher.get("detach"))


def expand_sweep(overrides: Sequence[str], config_dir: str | None = None) -> SweepRequest:
    """Expand a command line into the jobs that it asks for.

    Raises:
        UserError: it cannot be parsed, or has no job.
    """
    from attnx.config.hydra_session import compose_by_hydra, hydra_session  # `attnx runs` needs no Hydra

    with hydra_session(overrides, config_dir):
        parser = override_parser(has_globs=True)
        first_job = _first_values(parser.parse_overrides(list(overrides)))
        if first_job is None:
            raise UserError(f"{' '.join(overrides)}: has no jobs; give each key at least one value")
        reject_ambiguous(canonicalize_overrides(without_hydra_overrides(first_job)))
        node = compose_by_hydra(first_job, return_hydra_config=True).hydra
        launcher, sweeper = _options(node, "launcher"), _options(node, "sweeper")
        overrides = [*(f"{name}={value}" for name, value in (sweeper.get("params") or {}).items()), *overrides]
        parsed = parser.parse_overrides(overrides)
        request = SweepRequest(
            jobs=[],
            launcher=launcher,
            search=sweeper if "n_trials" in sweeper else {},
            space=without_hydra_overrides(overrides),
            environment={str(name): str(value) for name, value in node.job.env_set.items()},
        )
        if request.is_search:
            _check_search(parsed, request)
            return request._replace(jobs=[without_hydra_overrides(_first_values(parsed) or [])])
        if intervals := [item.input_line for item in parsed if item.is_sweep_override() and item.is_interval_sweep()]:
            raise UserError(f"{intervals[0]}: a grid cannot try an interval; add hydra/sweeper=search, or list values")
        return request._replace(jobs=[without_hydra_overrides(job) for job in split_jobs(parsed)])


def hydra_config(overrides: Sequence[str], config_dir: str | None = None) -> dict[str, Any]:
    """Hydra's own configuration, as it is before the references in it are resolved.

    Raises:
        UserError: the overrides cannot be composed.
    """
    from omegaconf import OmegaConf

    from attnx.config.hydra_session import compose_by_hydra, hydra_session

    with hydra_session(overrides, config_dir):
        config = compose_by_hydra(canonicalize_overrides(overrides), return_hydra_config=True)
        return {"hydra": OmegaConf.to_container(config.hydra)}


def _options(node: Any, kind: str) -> dict[str, Any]:
    """The options of the launcher or the sweeper; attnx's have no class, and Hydra's basic sweeper is its grid."""
    from omegaconf import OmegaConf

    options: dict[str, Any] = OmegaConf.to_container(node[kind], resolve=True)  # type: ignore[assignment]
    if options.pop("_target_", BASIC_SWEEPER) != BASIC_SWEEPER:
        name = node.runtime.choices[f"hydra/{kind}"]
        raise UserError(f"hydra/{kind}={name}: attnx has {CHOICES[kind]}; use one of them")
    for option, value in options.items():
        if option not in HYDRA_OPTIONS[kind]:  # in a file of the user's; submitit checks those of SLURM, and has more
            if value is not None and options.get("cluster") != "slurm":
                raise UserError(f"hydra/{kind} has no option {option!r}{suggest(option, HYDRA_OPTIONS[kind])}")
        elif accepted := HYDRA_OPTIONS[kind][option]:
            check_typed(f"hydra.{kind}.{option}", accepted, value)
    return options


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


def _check_search(parsed: list[Any], request: SweepRequest) -> None:
    """Check that a search waits and has something to choose, and the intervals that it draws from."""
    if globs := [item.input_line for item in parsed if is_glob(item)]:
        raise UserError(f"{globs[0]}: a search cannot expand a pattern; list names, as in choice(dot,scaled)")
    if request.is_detached:
        detach = "hydra.launcher.detach=true"
        raise UserError(f"{detach}: a search chooses its next job by results, so it waits; leave it out")
    if not any(override.is_sweep_override() for override in parsed):
        raise UserError("hydra/sweeper=search: nothing to search; give values: optimizer.lr=interval(0.001,0.01)")
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


def reject_unsafe_overrides(sweep: Sweep) -> None:
    """Refuse overrides that could run code: all but parts, parameters, a name, launchers and sweepers by name."""
    for override in [*sweep.overrides, *(word for job in sweep.jobs for word in job.overrides)]:
        if not is_safe(override):
            raise UserError(
                f"{sweep.path / SWEEP_JSON}: holds {override!r}, which could run code and is not read from a file; "
                f"if the sweep is yours, repeat the whole command: attnx -m ... name={shlex.quote(sweep.name)}"
            )


def is_safe(override: str) -> bool:
    """Whether an override can only choose parts and set their parameters.

    >>> is_safe("scorer=dot,mlp"), is_safe("hydra/launcher=slurm"), is_safe("hydra.launcher.partition=gpu")
    (True, True, True)
    >>> is_safe("+hydra.job.env_set.PYTHONPATH=evil"), is_safe("experiment=../evil")
    (False, False)
    """
    from hydra.errors import HydraException

    try:
        parsed = override_parser().parse_override(override)
    except HydraException:
        return False
    key, value = parsed.key_or_group, override.partition("=")[2]
    head = re.split(r"[./]", key)[0]
    if "_target_" in override or "${" in INTERPOLATION.sub("", value):  # a resolver is a function call
        return False
    if parsed.package is not None and parsed.package.split(".")[0] not in PART_GROUPS:
        return False
    if head != "hydra":
        return bool(NAMES.fullmatch(value)) if key in GROUPS else head in (*PART_GROUPS, *SCALARS, "placement")
    if key.startswith(PARAMS_PREFIX):
        return is_safe(f"{key.removeprefix(PARAMS_PREFIX)}={value.strip(QUOTES)}")
    is_word = key in SAFE_KEYS or key.startswith(SEARCH_PREFIXES)
    pattern = NAME if key in ("hydra/launcher", "hydra/sweeper") else WORD if is_word else None
    return pattern is not None and bool(pattern.fullmatch(value))
