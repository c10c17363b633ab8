"""A run of a study: a setting of a task with a seed."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

Setting = tuple[str, ...]
"""Overrides: ``("scorer=dot", "scope=local", "scope.window=2")``."""


class Job(NamedTuple):
    """A run of the study."""

    task: str
    setting: Setting
    seed: int

    @property
    def experiment(self) -> str:
        """The name of the setting's experiment file, which follows from the setting alone."""
        return f"{self.task}_{hashlib.sha256(' '.join(self.setting).encode()).hexdigest()[:8]}"
