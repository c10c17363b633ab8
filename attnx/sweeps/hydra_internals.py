"""Hydra's private names that attnx uses: its grid sweeper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

BASIC_SWEEPER = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"


def basic_sweeper(**options: Any) -> Any:
    """Hydra's grid sweeper, which does not compose the jobs before it launches them: attnx has checked them."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    sweeper = BasicSweeper(**options)
    sweeper.validate_batch_is_legal = lambda batch: None  # type: ignore[method-assign]
    return sweeper


def split_jobs(overrides: list[Any]) -> list[Sequence[str]]:
    """The overrides of each job of a grid, from parsed overrides."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    return [job for batch in BasicSweeper.split_arguments(overrides, None) for job in batch]
