"""The values that the parts of attention exchange, with their shapes.

Values are arguments and results, never attributes of a module. Axes: see :mod:`attnx.attention`. With several heads,
keys, values, weights and the history have an axis ``h`` after the batch's; a part sees one head at a time.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


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
        previous: (b, m) the weights of the previous step; zeros at the first.
        cumulative: (b, m) the sum of the weights of all earlier steps.
    """

    previous: Tensor
    cumulative: Tensor


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
        prev_state: (b, q, d) top state before the cell runs, h_{t-1}; None if it is not known yet.
        state: (b, q, d) top state after the cell ran, h_t; None if it is not known yet.
        context: (b, q, v) the last context, c_{t-1}; None if it is not known yet.
        tag: (b, q) int64, the number of the row's tag (its language); None if there are no tags.
    """

    token: Tensor
    prev_state: Tensor | None = None
    state: Tensor | None = None
    context: Tensor | None = None
    tag: Tensor | None = None


class AttentionInputs(NamedTuple):
    """The inputs of one attention call.

    Attributes:
        queries: (b, q, query_size) as the caller made them, which is how a scope sees them.
        prepared_queries: (b, q, k) as the scorer projected them.
        memory: what may be read.
        steps: (q,) or (b, q) int64, the absolute step of each query.
        allowed: (b, q, m) bool or broadcastable to it, narrows the scope; or None.
        history: previous weights, for a scorer that needs them.
        dropout_mask: (b, q, m) of the weights; or None.
        need_weights: also return weights and scores.
    """

    queries: Tensor
    prepared_queries: Tensor
    memory: Memory
    steps: Tensor
    allowed: Tensor | None
    history: AttentionHistory | None
    dropout_mask: Tensor | None
    need_weights: bool
