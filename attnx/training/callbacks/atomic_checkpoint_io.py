"""Writes checkpoints that are whole or not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

from attnx.files.atomic_files import settle, whole_file


class WholeCheckpoints(TorchCheckpointIO):
    """Write beside the old file, wait for the disk, and only then take the old one's place.

    Lightning's own writes into the system's temporary folder and copies from there if that is another disk, so that a
    process which is killed can leave half a checkpoint.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        """Save."""
        path = Path(path)
        with whole_file(path) as partial:
            with partial.open("wb") as file:  # torch's own writing into a path does not say why it failed
                torch.save(checkpoint, file)
            settle(partial)
        settle(path.parent)
