"""Saved alignments: reading them back from a run folder's array files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnx.errors import UserError
from attnx.files.bounded_arrays import read_arrays
from attnx.files.bounded_files import parse_json, read_text
from attnx.runs.layout import ALIGNMENTS

END = "</s>"
Weights = NDArray[np.float32]
SYMBOLS = ("source", "output", "reference", "sites", "encoder_sites", "decoder_sites")
NUMBERS = ("weights", "center", "heads", "encoder", "decoder")
SCALARS = {"own": int, "name": str, "steps": bool, "judged": bool, "score": float, "log_probability": float}


class Alignment(NamedTuple):
    """One saved alignment.

    Attributes:
        weights: (t, m); the mean of the heads', if there were several.
        source: (m,) what the columns are: source symbols, then what each of the decoder's own states wrote.
        output: (t,) what was written.
        reference: what should have been.
        allowed: (t, m) what the scope allowed, if saved.
        center: (t,) the column each step centered on, if saved.
        own: how many of the columns, the last ones, are the decoder's own states.
        name: what the source is called where its symbols are names of steps; "" where they are what was read.
        steps: whether output and reference are names of steps, too: rows of numbers were written.
        judged: whether an output other than the reference is wrong; not so of texts that were gone on with.
        heads: (h, t, m) what each head read, if there were several.
        sites: the place in the model that each of the heads belongs to, by name; none where attention has one place.
        score: what the search ranked it by, if saved.
        log_probability: the model's own, if saved.
        encoder: (h, r, r) what each head of the encoder read of the r source symbols itself, if saved.
        decoder: (h, t, t) what each head of the decoder read of what was written, itself, if saved.
        encoder_sites: as ``sites``, of ``encoder``.
        decoder_sites: as ``sites``, of ``decoder``.
    """

    weights: Weights
    source: tuple[str, ...]
    output: tuple[str, ...]
    reference: tuple[str, ...]
    allowed: NDArray[np.bool_] | None = None
    center: Weights | None = None
    own: int = 0
    name: str = ""
    steps: bool = False
    judged: bool = True
    heads: Weights | None = None
    sites: tuple[str, ...] = ()
    score: float | None = None
    log_probability: float | None = None
    encoder: Weights | None = None
    decoder: Weights | None = None
    encoder_sites: tuple[str, ...] = ()
    decoder_sites: tuple[str, ...] = ()

    @property
    def read(self) -> tuple[str, ...]:
        """The source symbols among the columns; none if only the decoder's own states were read."""
        return self.source[: len(self.source) - self.own]

    @property
    def wrong(self) -> bool:
        """Whether the output should be the reference and differs, ends aside; of rows of numbers their count."""
        return self.judged and without_end(self.output) != without_end(self.reference)

    @property
    def views(self) -> dict[str, Weights]:
        """What was read, by name: the mean of the heads first, then each; one without a name if there is one head."""
        if self.heads is None:
            return {"": self.weights}
        names = named_heads(self.sites, len(self.heads))
        return {"mean": self.weights, **dict(zip(names, self.heads, strict=True))}

    @property
    def of_itself(self) -> dict[str, Alignment]:
        """What each stream read of itself, by its name, as an alignment of the stream with itself."""
        found = {}
        if self.encoder is not None:
            read = self.read
            found["encoder"] = Alignment(
                self.encoder.mean(0), read, read, read, heads=self.encoder, sites=self.encoder_sites
            )
        if self.decoder is not None:
            output, own = self.output, len(self.output)
            found["decoder"] = Alignment(
                self.decoder.mean(0), output, output, output, own=own, heads=self.decoder, sites=self.decoder_sites
            )
        return found


def named_heads(sites: Sequence[str], heads: int) -> list[str]:
    """The name of each head: its place in the model, and its number there if there are several.

    >>> named_heads(["layer 1", "layer 1", "layer 2"], 3), named_heads([], 2)
    (['layer 1, head 1', 'layer 1, head 2', 'layer 2'], ['head 1', 'head 2'])
    """
    sites = sites if len(sites) == heads else ("",) * heads
    names = []
    for place, site in enumerate(sites):
        head = f"head {sites[: place + 1].count(site)}" if sites.count(site) > 1 or not site else ""
        names.append(", ".join(filter(None, (site, head))))
    return names


def without_end(symbols: Iterable[str]) -> tuple[str, ...]:
    """The symbols, end symbols left out."""
    return tuple(symbol for symbol in symbols if symbol != END)


