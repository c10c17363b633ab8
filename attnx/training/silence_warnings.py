"""Silences what Lightning says about choices that attnx makes on purpose."""

from __future__ import annotations

import logging
import warnings


def quieten() -> None:
    """Silence what Lightning says about choices that attnx makes on purpose."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    for message in (
        ".*does not have many workers.*",
        ".*your dataloader is not resumable.*",
        ".*sync_dist=True.*",  # what is logged is of all processes already
        ".*Checkpoint directory .* exists and is not empty.*",
        ".*exists and is not empty.*",
        ".*The `srun` command is available.*",  # which a job needs only for several processes (docs/faults.md)
        ".*`isinstance\\(treespec, LeafSpec\\)` is deprecated.*",
    ):
        warnings.filterwarnings("ignore", message=message)
