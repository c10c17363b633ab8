"""A run of a study, a setting of a task with a seed; and the experiment files of settings.

By these one ``attnx -m experiment=A,B,C`` trains settings that form no grid.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from attnx.config.groups import GROUPS
from attnx.runs.sweep import split_override

Setting = tuple[str, ...]
"""Overrides: ``("scorer=dot", "scope=local", "scope.window=2")``."""
HEAD = "# @package _global_\n# attnx {}\n"
BASE, PARTS = "base", "defaults"


class Job(NamedTuple):
    """A run of the study."""

    task: str  # its name in the design
    setting: Setting  # its overrides
    seed: int  # its seed
    recipe: str = ""  # a digest of the task's configuration
    steps: int | None = None  # how many it is trained for; None if the configuration does not say

    @property
    def experiment(self) -> str:
        """The name of its experiment file: of another setting, or another configuration of the task, it is another."""
        text = " ".join([*self.setting, self.recipe])
        return f"{self.task}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def plan_job(task: str, config: Mapping[str, Any], setting: Setting, seed: int) -> Job:
    """A run of a task with a configuration, whose digest is the ``recipe``."""
    recipe = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:8]
    return Job(task, setting, seed, recipe, config.get("trainer", {}).get("max_steps"))


def write_experiments(folder: Path, jobs: Iterable[Job], configs: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the experiment file of each job's setting into ``folder/experiment``; ``configs`` are by task."""
    (folder / "experiment").mkdir(parents=True, exist_ok=True)
    for job in jobs:
        content = experiment(configs[job.task], job.setting)
        text = HEAD.format(" ".join(job.setting)) + yaml.safe_dump(content, sort_keys=False)
        (folder / "experiment" / f"{job.experiment}.yaml").write_text(text, encoding="utf-8")


def experiment(config: Mapping[str, Any], setting: Setting) -> dict[str, Any]:
    """A task's configuration with a setting's parts in its list of defaults, and the setting's options.

    ``base`` is the experiment that it extends, ``defaults`` are its parts by kind.
    """
    content = {key: value for key, value in config.items() if key not in (BASE, PARTS)}
    parts = dict(config.get(PARTS, {}))
    for key, value in map(split_override, setting):
        if key in GROUPS:
            parts[key] = yaml.safe_load(value)
        else:
            group, _, option = key.partition(".")
            content[group] = {**content.get(group, {}), option: yaml.safe_load(value)}
    base = [config[BASE]] if BASE in config else []
    return {"defaults": [*base, *({f"override /{kind}": part} for kind, part in parts.items())], **content}
