"""The logger ``csv``."""

from __future__ import annotations

from attnx.registry import register


@register("logger", "csv")
def csv() -> None:
    """Files alone: metrics.csv and the other files of the run folder, which every run writes whatever else it logs to.

    Formula: ``what the run folder holds, and nothing besides``
    Source: attnx, docs/logging.md
    """