def read_examples(folder: Path | str) -> list[dict[Path, Alignment]]:
    """Read every example of a run folder: the files of its hypotheses, best first, with what they hold.

    ``alignments/007.npz`` is the best of an example, ``007-2.npz`` the second, and so on.

    Raises:
        UserError: an array file cannot be read or its shapes disagree.
    """
    files = sorted((Path(folder) / ALIGNMENTS).glob("*.npz"), key=_place)
    examples: dict[str, list[Path]] = {}
    for file in files:
        examples.setdefault(file.stem.partition("-")[0], []).append(file)
    return [{file: read_alignment(file) for file in found} for found in examples.values()]


def _place(file: Path) -> tuple[str, int]:
    name, _, rank = file.stem.partition("-")
    return name, int(rank) if rank.isdecimal() else 1


def read_alignment(path: Path | str) -> Alignment:
    """Read weights (t, m), source (m,), output (t,), reference (r,), and what else there is of :class:`Alignment`.

    Raises:
        UserError: the array file cannot be read or its shapes disagree.
    """
    arrays = read_arrays(Path(path))
    found: dict[str, Any] = {name: arrays[name] for name in Alignment._fields if name in arrays}
    if missing := {"weights", "source", "output", "reference"} - found.keys():
        raise UserError(f"{path}: not an alignment, it lacks {', '.join(sorted(missing))}")
    _check_shapes(path, found)
    try:
        found |= {name: kind(found[name]) for name, kind in SCALARS.items() if name in found}
        found |= {name: found[name].astype(np.float32, copy=False) for name in NUMBERS if name in found}
    except (ValueError, TypeError) as error:
        raise UserError(f"{path}: not an alignment: {error}") from error
    if not 0 <= found.get("own", 0) <= found["source"].size:
        columns = found["source"].size
        raise UserError(f"{path}: {found['own']} of its {columns} columns cannot be the decoder's own states")
    found |= {name: tuple(map(str, found[name])) for name in SYMBOLS if name in found}
    if "allowed" in found:
        found["allowed"] = found["allowed"].astype(np.bool_)
    return Alignment(**found)


def read_lines(path: Path | str) -> list[Alignment]:
    """Read the best alignment of each line of a file that ``attnx predict --alignments`` wrote, JSON lines.

    Raises:
        UserError: a line is no alignment.
    """
    found = []
    for number, line in enumerate(read_text(Path(path)).rstrip("\n").split("\n"), start=1):
        try:
            held = parse_json(line, f"{path}:{number}")
            if held["rank"] == 1 and "weights" in held:  # a line that could not be read has none
                found.append(_from_line(held, f"{path}:{number}"))
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(f"{path}:{number}: not an alignment of attnx predict ({error})") from error
    return found


def _from_line(held: dict[str, Any], where: str) -> Alignment:
    arrays = {name: np.array(held[name], dtype=np.float32) for name in ("weights", "heads") if name in held}
    symbols = {name: np.array(held[name]) for name in ("source", "output")}
    _check_shapes(where, arrays | symbols)
    source, output = (tuple(map(str, held[name])) for name in ("source", "output"))
    names = tuple(map(str, held.get("names", ())))
    own = int(held["own"])
    return Alignment(arrays["weights"], source, output, output, own=own, heads=arrays.get("heads"), sites=names)


def _check_shapes(path: Path | str, found: dict[str, Any]) -> None:
    steps, symbols = found["output"].size, found["source"].size
    if not steps or not symbols:
        raise UserError(f"{path}: an empty alignment")
    expected: dict[str, tuple[int, ...]] = dict.fromkeys(SCALARS, ())
    expected |= {"weights": (steps, symbols), "allowed": (steps, symbols), "center": (steps,)}
    if "heads" in found:
        heads = len(np.atleast_1d(found["heads"]))
        expected |= {"heads": (heads, steps, symbols), "sites": (heads,)}
    for stream, size in (("encoder", symbols - int(np.sum(found.get("own", 0)))), ("decoder", steps)):
        if stream in found:
            heads = len(np.atleast_1d(found[stream]))
            expected |= {stream: (heads, size, size), f"{stream}_sites": (heads,)}
    for name, shape in expected.items():
        if name in found and found[name].shape != shape:
            raise UserError(f"{path}: {name} is {found[name].shape} where output and source make it {shape}")
