"""The protocols of attention and of its parts: scorer, scope, normalizer and query input."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from attnx.attention.types import AttentionHistory, AttentionOutput, Memory, QueryContext, ScopeMask


class AttentionModule(Protocol):
    """Attends to a memory: :class:`attnx.attention.Attention`, several heads of it, or no attention.

    Attributes:
        num_heads: number of heads; weights have an axis of them if there are several.
        dropout: share of the weights dropped while training.
        needs_history: whether the scorer reads earlier weights.
    """

    num_heads: int
    dropout: float

    @property
    def needs_history(self) -> bool: ...  # noqa: D102 - above

    @property
    def is_distribution(self) -> bool:
        """Whether weights sum to 1, as far as the normalizer declares it."""
        ...

    def make_memory(self, states: Tensor, present: Tensor | None = None, values: Tensor | None = None) -> Memory:
        """Prepare what may be read, once."""
        ...

    def __call__(
        self,
        queries: Tensor,
        memory: Memory,
        allowed: Tensor | None = None,
        steps: Tensor | None = None,
        history: AttentionHistory | None = None,
        need_weights: bool = False,
        dropout_mask: Tensor | None = None,
    ) -> AttentionOutput:
        """Attend with each query."""
        ...


class Scorer(Protocol):
    """How relevant memory position m is to query q.

    The work is split so that it is done once where nothing changes: ``project_keys`` once per memory,
    ``project_queries`` once for all query steps that are known in advance.

    Attributes:
        requires_equal_dims: whether queries and memory must have one width.
        hidden_size: optional; hidden units of a score, by which kernels bound their memory.
    """

    requires_equal_dims: bool

    def project_keys(self, memory: Tensor) -> Tensor:
        """Prepare the memory: (..., m, memory_size) -> (..., m, k)."""
        ...

    def project_queries(self, queries: Tensor) -> Tensor:
        """Prepare the queries: (..., q, query_size) -> (..., q, k)."""
        ...

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Score every pair: (..., q, k), (..., m, k) -> (..., q, m)."""
        ...


class HistoryScorer(Protocol):
    """A scorer that reads previous weights, so that the decoder runs step by step; ``needs_history`` is True.

    ``project_keys`` and ``project_queries`` are those of :class:`Scorer`. It may have a method
    ``penalty(weights, history)``, (b, q, m) -> (b, q), whose sum over the target's steps joins the training loss.
    """

    requires_equal_dims: bool
    needs_history: bool

    def project_keys(self, memory: Tensor) -> Tensor:
        """As :meth:`Scorer.project_keys`."""
        ...

    def project_queries(self, queries: Tensor) -> Tensor:
        """As :meth:`Scorer.project_queries`."""
        ...

    def score(self, queries: Tensor, keys: Tensor, history: AttentionHistory) -> Tensor:
        """Score every pair: (b, q, k), (b, m, k) and the history -> (b, q, m)."""
        ...


class Scope(Protocol):
    """Which memory query q may read.

    ``sources`` names what the memory is made of, ``encoder``, ``decoder`` or both. A scope is asked about one source
    at a time. ``include_self`` says whether a state that is in the query may be read, too.
    """

    sources: tuple[str, ...]
    include_self: bool

    def __call__(self, queries: Tensor, steps: Tensor, present: Tensor) -> ScopeMask:
        """The mask of what each query may read.

        Args:
            queries: (b, q, query_size).
            steps: (b, q) or (q,) int64, the absolute decoder step of each query, so that a loop and an all-at-once
                pass agree.
            present: (b, 1, m) or (b, q, m) bool, the positions of one source that are there when each query asks.
        """
        ...


class Normalizer(Protocol):
    """How scores become weights. ``is_distribution`` says that a row's weights sum to 1 (or 0 if all is forbidden)."""

    is_distribution: bool

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
