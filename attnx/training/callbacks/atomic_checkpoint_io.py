"""Write checkpoints atomically."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

from attnx.files.atomic_files import atomic_write, fsync


class AtomicCheckpointIO(TorchCheckpointIO):
    """Lightning's checkpoint plug-in with atomic writes: a partial file, fsync, then a rename.

    Lightning's own plug-in writes into the system's temporary folder and copies from there if that is another disk, so
    a process that is killed can leave half a checkpoint.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        """Write a checkpoint."""
        path = Path(path)
        with atomic_write(path) as partial:
            with partial.open("wb") as file:  # given a path, torch does not report why a write failed
                torch.save(checkpoint, file)
            fsync(partial)
        fsync(path.parent)
