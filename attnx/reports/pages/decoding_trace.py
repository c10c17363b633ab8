"""What a run's page plays: how the hypotheses of an example were decoded, step by step, also as JSON. No torch."""

from __future__ import annotations

import base64
import json
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from attnx.runs.alignments import Alignment

Numbers = NDArray[np.float32]
Key = TypeVar("Key")
Fields = dict[str, Any]

# Characters of traces on a page, per run: the shortest examples have theirs.
MAX_CHARACTERS = 2_500_000
THOUSANDTHS = 1000
LARGEST_LEVEL = 127  # of a number in a strip, which is a signed byte
LARGEST_SCORE = 1e6
NOT_SAVED = "its source was not saved with them"
DIFFERENT = "the checkpoint does not decode to them"
TOO_LARGE = "a page has the traces of the shortest examples only"


class ReadTrace(NamedTuple):
    """What attention computed at t steps, in h heads over m positions.

    A position that did not exist yet at a step is forbidden, and its score is NaN.
    """

    queries: Numbers  #: (h, t, q) what is compared with the positions, as scopes see it
    scores: Numbers  #: (h, t, m) before the normalizer
    #: (h, t, m) which positions the scope, and a pointer's constraint, let each step read
    allowed_mask: NDArray[np.bool_]
    weights: Numbers  #: (h, t, m) after the normalizer and a scope's gain
    gain: Numbers | None  #: (h, t, m) by which a scope multiplies the normalizer's weights; None if no scope does
    contexts: Numbers  #: (h, t, v) the values summed by the weights


class Candidate(NamedTuple):
    """A symbol that might come next."""

    symbol: str
    probability: float


class HypothesisTrace(NamedTuple):
    """How one hypothesis was decoded."""

    read: ReadTrace | None  #: None where attention computes nothing at the steps, as in an entity network
    #: the likeliest symbols of each step, likeliest first, the chosen one always among them; empty for outputs of
    #: numbers
    candidates: tuple[tuple[Candidate, ...], ...]


class BeamNode(NamedTuple):
    """A symbol after a beginning of an output: a beginning that the search continued, or the end of a hypothesis."""

    parent: int  # the index of the node before it; -1 for a first symbol
    symbol: str
    log_probability: float  # of the symbol, given what is before it


class ExampleTrace(NamedTuple):
    """How the hypotheses of an example were decoded."""

    hypotheses: tuple[HypothesisTrace | None, ...]  #: best first; None for one that the checkpoint does not decode to
    #: the nodes of all beginnings, parents first; empty if the search followed a single one
    beams: tuple[BeamNode, ...] = ()
    #: the nodes of each hypothesis, in order; empty without ``beams``, and where there is no trace
    paths: tuple[tuple[int, ...], ...] = ()


Tracer = Callable[[Sequence[Alignment]], ExampleTrace | None]
"""The saved hypotheses of an example -> how they were decoded; None if its source was not saved."""


OpenTraces = Callable[[Path], Tracer | str]
"""A run folder -> what traces its examples, or the reason why nothing does, which the page states."""


def no_traces(folder: Path) -> str:
    """No trace of any run: reports read no checkpoint.

    >>> print(no_traces(Path("my run")))
    attnx page 'my run' adds the rest from its checkpoint
    """
    return f"{shlex.join(['attnx', 'page', str(folder)])} adds the rest from its checkpoint"


def trace_examples(tracer: Tracer | str, examples: Mapping[Key, Sequence[Alignment]]) -> dict[Key, list[Fields]]:
    """The fields of each hypothesis of examples: its trace as JSON, or the reason why it has none.

    The shortest examples are traced first, as long as their traces fit. The best hypothesis has the beams, too.
    """
    fields: dict[Key, list[Fields]] = {}
    characters = 0
    for key in sorted(examples, key=lambda key: examples[key][0].weights.size):
        hypotheses = examples[key]
        if isinstance(tracer, str) or characters > MAX_CHARACTERS:
            fields[key] = [{"reason": tracer if isinstance(tracer, str) else TOO_LARGE}] * len(hypotheses)
            continue
        if (trace := tracer(hypotheses)) is None:
            fields[key] = [{"reason": NOT_SAVED}] * len(hypotheses)
            continue
        fields[key] = [
            {"reason": DIFFERENT} if part is None else {"trace": _hypothesis(part, saved)}
            for part, saved in zip(trace.hypotheses, hypotheses, strict=True)
        ]
        if trace.beams:
            nodes = [
                (parent, symbol, round(max(log_probability, -LARGEST_SCORE) * THOUSANDTHS))
                for parent, symbol, log_probability in trace.beams
            ]
            fields[key][0] |= {"beams": nodes, "paths": trace.paths}
        characters += len(json.dumps(fields[key], separators=(",", ":")))
    return fields


def _hypothesis(trace: HypothesisTrace, saved: Alignment) -> Fields:
    """Each head, positions row by row; the weights only if there are more positions than saved columns."""
    candidates = [[(symbol, round(share * THOUSANDTHS)) for symbol, share in step] for step in trace.candidates]
    if (read := trace.read) is None:
        return {"heads": [], "candidates": candidates}
    positions = read.weights.shape[-1]
    heads = [
        {
            "query": _strip(read.queries[head]),
            "positions": positions,
            "scores": _thousandths(read.scores[head]),
            "allowed": None if read.allowed_mask[head].all() else row_spans(read.allowed_mask[head]),
            "weights": _thousandths(read.weights[head]) if positions > saved.weights.shape[-1] else None,
            "gain": None if read.gain is None else _thousandths(read.gain[head]),
            "context": _strip(read.contexts[head]),
        }
        for head in range(len(read.weights))
    ]
    return {"heads": heads, "candidates": candidates}


def _thousandths(numbers: Numbers) -> list[int | None]:
    """Numbers in thousandths, None for NaN: the score of a position that did not exist yet."""
    scaled = np.rint(numbers.astype(np.float64).clip(-LARGEST_SCORE, LARGEST_SCORE) * THOUSANDTHS)
    return [None if math.isnan(number) else int(number) for number in scaled.ravel().tolist()]


def row_spans(mask: NDArray[np.bool_]) -> list[list[int]]:
    """Starts and ends of the True columns of each row.

    >>> row_spans(np.array([[False, True, True, False, False, True]]))
    [[1, 3, 5, 6]]
    """
    edges = np.diff(np.pad(mask.astype(np.int8), ((0, 0), (1, 1))))
    return [np.flatnonzero(row).tolist() for row in edges]


def _strip(vectors: Numbers) -> Fields:
    """Vectors (t, d) as signed bytes in base64; ``scale`` is the number that 127 stands for."""
    scale = float(np.abs(vectors).max(initial=0)) or 1.0
    levels = np.rint(vectors / scale * LARGEST_LEVEL).astype(np.int8)
    return {"width": vectors.shape[-1], "scale": float(f"{scale:.4g}"), "bytes": base64.b64encode(levels).decode()}
