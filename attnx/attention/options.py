"""What the heads of an attention share besides their parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from attnx.registry import PartSpec


@dataclass(frozen=True)
class AttentionOptions:
    """The options of each head; :func:`attnx.attention.factory.build_standard` says what they do."""

    projection: Literal["auto", "never"] = "auto"
    dropout: float = 0.0
    bias: PartSpec | None = None
    chunk_mib: int = 64
