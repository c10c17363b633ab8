"""One saved alignment: reading it back from its array file."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnx.errors import UserError

END = "</s>"


class Alignment(NamedTuple):
    """One saved alignment.

    Attributes:
        weights: (t, m); the mean of the heads', if there were several.
        source: (m,) what the columns are: source symbols, then what each of the decoder's own states wrote.
        output: (t,) what was written.
        reference: what should have been.
        allowed: (t, m) what the scope allowed, if saved.
        centre: (t,) the column each step centred on, if saved.
        own: how many of the columns, the last ones, are the decoder's own states.
        name: what the source is called where its symbols are names of steps; "" where they are what was read.
        steps: whether output and reference are names of steps, too: rows of numbers were written.
    """

    weights: NDArray[np.float32]
    source: tuple[str, ...]
    output: tuple[str, ...]
    reference: tuple[str, ...]
    allowed: NDArray[np.bool_] | None = None
    centre: NDArray[np.float32] | None = None
    own: int = 0
    name: str = ""
    steps: bool = False

    @property
    def read(self) -> tuple[str, ...]:
        """The source symbols among the columns; none if only the decoder's own states were read."""
        return self.source[: len(self.source) - self.own]

    @property
    def wrong(self) -> bool:
        """Whether the output differs from the reference, end symbols aside; of rows of numbers their count."""
        return without_end(self.output) != without_end(self.reference)


def without_end(symbols: Iterable[str]) -> tuple[str, ...]:
    """The symbols, end symbols left out."""
    return tuple(symbol for symbol in symbols if symbol != END)


def read_alignment(path: Path | str) -> Alignment:
    """Read weights (t, m), source (m,), output (t,), reference (r,), and what else there is of :class:`Alignment`.

    Raises:
        UserError: the array file cannot be read or its shapes disagree.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            found: dict[str, Any] = {name: arrays[name] for name in Alignment._fields if name in arrays}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: not a readable alignment: {error}") from error
    if missing := {"weights", "source", "output", "reference"} - found.keys():
        raise UserError(f"{path}: not an alignment, it lacks {', '.join(sorted(missing))}")
    steps, symbols = found["output"].size, found["source"].size
    expected = {"weights": (steps, symbols), "allowed": (steps, symbols), "centre": (steps,)}
    expected |= {"own": (), "name": (), "steps": ()}
    for name, shape in expected.items():
        if name in found and found[name].shape != shape:
            raise UserError(f"{path}: {name} is {found[name].shape} where output and source make it {shape}")
    if not steps or not symbols:
        raise UserError(f"{path}: an empty alignment")
    found |= {"own": int(found.get("own", 0)), "name": str(found.get("name", "")), "steps": bool(found.get("steps"))}
    if not 0 <= found["own"] <= symbols:
        raise UserError(f"{path}: {found['own']} of its {symbols} columns cannot be the decoder's own states")
    for name in ("source", "output", "reference"):
        found[name] = tuple(map(str, found[name]))
    if "allowed" in found:
        found["allowed"] = found["allowed"].astype(np.bool_)
    return Alignment(**found)
