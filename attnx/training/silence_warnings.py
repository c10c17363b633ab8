"""Silences Lightning's warnings about choices that attnx makes on purpose."""

from __future__ import annotations

import logging
import warnings


def silence_warnings() -> None:
    """Silence Lightning's warnings about choices that attnx makes on purpose."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    for message in (
        ".*does not have many workers.*",
        ".*your dataloader is not resumable.*",
        ".*sync_dist=True.*",  # values are summed over ranks before they are logged
        ".*Checkpoint directory .* exists and is not empty.*",
        ".*exists and is not empty.*",
        ".*The `srun` command is available.*",  # which a job needs only for several processes (docs/faults.md)
        ".*`isinstance\\(treespec, LeafSpec\\)` is deprecated.*",
    ):
        warnings.filterwarnings("ignore", message=message)
