"""The values that travel between the parts of attention, and what each kind of part promises.

Values are passed and never kept on a module. Axes: see :mod:`attnx.attention`. With several heads, keys, values,
weights and the past have an axis ``h`` after the batch's; a part sees one head at a time and never that axis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from torch import Tensor

if TYPE_CHECKING:
    from attnx.attention.attention import Attention


class Memory(NamedTuple):
    """What may be read, prepared once and read many times; see :mod:`attnx.attention.memory` for joining and growing.

    Attributes:
        keys: (b, m, k) as the scorer made them; ``k`` is the scorer's own width.
        values: (b, m, v), what a context is the weighted sum of.
        present: (b, m) bool, True where the position is real; or (b, q, m), where each query finds its own there.
        lengths: how many positions each source has, in order; their sum is m.
    """

    keys: Tensor
    values: Tensor
    present: Tensor
    lengths: tuple[int, ...]


class ScopeMask(NamedTuple):
    """What a scope lets each query read.

    Attributes:
        allowed: (b, q, m) bool.
        gain: (b, q, m) or None; multiplies the weights AFTER normalizing and is not renormalized.
    """

    allowed: Tensor
    gain: Tensor | None = None


class AttentionHistory(NamedTuple):
    """How the memory was read before.

    Attributes:
        last: (b, m) the weights of the step before; zeros at the first.
        total: (b, m) the sum of the weights of all steps before.
    """

    last: Tensor
    total: Tensor


class AttentionOutput(NamedTuple):
    """The outcome of one read.

    Attributes:
        context: (b, q, v).
        weights: (b, q, m), or None when not asked for.
        scores: (b, q, m) before normalizing and masking, or None when not asked for.
        penalty: (b, q) what the scorer adds to the loss, or None if it adds nothing.
    """

    context: Tensor
    weights: Tensor | None = None
    scores: Tensor | None = None
    penalty: Tensor | None = None


class QueryContext(NamedTuple):
    """What a decoder knows at its query steps; query inputs choose from it.

    Attributes:
        token: (b, q, e) embedded input token, y_{t-1}.
        before: (b, q, d) top state before the cell runs, h_{t-1}; None if it is not known yet.
        after: (b, q, d) top state after the cell ran, h_t; None if it is not known yet.
        context: (b, q, v) the last context, c_{t-1}; None if it is not known yet.
        tag: (b, q) int64, the number of the row's tag (its language); None if there are no tags.
    """

    token: Tensor
    before: Tensor | None = None
    after: Tensor | None = None
    context: Tensor | None = None
    tag: Tensor | None = None


class AttentionInputs(NamedTuple):
    """One read as it is asked for.

    Attributes:
        queries: (b, q, query_size) as their caller made them, which is how a scope sees them.
        asked: (b, q, k) as the scorer made them.
        memory: what may be read.
        at: (q,) or (b, q) int64, the absolute step of each query.
        allowed: (b, q, m) bool or broadcastable to it, what the scope is narrowed to; or None.
        past: how the memory was read before, for a scorer that needs it.
        keep: (b, q, m) dropout mask of the weights; or None.
        need_weights: weights and scores are wanted, too.
    """

    queries: Tensor
    asked: Tensor
    memory: Memory
    at: Tensor
    allowed: Tensor | None
    past: AttentionHistory | None
    keep: Tensor | None
    need_weights: bool


class Kernel(Protocol):
    """A faster way to a read that the parts define, equal to it in output and gradients.

    ``scorers``, ``scopes`` and ``normalizers`` name the parts it can serve, none meaning any; of several kernels that
    admit a read the one with the lowest ``rank`` does it.

    A kernel may state more. ``device`` is the only type of device that it is for, as ``"cuda"``. ``source`` is the C
    file that it needs: it is compiled while a run starts. ``together`` says that it reads nothing of a scorer but
    prepared queries and keys: several heads are then rows of one read. ``build(device)`` compiles all that its reads
    and their gradients need there, and raises whatever stops that: the kernel is then left out, with a note, and the
    next in line reads.
    """

    scorers: tuple[str, ...]
    scopes: tuple[str, ...]
    normalizers: tuple[str, ...]
    rank: int

    def admits(self, attention: Attention, asked: AttentionInputs) -> bool:
        """Say whether it can do this read: sizes, types, devices, masks. Asked before every read, so be quick."""
        ...

    def __call__(self, attention: Attention, asked: AttentionInputs) -> AttentionOutput:
        """Do it."""
        ...


class Scorer(Protocol):
    """How relevant memory position m is to query q.

    The work is split so that whatever does not change is done once: ``keys`` once per memory, ``queries`` once for
    all query steps that are known in advance. ``equal_widths`` says that queries and memory must have one width. A
    scorer may state ``hidden``, how many hidden units each of its scores takes: kernels bound their memory by it.
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


class HistoryScorer(Protocol):
    """A scorer that also knows how the memory was read before, and so makes the decoder step; ``needs_past`` is True.

    ``keys`` and ``queries`` are those of :class:`Scorer`. It may have a method ``penalty(weights, past)``,
    (b, q, m) -> (b, q), whose sum over the target's steps joins the training loss.
    """

    equal_widths: bool
    needs_past: bool

    def compare(self, queries: Tensor, keys: Tensor, past: AttentionHistory) -> Tensor:
        """Score every pair: (b, q, k), (b, m, k) and the past -> (b, q, m)."""
        ...


class Scope(Protocol):
    """Which memory query q may read.

    ``sources`` names what the memory is made of, ``encoder``, ``decoder`` or both. A scope is asked about one source
    at a time. ``include_self`` says whether a state that is in the query may be read, too.
    """

    sources: tuple[str, ...]
    include_self: bool

    def __call__(self, queries: Tensor, at: Tensor, present: Tensor) -> ScopeMask:
        """Say what each query may read.

        Args:
            queries: (b, q, query_size).
            at: (b, q) or (q,) int64, the absolute decoder step of each query, so that a loop and an all-at-once
                pass agree.
            present: (b, 1, m) or (b, q, m) bool, the positions of one source that are there when each query asks.
        """
        ...


class Normalizer(Protocol):
    """How scores become weights. ``sums_to_one`` says that a row's weights sum to 1 (or 0 if all is forbidden)."""

    sums_to_one: bool

    def __call__(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """(..., m) scores and what is allowed -> (..., m) weights, 0 where forbidden."""
        ...


class QueryInput(Protocol):
    """One thing that is compared with the memory.

    ``needs`` is the field of :class:`QueryContext` it reads; the planner knows from it what must have run before.
    ``size`` is the width it contributes.
    """

    needs: str
    size: int

    def __call__(self, step: QueryContext) -> Tensor:
        """Pick from the step: -> (b, q, size)."""
        ...
