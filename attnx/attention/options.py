"""What the heads of an attention share besides their parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

from attnx.registry import PartSpec


@dataclass(frozen=True)
class AttentionOptions:
    """The options of each head; :func:`attnx.attention.factory.build_standard` says what they do."""

    projection: Literal["auto", "never"] = "auto"
    dropout: float = 0.0
    bias: PartSpec | None = None
    chunk_mib: int = 64
    softcap: float | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Those of an ``attention`` node, which has others, too."""
        return cls(**{field.name: options[field.name] for field in fields(cls)})
