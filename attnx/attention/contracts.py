"""The protocols of the parts of attention: scorer, scope, normalizer and query input."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from torch import Tensor

from attnx.attention.types import AttentionHistory, QueryContext, SampledWeights, ScopeMask


class Projections(Protocol):
    """What every scorer prepares: ``project_keys`` once per memory, ``project_queries`` once for all known steps.

    ``is_positional``, optional, says that scores depend on the order of the memory; ``needs_keys = False`` that they do
    not depend on its vectors; ``has_key_parameters = True`` that ``project_keys`` has parameters, so that heads cannot
    share its keys (``attention.kv_heads``).
    """

    requires_equal_dims: bool  # whether queries and memory must have one width

    def project_keys(self, memory: Tensor) -> Tensor:
        """Prepare the memory: (..., m, memory_size) -> (..., m, k)."""

    def project_queries(self, queries: Tensor) -> Tensor:
        """Prepare the queries: (..., q, query_size) -> (..., q, k)."""


class Scorer(Projections, Protocol):
    """How relevant memory position m is to query q; ``hidden_size``, optional, is the hidden units of a score."""

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Score every pair: (..., q, k), (..., m, k) -> (..., q, m)."""


class HistoryScorer(Projections, Protocol):
    """A scorer that reads previous weights, so that the decoder runs step by step; ``needs_history`` is True.

    It may have a method ``penalty(weights, history)``, (b, q, m) -> (b, q), whose sum over the target's steps joins the
    training loss.
    """

    needs_history: bool

    def score(self, queries: Tensor, keys: Tensor, history: AttentionHistory) -> Tensor:
        """Score every pair: (b, q, k), (b, m, k) and the history -> (b, q, m)."""


