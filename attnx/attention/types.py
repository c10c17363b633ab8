"""The values that the parts of attention exchange, with their shapes.

Values are arguments and results, never attributes of a module. Axes: see :mod:`attnx.attention`. With several heads,
keys, values, weights and the history have an axis ``h`` after the batch's; a part sees one head at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

if TYPE_CHECKING:
    from attnx.attention.memory import KeyValueCache


class Memory(NamedTuple):
    """What may be read, prepared once and read many times."""

    keys: Tensor  # (b, m, k) as the scorer made them; ``k`` is the scorer's own width
    values: Tensor  # (b, m, v), what a context is the weighted sum of
    mask: Tensor  # (b, m) bool, True where the position is real; (b, q, m) if this differs by query
    source_sizes: tuple[int, ...]  # how many positions each source has, in order; their sum is m
    has_padding: bool = True  # whether ``mask`` may be False anywhere; what is known without looking needs no mask
    is_causal: bool = False  # whether the last positions are those of the queries, and no query reads a later one
    cache: KeyValueCache | None = None  # what the tensors are views of, where the memory grows in place


class ScopeMask(NamedTuple):
    """What a scope lets each query read."""

    allowed_mask: Tensor  # (b, q, m) bool
    # Broadcastable to (b, q, m), or None; multiplies the weights AFTER normalizing and is not renormalized.
    gain: Tensor | None = None


class AttentionHistory(NamedTuple):
    """How the memory was read before, and what recurrent parts carry to the next step."""

    previous: Tensor  # (b, m) the weights of the previous step; zeros at the first
    cumulative: Tensor  # (b, m) the sum of the weights of all earlier steps
    scorer_carry: Tensor | None = None  # (b, c) what a recurrent scorer carries; None for another
    normalizer_carry: Tensor | None = None  # (b, m) what a recurrent normalizer carries; None for another


class AttentionOutput(NamedTuple):
    """The outcome of one read."""

    context: Tensor  # (b, q, v)
    weights: Tensor | None = None  # (b, q, m), or None when not asked for
    scores: Tensor | None = None  # (b, q, m) before the normalizer and the mask, with the bias; None if not asked for
    penalty: Tensor | None = None  # (b, q) what scorer and normalizer add to the loss, or None if they add nothing
    scorer_carry: Tensor | None = None  # (b, c) what a recurrent scorer carries after the last query, or None
    normalizer_carry: Tensor | None = None  # (b, m) what a recurrent normalizer carries after the last query, or None
    log_prob: Tensor | None = None  # (b, q) of the sampled positions in training, times the reward's weight; or None


class SampledWeights(NamedTuple):
    """What a normalizer that samples gives in training."""

    weights: Tensor  # (..., m), each row one-hot at a sampled position, or the mean of all samples
    # (...) the log-probability of the sampled position, 0 where the mean is read or nothing is allowed; times the
    # weight of the reward in the loss
    log_prob: Tensor
    penalty: Tensor  # (...) a term of the loss, such as the negative entropy


class QueryContext(NamedTuple):
    """What a decoder knows at its query steps; query inputs choose from it."""

    token: Tensor  # (b, q, e) embedded input token, y_{t-1}
    prev_state: Tensor | None = None  # (b, q, d) top state before the cell runs, h_{t-1}; None if it is not known yet
    state: Tensor | None = None  # (b, q, d) top state after the cell ran, h_t; None if it is not known yet
    context: Tensor | None = None  # (b, q, v) the last context, c_{t-1}; None if it is not known yet
    tag: Tensor | None = None  # (b, q) int64, the number of the row's tag (its language); None if there are no tags


class AttentionInputs(NamedTuple):
    """The inputs of one attention call."""

    queries: Tensor  # (b, q, query_size) as the caller made them, which is how a scope sees them
    prepared_queries: Tensor  # (b, q, k) as the scorer projected them
    memory: Memory  # what may be read
    steps: Tensor  # (q,) or (b, q) int64, the absolute step of each query
    allowed_mask: Tensor | None = None  # (b, q, m) bool or broadcastable to it, narrows the scope; or None
    history: AttentionHistory | None = None  # for a scorer that reads earlier weights, and for recurrent parts
    dropout_mask: Tensor | None = None  # (b, q, m) of the weights; or None
    need_weights: bool = False  # also return weights and scores
