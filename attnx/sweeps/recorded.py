"""What of a sweep's record is taken when it is gone on with: the folder may be anybody's, and must not run code."""

from __future__ import annotations

import re
import shlex
from typing import Any

from attnx.config.groups import CHOSEN, GROUPS, SCALARS
from attnx.errors import UserError
from attnx.runs.layout import SWEEP
from attnx.runs.sweep import Sweep

# Knobs of Hydra's launchers and sweepers that hold a number or a word. The others hold commands, classes or variables.
LAUNCHER = (
    *("fork", "n_jobs", "partition", "account", "qos", "constraint", "timeout_min", "nodes", "tasks_per_node"),
    *("cpus_per_task", "gpus_per_node", "mem_gb", "array_parallelism", "max_num_timeout", "signal_delay_s"),
)
SWEEPER = ("n_trials", "seed", "max_batch_size")
KNOBS = {f"hydra.{kind}.{knob}" for kind, knobs in (("launcher", LAUNCHER), ("sweeper", SWEEPER)) for knob in knobs}
PARAMS = "hydra.sweeper.params."
QUOTES = "'\""
NAME = re.compile(r"[\w-]+")
NAMES = re.compile(r"[\w\-,*()\[\]'\" ]*")  # of options, but never a path to a file elsewhere
WORD = re.compile(r"[\w.,:/@%+'\"-]*")
KEY = re.compile(r"\$\{[\w.]+\}")  # stands for the value of another key


def refuse_foreign(sweep: Sweep) -> None:
    """Refuse what could run code: all but parts, knobs, a name, and launchers and sweepers by name.

    Raises:
        UserError: the record holds such an entry.
    """
    for override in [*sweep.overrides, *(word for job in sweep.jobs for word in job.overrides)]:
        if not is_harmless(override):
            raise UserError(
                f"{sweep.path / SWEEP}: holds {override!r}, which is not taken from a file since it could run code; "
                f"if the sweep is yours, repeat the whole command: attnx -m ... name={shlex.quote(sweep.name)}"
            )


def is_harmless(override: str) -> bool:
    """Whether an override can do no more than choose parts and set their knobs.

    >>> is_harmless("scorer=dot,mlp"), is_harmless("hydra/launcher=slurm"), is_harmless("hydra.launcher.partition=gpu")
    (True, True, True)
    >>> is_harmless("+hydra.job.env_set.PYTHONPATH=evil"), is_harmless("experiment=../evil")
    (False, False)
    """
    parsed = _parsed(override)
    if parsed is None:
        return False
    key, value = parsed.key_or_group, override.partition("=")[2]
    head = re.split(r"[./]", key)[0]
    if "_target_" in override or "${" in KEY.sub("", value):  # others call functions of OmegaConf's
        return False
    if parsed.package is not None and parsed.package.split(".")[0] not in CHOSEN:
        return False
    if head != "hydra":
        return bool(NAMES.fullmatch(value)) if key in GROUPS else head in (*CHOSEN, *SCALARS, "placement")
    if key.startswith(PARAMS):
        return is_harmless(f"{key.removeprefix(PARAMS)}={value.strip(QUOTES)}")
    pattern = NAME if key in ("hydra/launcher", "hydra/sweeper") else WORD if key in KNOBS else None
    return pattern is not None and bool(pattern.fullmatch(value))


def _parsed(override: str) -> Any:
    """As Hydra reads it, or nothing."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(override)
    except HydraException:
        return None
