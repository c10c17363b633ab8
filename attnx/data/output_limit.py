"""How long an output may become, from the lengths of the training data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from attnx.data.permutation import Integers
from attnx.errors import UserError
from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import read_mapping

QUANTILE = 0.999
MARGIN = 1.5
MIN_EXTRA = 5
MAX_ROWS = 100_000


@dataclass(frozen=True)
class OutputLimit:
    """The most steps of an output, its end counted: ``ratio`` times the steps of its source, plus ``extra``."""

    ratio: float = 2.0
    extra: int = MIN_EXTRA

    @classmethod
    def from_lengths(cls, lengths: Integers) -> OutputLimit:
        """The limit that leaves room for nearly all targets, and half as much again.

        The slope of a least-squares line says how targets grow with their sources, from not at all to many steps for
        one; what 99.9 % of the targets have beyond it is added. Both get a margin of one half, and the sum five steps.

        Args:
            lengths: (rows, 2), of sources and of targets, their end counted.
        """
        sources, targets = lengths[:: -(-len(lengths) // MAX_ROWS)].astype(np.float64).T
        centered = sources - sources.mean()
        if centered.any():
            slope = max(0.0, float(centered @ targets / (centered @ centered)))
        else:  # sources of one length do not tell: longer ones may have longer targets
            slope = float(targets.mean() / max(1.0, sources.mean()))
        beyond = max(0.0, float(np.quantile(targets - slope * sources, QUANTILE)))
        return cls(round(MARGIN * slope, 3), int(np.ceil(MARGIN * beyond)) + MIN_EXTRA)

    def save(self, path: Path) -> None:
        """Write the limit as JSON."""
        write_json(path, asdict(self))

    @classmethod
    def load(cls, path: Path) -> OutputLimit:
        """Read a limit; the default one without the file.

        Raises:
            UserError: the file holds something else.
        """
        saved = read_mapping(path) or asdict(cls())
        match saved:
            case {"ratio": int() | float() as ratio, "extra": int() as extra} if 0 <= ratio < np.inf and extra >= 0:
                return cls(float(ratio), extra)
        raise UserError(f"{path}: not the limit of a run's outputs, a ratio and a number of steps")
