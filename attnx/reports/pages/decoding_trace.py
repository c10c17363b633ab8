"""What a run's page plays: how the hypotheses of an example were decoded, step by step. Without torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnx.runs.alignments import Alignment

Numbers = NDArray[np.float32]


class ReadTrace(NamedTuple):
    """What attention computed at t steps, in h heads over m positions.

    A position that did not exist yet at a step is forbidden, and its score is NaN.

    Attributes:
        queries: (h, t, q) what is compared with the positions, as scopes see it.
        scores: (h, t, m) before the normalizer.
        allowed_mask: (h, t, m) which positions the scope, and a pointer's constraint, let each step read.
        weights: (h, t, m) after the normalizer and a scope's gain.
        gain: (h, t, m) by which a scope multiplies the normalizer's weights; None if no scope does.
        contexts: (h, t, v) the values summed by the weights.
    """

    queries: Numbers
    scores: Numbers
    allowed_mask: NDArray[np.bool_]
    weights: Numbers
    gain: Numbers | None
    contexts: Numbers


class Candidate(NamedTuple):
    """A symbol that might come next."""

    symbol: str
    probability: float


class HypothesisTrace(NamedTuple):
    """How one hypothesis was decoded.

    Attributes:
        read: None where attention computes nothing at the steps, as in an entity network.
        candidates: of each step the likeliest symbols, likeliest first, the chosen one always among them; empty for
            outputs of numbers.
    """

    read: ReadTrace | None
    candidates: tuple[tuple[Candidate, ...], ...]


class BeamNode(NamedTuple):
    """A symbol after a beginning of an output: a beginning that the search continued, or the end of a hypothesis."""

    parent: int  # the index of the node before it; -1 for a first symbol
    symbol: str
    log_probability: float  # of the symbol, given what is before it


class ExampleTrace(NamedTuple):
    """How the hypotheses of an example were decoded.

    Attributes:
        hypotheses: best first; None for one that the checkpoint does not decode to.
        beams: the nodes of all beginnings, parents first; empty if the search followed a single one.
        paths: the nodes of each hypothesis, in order; empty without ``beams``, and where there is no trace.
    """

    hypotheses: tuple[HypothesisTrace | None, ...]
    beams: tuple[BeamNode, ...] = ()
    paths: tuple[tuple[int, ...], ...] = ()


Tracer = Callable[[Sequence[Alignment]], ExampleTrace | None]
"""The saved hypotheses of an example -> how they were decoded; None if its source was not saved."""


class TraceSource(NamedTuple):
    """Where a run's page finds traces: ``tracer``, or None and the reason, which the page states."""

    tracer: Tracer | None
    reason: str = ""


OpenTraces = Callable[[Path], TraceSource]
"""A run folder -> where its traces are found."""


def no_traces(folder: Path) -> TraceSource:
    """No trace of any run: reports read no checkpoint."""
    return TraceSource(None, f"attnx page {folder} adds the rest from its checkpoint")
