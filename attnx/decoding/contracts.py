"""The protocols of step models and searches, and the result of a search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from attnx.attention import AttentionOutput
from attnx.nn.contracts import TargetSpec

NextTokenFilter = Callable[[Tensor, Tensor], Tensor]
"""What has been written (r, t) and the batch's row of each (r,) -> (r, symbols) bool, what may come next."""


class StepModel(Protocol):
    """A model that can be asked for one step at a time.

    Attributes:
        sources: what its memory holds, ``encoder``, ``decoder`` or both, in the order of the weights' columns.
        is_distribution: whether the weights of a read sum to 1.
        target: what a step is: what is read first, and what to pick of what :meth:`decode_step` gives.
        weights_axis: what the weights' second axis, where there is one, goes over: ``heads``, the default; ``words``,
            the same in every model of such data; or ``slots``, which each model fills in its own way.
    """

    sources: tuple[str, ...]
    target: TargetSpec

    @property
    def is_distribution(self) -> bool: ...  # noqa: D102 - above

    def init_state(self, source: Tensor, source_mask: Tensor, tag: Tensor | None = None) -> Any:
        """(b, s) symbols, (b, s) bool and (b,) tags -> the state before the first step."""

    def decode_step(
        self, inputs: Tensor, state: Any, need_weights: bool = False
    ) -> tuple[Tensor, Any, AttentionOutput]:
        """(b, ...) the last output -> the next one's prediction (b, width), the next state, and the attention (q = 1).

        Of symbols: ids (b,) -> log-probabilities (b, symbols), in a tensor that its caller may write into. Searches
        read the weights of the attention and not its context.
        """

    def select_rows(self, state: Any, rows: Tensor) -> Any:
        """The state of these rows: int64 indices, which may repeat."""

    def source_shares(self, state: Any) -> Tensor | None:
        """(b, s) the share of each source step in the position that attention reads for it; None if all are 1.

        The weights of a step are this share of its position's; the shares of a position's steps sum to 1.
        """

    def reorder_beams(self, state: Any, rows: Tensor) -> Any:
        """The state with each row replaced by one of the same source: as :meth:`select_rows`, but need not copy memory.

        Args:
            state: of any rows.
            rows: int64 indices, as many as the state has rows; each row and its replacement have the same source.
        """


class DecodeResult(NamedTuple):
    """What a search found: n hypotheses for each row of the batch, best first.

    Where a row has fewer than n the length is 0, and score and log-probability are -inf.
    """

    # (b, n, t) int64 symbols, each ended by EOS (unless cut off by its limit) and padded with PAD; or (b, n, t, f)
    # scaled numbers, padded with zeros
    sequences: Tensor
    lengths: Tensor  # (b, n) int64, how many steps each has, its EOS included
    # (b, n) the model's own log-probability of each, its EOS included; where numbers are written, of going on and of
    # ending where it did
    log_probability: Tensor
    score: Tensor  # (b, n) what they are ranked by
    # (b, n, t, m) attention weights of the paths taken, or None; (b, n, h, t, m) with several heads. The first
    # columns are the source's positions, the rest the decoder's own states, as far as the memory holds them.
    weights: Tensor | None


class Search(Protocol):
    """How an output is looked for; a part of kind ``decoding``."""

    def check(self, model: StepModel) -> None:
        """Raise a UserError, before anything is trained, if the search cannot do with a model what it was asked for."""

    def __call__(
        self,
        model: StepModel,
        source: Tensor,
        source_mask: Tensor,
        tag: Tensor | None = None,
        need_weights: bool = False,
        prefix: Tensor | None = None,
        token_filter: NextTokenFilter | None = None,
    ) -> DecodeResult:
        """Search a batch.

        Args:
            model: what is searched, in evaluation mode.
            source: (b, s) symbols, or (b, s, features).
            source_mask: (b, s) bool.
            tag: (b,) int64, if there are tags.
            need_weights: also return the attention weights.
            prefix: (b, p) int64, how each row must begin, padded behind with PAD.
            token_filter: says what may come next.
        """
