"""The values that travel between the parts of attention, and what each kind of part promises.

Values are passed and never kept on a module. Axes: see :mod:`attnx.shapes`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor


class Memory(NamedTuple):
    """What may be read, prepared once and read many times.

    Attributes:
        keys: (b, m, k) as the scorer made them; ``k`` is the scorer's own width.
        values: (b, m, v), what a context is the weighted sum of.
        present: (b, m) bool, True where the position is real.
    """

    keys: Tensor
    values: Tensor
    present: Tensor


class Field(NamedTuple):
    """What a scope lets each query read.

    Attributes:
        allowed: (b, q, m) bool.
        gain: (b, q, m) or None; multiplies the weights AFTER normalising and is not renormalised.
    """

    allowed: Tensor
    gain: Tensor | None = None


class Read(NamedTuple):
    """The outcome of one read.

    Attributes:
        context: (b, q, v).
        weights: (b, q, m), or None when not asked for.
        scores: (b, q, m) before normalising and masking, or None when not asked for.
    """

    context: Tensor
    weights: Tensor | None = None
    scores: Tensor | None = None


class Step(NamedTuple):
    """What a decoder knows at its query steps; query inputs choose from it.

    Attributes:
        token: (b, q, e) embedded input token, y_{t-1}.
        before: (b, q, d) top state before the cell runs, h_{t-1}; None if it is not known yet.
        after: (b, q, d) top state after the cell ran, h_t; None if it is not known yet.
        context: (b, q, v) the last context, c_{t-1}; None if it is not known yet.
    """

    token: Tensor
    before: Tensor | None = None
    after: Tensor | None = None
    context: Tensor | None = None


class Scorer(Protocol):
    """How relevant memory position m is to query q.

    The work is split so that whatever does not change is done once: ``keys`` once per memory, ``queries`` once for
    all query steps that are known in advance. ``equal_widths`` says that queries and memory must have one width.
    """

    equal_widths: bool

    def keys(self, memory: Tensor) -> Tensor:
        """Prepare the memory: (..., m, memory_size) -> (..., m, k)."""
        ...

    def queries(self, queries: Tensor) -> Tensor:
        """Prepare the queries: (..., q, query_size) -> (..., q, k)."""
        ...

    def compare(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Score every pair: (..., q, k), (..., m, k) -> (..., q, m)."""
        ...


class Scope(Protocol):
    """Which memory query q may read.

    ``sources`` names what the memory is made of, so that the planner knows whether it grows while decoding.
    """

    sources: tuple[str, ...]

    def __call__(self, queries: Tensor, at: Tensor, present: Tensor) -> Field:
        """Say what each query may read.

        Args:
            queries: (b, q, query_size).
            at: (b, q) or (q,) int64, the absolute decoder step of each query, so that a loop and an all-at-once
                pass agree.
            present: (b, m) bool.
        """
        ...


class Normaliser(Protocol):
    """How scores become weights. ``sums_to_one`` says that a row's weights sum to 1 (or 0 if all is forbidden)."""

    sums_to_one: bool

    def __call__(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """(..., m) scores and what is allowed -> (..., m) weights, 0 where forbidden."""
        ...


class QueryInput(Protocol):
    """One thing that is compared with the memory.

    ``needs`` is the field of :class:`Step` it reads; the planner knows from it what must have run before.
    ``size`` is the width it contributes.
    """

    needs: str
    size: int

    def __call__(self, step: Step) -> Tensor:
        """Pick from the step: -> (b, q, size)."""
        ...
