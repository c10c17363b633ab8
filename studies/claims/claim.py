"""A claim: what is trained and measured for it, and what was published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from studies.experiments import BASE
from studies.job import Job


@dataclass(frozen=True)
class Claim:
    """One entry of claims.yaml, whose comment explains the fields."""

    name: str
    says: str
    measure: str
    base: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    seeds: Sequence[int] = (1,)
    runs: str = ""
    take: Literal["mean", "best"] = "mean"
    evaluate: Sequence[str] = ()
    ensemble: bool = False
    published: str = ""
    aim: float | None = None

    @property
    def jobs(self) -> list[Job]:
        """The runs that are trained for it; none if another claim's are used."""
        return [] if self.runs else [Job(self.name, (), seed) for seed in self.seeds]

    @property
    def experiment(self) -> dict[str, Any]:
        """The configuration of its runs."""
        return {BASE: self.base, **self.config}


def read_claims(path: Path) -> dict[str, Claim]:
    """The claims by name."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name: Claim(name=name, **entry) for name, entry in content.items()}
