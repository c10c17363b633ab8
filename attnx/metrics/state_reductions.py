"""Access to the reductions of a metric's states, which torchmetrics keeps in a private attribute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchmetrics import Metric


def state_reductions(metric: Metric) -> dict[str, str | Callable[..., Any] | None]:
    """The function that reduces each state of a metric over processes, by the state's name."""
    return dict(metric._reductions)
