"""What identifies test examples whose outputs are numbers, such as forecasts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from attnx.files.bounded_files import read_arrays
from attnx.runs.layout import MATRICES

Row = Mapping[str, str]


def numeric_identities(folder: Path, rows: Sequence[Row]) -> list[tuple[str, str]]:
    """The name of each example, or its source where it has none, and a digest of its true numbers.

    Sources may differ between runs of one test: a longer lookback says more of the same steps.

    Raises:
        UserError: the arrays are malformed.
        KeyError: a row has no ``reference``.
    """
    arrays = read_arrays(folder / MATRICES, [row["reference"] for row in rows])
    identities = []
    for row in rows:
        reference = arrays[row["reference"]]
        # In single precision, as older folders have them.
        numbers = reference.astype(np.float32) if reference.dtype == np.float64 else reference
        digest = hashlib.sha256(repr(reference.shape).encode() + numbers.tobytes()).hexdigest()
        identities.append((row.get("name") or row["source"], digest))
    return identities