class RecurrentScorer(Projections, Protocol):
    """A scorer that carries a tensor from step to step, over the queries of a call too; ``is_recurrent`` is True.

    The decoder need not run step by step: the scorer goes through the queries itself.
    """

    is_recurrent: bool

    def init_carry(self, keys: Tensor) -> Tensor:
        """What it carries before the first step: (b, m, k) -> (b, c)."""

    def score(self, queries: Tensor, keys: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        """Score consecutive steps: (b, q, k), (b, m, k), (b, c) -> scores (b, q, m) and the carry (b, c) after them."""


class Scope(Protocol):
    """Which memory query q may read.

    ``sources`` names what the memory is made of, ``encoder``, ``decoder`` or both. A scope is asked about one source
    at a time. ``include_self`` says whether a state that is in the query may be read, too.
    """

    sources: tuple[str, ...]
    include_self: bool

    def __call__(self, queries: Tensor, steps: Tensor, memory_mask: Tensor) -> ScopeMask:
        """The mask of what each query may read.

        Args:
            queries: (b, q, query_size).
            steps: (b, q) or (q,) int64, the absolute decoder step of each query, so that a loop and an all-at-once
                pass agree.
            memory_mask: (b, 1, m) or (b, q, m) bool, the positions of one source that are there when each query asks.
        """


MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Whether query q of row b may read position m, of the indices b, h, q and m: torch's function for FlexAttention."""


class ScopeWithMaskMod(Scope, Protocol):
    """A scope that can be asked pair by pair, so that FlexAttention on a GPU skips what is out of scope."""

    def mask_mod(self, queries: Tensor, steps: Tensor, lengths: Tensor) -> MaskMod | None:
        """What a call with such a memory allows, pair by pair; None if its weights have a gain.

        Args:
            queries: (b, q, query_size).
            steps: (b, q) int64.
            lengths: (b, 1) or (b, q) int64, how many positions are there when each query asks. The caller hides
                padding and later positions.
        """


class Normalizer(Protocol):
    """How scores become weights. ``is_distribution`` says that a row's weights sum to 1 (or 0 if all is forbidden)."""

    is_distribution: bool

    def __call__(self, scores: Tensor, allowed_mask: Tensor) -> Tensor:
        """Scores (..., m) and their mask -> weights (..., m), 0 where forbidden."""


class Bias(Protocol):
    """A term of the scores that depends on how far a position is from the query's step, and perhaps on the query.

    ``needs_query`` says whether it depends on the query. A constructor may take ``query_size``, and ``head`` and
    ``heads``: which head it belongs to, from 0, and how many there are.
    """

    needs_query: bool

    def __call__(self, queries: Tensor, distances: Tensor) -> Tensor:
        """The terms of the scores.

        Args:
            queries: (b, q, query_size), of one head if there are several.
            distances: (b or 1, q, m) int64, the step of each query minus the position, which counts within its source.

        Returns:
            (b, q, m) or broadcastable to it.
        """


class RecurrentNormalizer(Protocol):
    """A normalizer that carries a tensor from step to step, over the queries of a call too; ``is_recurrent`` is True.

    The decoder need not run step by step: the normalizer goes through the queries itself. ``is_monotonic``, optional,
    says that no step reads a position before the first one that the previous step read.
    """

    is_distribution: bool
    is_recurrent: bool

    def init_carry(self, memory_mask: Tensor) -> Tensor:
        """What it carries before the first step: (b, m) bool, False at padding -> (b, m)."""

    def __call__(self, scores: Tensor, allowed_mask: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        """Normalize consecutive steps: (b, q, m), their mask, (b, m) -> weights (b, q, m) and the carry after them."""


class SampledNormalizer(Normalizer, Protocol):
    """A normalizer that samples positions in training, and learns by REINFORCE; ``is_sampled`` is True.

    A call gives the weights of evaluation. Options that it may have: ``reward``, the weight of the REINFORCE term in
    the loss; ``expected``, the share of reads that use the softmax weights instead of a sample.
    """

    is_sampled: bool

    def sample(self, scores: Tensor, allowed_mask: Tensor) -> SampledWeights:
        """Sample with torch's random numbers: scores (..., m) and their mask -> weights (..., m) and terms (...)."""


class QueryInput(Protocol):
    """One thing that is compared with the memory.

    ``needs`` is the field of :class:`QueryContext` it reads, or ``nothing``; the planner knows from it what must have
    run before. ``size`` is the width it contributes.

    A query of several rows, which a classifier reads side by side, has their number as ``rows``.
    """

    needs: str
    size: int

    def __call__(self, step: QueryContext) -> Tensor:
        """Pick from the step: -> (b, q, size)."""


class RecurrentInput(Protocol):
    """A query input that carries a tensor from step to step, over the steps of a call too; ``is_recurrent`` is True."""

    needs: str
    size: int
    is_recurrent: bool

    def init_carry(self, rows: Tensor) -> Tensor:
        """What it carries before the first step of rows (b, ...), whose type and device it takes: -> (b, c)."""

    def __call__(self, step: QueryContext, carry: Tensor) -> tuple[Tensor, Tensor]:
        """Pick from consecutive steps: -> (b, q, size), and the carry (b, c) after them."""


class PenalizedInput(QueryInput, Protocol):
    """A query input whose reads add to the training loss of a classifier, if ``has_penalty``."""

    has_penalty: bool

    def penalty(self, weights: Tensor) -> Tensor:
        """Weights (..., r, m) of the reads of a source -> the terms (..., r)."""


DistanceTerm = Callable[[Tensor, Tensor, Tensor], Tensor]
"""What is added to a score, of the indices b and q and the distance: for torch's FlexAttention."""


class BiasWithScoreMod(Bias, Protocol):
    """A bias that can be asked pair by pair, so that FlexAttention on a GPU needs no bias of all pairs."""

    def score_mod(self, queries: Tensor) -> DistanceTerm:
        """The term of a call with queries (b, q, query_size); numbers that differ by head are tensors."""


class AttentionParts(NamedTuple):
    """The parts that one head is composed of."""

    scorer: Scorer | HistoryScorer | RecurrentScorer
    scope: Scope
    normalizer: Normalizer | RecurrentNormalizer | SampledNormalizer
    bias: Bias | None = None
