"""Reads saved alignments: the attention weights of predictions with their symbols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnx.errors import UserError
from attnx.files.bounded_files import read_arrays
from attnx.files.printable import quoted
from attnx.runs.layout import ALIGNMENTS

END = "</s>"
MAX_REPR_LENGTH = 30  # characters of a source or an output
Weights = NDArray[np.float32]
Link = tuple[int, int]
"""A source position and an output step."""
SYMBOLS = ("source", "output", "reference", "sites", "encoder_sites", "decoder_sites", "unaligned_source")
NUMBERS = ("weights", "heads", "encoder", "decoder", "features")
SCALARS = {
    "num_decoder_states": int,
    "name": str,
    "tag": str,
    "is_numeric": bool,
    "is_right": bool,
    "score": float,
    "log_probability": float,
}


class Alignment(NamedTuple):
    """The attention weights of one prediction."""

    weights: Weights  #: (t, m); the mean over heads, if there are several
    source: tuple[str, ...]  #: (m,) the columns: source symbols, then the output symbol of each decoder state
    output: tuple[str, ...]  #: (t,) the predicted symbols
    reference: tuple[str, ...]  #: the right ones
    num_decoder_states: int = 0  #: how many of the columns, the last ones, are decoder states
    name: str = ""  #: of a source whose symbols are names of steps; "" for symbols
    is_numeric: bool = False  #: whether output and reference are names of steps, too, since outputs are rows of numbers
    #: whether the output is a right one; None if the task does not say, as of continuations of texts
    is_right: bool | None = None
    heads: Weights | None = None  #: (h, t, m) the weights of each head, if there are several
    sites: tuple[str, ...] = ()  #: the attention of the model that each head belongs to; empty if there is only one
    score: float | None = None  #: of the search, if saved
    log_probability: float | None = None  #: of the model, if saved
    encoder: Weights | None = None  #: (h, r, r) encoder self-attention over the r source symbols, if saved
    decoder: Weights | None = None  #: (h, t, t) decoder self-attention over the output, if saved
    encoder_sites: tuple[str, ...] = ()  #: the ``sites`` of ``encoder``
    decoder_sites: tuple[str, ...] = ()  #: the ``sites`` of ``decoder``
    tag: str = ""  #: of the example, such as its language; "" without tags
    features: Weights | None = None  #: (s, f) the source, if it is a matrix and was saved
    unaligned_source: tuple[str, ...] = ()  #: the source symbols, if no column is one of them

    def __repr__(self) -> str:
        read, wrote = " ".join(self.source_symbols), " ".join(self.output)
        heads = "" if self.heads is None else f", {len(self.heads)} heads"
        source, output = (quoted(text, MAX_REPR_LENGTH) for text in (self.name or read, wrote))
        return f"Alignment({source} -> {output}, weights {self.weights.shape}{heads})"

    @property
    def source_symbols(self) -> tuple[str, ...]:
        """The source symbols among the columns."""
        return self.source[: len(self.source) - self.num_decoder_states]

    @property
    def views(self) -> dict[str, Weights]:
        """The weights by name: the mean over heads, then each head; a single head has no name."""
        if self.heads is None:
            return {"": self.weights}
        names = head_names(self.sites, len(self.heads))
        return {"mean": self.weights, **dict(zip(names, self.heads, strict=True))}

    @property
    def self_attention(self) -> dict[str, Alignment]:
        """The self-attention of encoder and decoder, as far as saved, as alignments of a sequence with itself."""
        maps = {}
        if self.encoder is not None:
            source = self.source_symbols
            alignment = Alignment(self.encoder.mean(0), source, source, source)
            maps["encoder"] = alignment._replace(heads=self.encoder, sites=self.encoder_sites)
        if self.decoder is not None:
            output = self.output
            alignment = Alignment(self.decoder.mean(0), output, output, output, num_decoder_states=len(output))
            maps["decoder"] = alignment._replace(heads=self.decoder, sites=self.decoder_sites)
        return maps


def head_names(sites: Sequence[str], heads: int) -> list[str]:
    """The name of each head: its site, and its number if the site has several.

    >>> head_names(["layer 1", "layer 1", "layer 2"], 3), head_names([], 2)
    (['layer 1, head 1', 'layer 1, head 2', 'layer 2'], ['head 1', 'head 2'])
    """
    sites = sites if len(sites) == heads else ("",) * heads
    names = []
    for index, site in enumerate(sites):
        head = f"head {sites[: index + 1].count(site)}" if sites.count(site) > 1 or not site else ""
        names.append(", ".join(filter(None, (site, head))))
    return names


def without_end(symbols: Iterable[str]) -> tuple[str, ...]:
    """The symbols without end symbols."""
    return tuple(symbol for symbol in symbols if symbol != END)


def predicted_links(alignment: Alignment, weights: Weights) -> set[Link]:
    """Link each output symbol to its source symbol of largest weight; end symbols and decoder states have no link.

    Source: Luong et al. 2015, section 5.4, https://arxiv.org/abs/1508.04025
    """
    return {
        (int(row.argmax()), step)
        for step, (symbol, row) in enumerate(zip(alignment.output, weights, strict=True))
        if symbol != END and row.argmax() < len(alignment.source_symbols) and row.max() > 0
    }


def read_saved_alignments(folder: Path | str) -> list[dict[Path, Alignment]]:
    """Read every example of a run folder: the alignments of its hypotheses by file, best first.

    ``alignments/007.npz`` is the best hypothesis of an example, ``007-2.npz`` the second, and so on.

    Raises:
        UserError: an array file cannot be read or its shapes disagree.
    """
    examples: dict[str, list[tuple[int, Path]]] = {}
    for file in (Path(folder) / ALIGNMENTS).glob("*.npz"):
        name, _, rank = file.stem.partition("-")
        examples.setdefault(name, []).append((int(rank) if rank.isdecimal() else 1, file))
    return [{file: read_alignment(file) for _, file in sorted(ranked)} for _, ranked in sorted(examples.items())]


def read_best_alignments(folder: Path | str) -> list[Alignment]:
    """Read the best hypothesis of every example of a run folder."""
    return [next(iter(hypotheses.values())) for hypotheses in read_saved_alignments(folder)]


def read_alignment(path: Path | str) -> Alignment:
    """Read an array file with weights (t, m), source (m,), output (t,), reference (r,), and optional fields.

    Raises:
        UserError: it cannot be read or its shapes disagree.
    """
    arrays, where = read_arrays(Path(path)), str(path)
    fields: dict[str, Any] = {name: arrays[name] for name in Alignment._fields if name in arrays}
    if missing := {"weights", "source", "output", "reference"} - fields.keys():
        raise UserError(f"{where}: not an alignment, it lacks {', '.join(sorted(missing))}")
    try:
        _check_shapes(where, fields)
        fields |= {name: kind(fields[name]) for name, kind in SCALARS.items() if name in fields}
        with np.errstate(over="ignore"):
            fields |= {name: fields[name].astype(np.float32, copy=False) for name in NUMBERS if name in fields}
    except UserError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise UserError(f"{where}: not an alignment: {error}") from error
    if infinite := [name for name in NUMBERS if name in fields and np.isinf(fields[name]).any()]:
        raise UserError(f"{where}: {infinite[0]} has infinite numbers")
    columns, states = fields["source"].size, fields.get("num_decoder_states", 0)
    if not 0 <= states <= columns:
        raise UserError(f"{where}: {states} of its {columns} columns cannot be decoder states")
    fields |= {name: tuple(map(str, fields[name])) for name in SYMBOLS if name in fields}
    return Alignment(**fields)


def alignment_arrays(alignment: Alignment) -> dict[str, Any]:
    """The arrays of a file that :func:`read_alignment` reads; optional fields without a value are left out."""
    optional = Alignment._field_defaults
    arrays = {name: np.array(value) for name, value in alignment._asdict().items() if value is not None}
    return {name: array for name, array in arrays.items() if array.size or name not in optional}


def _check_shapes(path: Path | str, arrays: Mapping[str, Any]) -> None:
    for name in SYMBOLS:
        if name in arrays and arrays[name].ndim != 1:
            raise UserError(f"{path}: {name} is {arrays[name].shape}, not a row of symbols")
    steps, columns = arrays["output"].size, arrays["source"].size
    if not steps or not columns:
        raise UserError(f"{path}: an empty alignment")
    expected: dict[str, tuple[int, ...]] = dict.fromkeys(SCALARS, ())
    expected["weights"] = (steps, columns)
    if "heads" in arrays:
        heads = len(np.atleast_1d(arrays["heads"]))
        expected |= {"heads": (heads, steps, columns), "sites": (heads,)}
    sources = columns - int(np.sum(arrays.get("num_decoder_states", 0)))
    for stream, size in (("encoder", sources), ("decoder", steps)):
        if stream in arrays:
            heads = len(np.atleast_1d(arrays[stream]))
            expected |= {stream: (heads, size, size), f"{stream}_sites": (heads,)}
    for name, shape in expected.items():
        if name in arrays and arrays[name].shape != shape:
            raise UserError(f"{path}: {name} is {arrays[name].shape} where output and source make it {shape}")
