"""Finds out, before anything runs, which jobs a sweep stands for and who chooses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from attnx.config.compose import normalize, refuse_unclear
from attnx.config.groups import conf_folder
from attnx.config.hydra_errors import in_our_words
from attnx.config.hydra_store import store_options
from attnx.errors import UserError
from attnx.registry.optional_deps import need

# The second is Hydra's own, in whose place attnx puts the first.
GRIDS = ("hydra_plugins.attnx.GridSweeper", "hydra._internal.core_plugins.basic_sweeper.BasicSweeper")
SEARCH = "hydra_plugins.attnx.OptunaSweeper"
# Packages that others' plug-ins of Hydra's stand on, and the extras of attnx that install both.
NEEDED = {"joblib": "joblib", "submitit": "slurm", "ray": "ray", "optuna": "optuna"}
SUBMITTED = "hydra_plugins.attnx.Submitted"


class SweepRequest(NamedTuple):
    """What a command line stands for.

    Attributes:
        jobs: the overrides of each job; of a search, those of one job that it could choose.
        search: whether a sweeper chooses the jobs as it goes.
        sweeper: the class of Hydra's sweeper.
        launcher: the class of Hydra's launcher.
        environment: variables that jobs get besides.
        cluster: what the launcher sends jobs to, of one that does: ``slurm`` or ``local``.
    """

    jobs: list[list[str]]
    search: bool
    sweeper: str
    launcher: str
    environment: Mapping[str, str] = {}
    cluster: str = ""


def what_is_asked(overrides: Sequence[str], config_dir: str | None = None) -> SweepRequest:
    """Read a command line as Hydra's sweepers will.

    Raises:
        UserError: it cannot be read, or stands for no job.
    """
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    store_options(config_dir)
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(conf_folder().resolve()), version_base="1.3"):
            found = _asked(overrides)
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(in_our_words(error, overrides)) from error
    if not found.jobs:
        raise UserError(f"{' '.join(overrides)}: stands for no job at all")
    return found


def _asked(overrides: Sequence[str]) -> SweepRequest:
    from hydra import compose
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.override_parser.overrides_parser import OverridesParser

    # What a glob stands for is found where configurations are.
    parser = OverridesParser.create(GlobalHydra.instance().config_loader())
    one = _one(parser.parse_overrides(list(overrides)))
    if one is None:
        return SweepRequest([], False, GRIDS[0], "")
    refuse_unclear(normalize(ours(one)))
    node = compose("config", one, return_hydra_config=True).hydra
    params = [f"{name}={value}" for name, value in (node.sweeper.get("params") or {}).items()]
    words = parser.parse_overrides([*params, *overrides])
    sweeper, launcher = str(node.sweeper._target_), str(node.launcher._target_)
    cluster = str(node.launcher.get("cluster", ""))
    environment = {str(name): str(value) for name, value in node.job.env_set.items()}
    if sweeper not in GRIDS:
        return SweepRequest([ours(_one(words) or [])], True, sweeper, launcher, environment, cluster)
    if endless := [word.input_line for word in words if word.is_sweep_override() and word.is_interval_sweep()]:
        raise UserError(f"{endless[0]}: a grid cannot try all of that; add hydra/sweeper=search, or name values")
    batches = BasicSweeper.split_arguments(words, None)
    jobs = [ours(job) for batch in batches for job in batch]
    return SweepRequest(jobs, False, sweeper, launcher, environment, cluster)


def _one(words: list[Any]) -> list[str] | None:
    """Of each override one value; None if one has none."""
    chosen: dict[str, str] = {}
    for word in words:
        key = word.get_key_element()  # with its plus
        if not word.is_sweep_override():
            chosen[key] = word.get_value_element_as_str()
        elif word.is_interval_sweep():
            chosen[key] = str(word.value().start)
        elif (value := next(word.sweep_string_iterator(), None)) is None:
            return None
        else:
            chosen[key] = value
    return [f"{key}={value}" for key, value in chosen.items()]


def ours(job: Sequence[str]) -> list[str]:
    """Without what is said to Hydra itself."""
    return [word for word in job if not word.lstrip("+~").startswith(("hydra.", "hydra/"))]


def refuse_without(asked: SweepRequest) -> None:
    """See that what chooses and starts the jobs is installed.

    Raises:
        UserError: it is not.
    """
    for module, extra in NEEDED.items():
        if any(f"hydra_{module}_" in target for target in (asked.sweeper, asked.launcher)):
            need(module, extra, f"a sweep that {module} runs")
    if asked.launcher == SUBMITTED:
        need("submitit", "slurm", "a sweep that SLURM runs")
    if asked.sweeper == SEARCH:
        need("optuna", "optuna", "a search")
        need("hydra_plugins.hydra_optuna_sweeper", "optuna", "a search")
