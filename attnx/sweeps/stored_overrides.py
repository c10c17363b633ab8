"""Check the overrides in ``sweep.json`` before a sweep is resumed: a file that others wrote must run no code."""

from __future__ import annotations

import re
import shlex

from attnx.config.groups import GROUPS, PART_GROUPS, SCALARS
from attnx.config.hydra_internals import override_parser
from attnx.errors import UserError
from attnx.runs.layout import SWEEP_JSON
from attnx.runs.sweep import Sweep

# Options of Hydra's launchers and sweepers that are numbers or words. The others are commands, classes or variables.
LAUNCHER_OPTIONS = (
    "detach partition account qos constraint timeout_min nodes tasks_per_node "
    "cpus_per_task gpus_per_node mem_gb array_parallelism max_num_timeout signal_delay_s"
)
SAFE_KEYS = {f"hydra.launcher.{name}" for name in LAUNCHER_OPTIONS.split()}
SAFE_KEYS |= {f"hydra.sweeper.{name}" for name in ("n_trials", "seed")}
PARAMS_PREFIX = "hydra.sweeper.params."
SEARCH_PREFIXES = ("hydra.sweeper.sampler.", "hydra.sweeper.pruner.")
QUOTES = "'\""
NAME = re.compile(r"[\w-]+")
NAMES = re.compile(r"[\w\-,*()\[\]'\" ]*")  # no path
WORD = re.compile(r"[\w.,:/@%+'\"-]*")
INTERPOLATION = re.compile(r"\$\{[\w.]+\}")  # the value of another key


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
