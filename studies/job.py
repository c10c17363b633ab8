"""A run of a study: a setting of a task with a seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

Setting = tuple[str, ...]
"""Overrides: ``("scorer=dot", "scope=local", "scope.window=2")``."""


class Job(NamedTuple):
    """A run of the study.

    Attributes:
        task: its name in the design.
        setting: its overrides.
        seed: its seed.
        recipe: a digest of the task's configuration.
        steps: how many it is trained for; None if the configuration does not say.
    """

    task: str
    setting: Setting
    seed: int
    recipe: str = ""
    steps: int | None = None

    @property
    def experiment(self) -> str:
        """The name of its experiment file: of another setting, or another configuration of the task, it is another."""
        text = " ".join([*self.setting, self.recipe])
        return f"{self.task}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def plan_job(task: str, config: Mapping[str, Any], setting: Setting, seed: int) -> Job:
    """A run of a task with a configuration, whose digest is the ``recipe``."""
    recipe = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:8]
    return Job(task, setting, seed, recipe, config.get("trainer", {}).get("max_steps"))
