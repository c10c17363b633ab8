"""The decoder's state between two steps, and the output of a teacher-forced pass."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from attnx.attention import AttentionHistory, Memory
from attnx.nn.recurrent import State


class DecoderState(NamedTuple):
    """The state of a decoder. Every tensor has the batch as its first axis, so that rows can be selected.

    Attributes:
        memory: what attention may read; it grows where the decoder's own states are in it.
        rnn_state: of every layer of the recurrence.
        context: (b, v) the last context.
        input_feed: (b, f) the last readout, which enters the recurrence at the next step; None unless ``feed=next``.
        tag_embedding: (b, g) enters the recurrence at every step; None unless ``model.tag_inputs`` says so.
        tag: (b,) int64, the index of each row's tag.
        step: (b,) int64, how many steps were taken.
        history: previous attention weights, for a scorer that needs them.
        pyramid_shares: (b, s) the share of each source step in the weight of the state that stands for it; None if
            every step has a state.
        copy_ids: (b, s) int64, the target ids that the output layer may copy from the source; None if it copies none.
    """

    memory: Memory
    rnn_state: State
    context: Tensor
    input_feed: Tensor | None
    tag_embedding: Tensor | None
    tag: Tensor
    step: Tensor
    history: AttentionHistory | None
    pyramid_shares: Tensor | None = None
    copy_ids: Tensor | None = None

    @property
    def top_hidden(self) -> Tensor:
        """(b, d), h of the top layer."""
        return self.rnn_state[-1][0]


class Output(NamedTuple):
    """A teacher-forced pass.

    Attributes:
        logits: (b, t, symbols); of a target of numbers, these and the logit of the end (b, t, features + 1). Of an
            output layer that copies they are log-probabilities, which are their own logits.
        weights: (b, t, m) if requested; (b, h, t, m) with several heads.
        penalty: (b, t) the scorer's term of the loss at each step, or None.
    """

    logits: Tensor
    weights: Tensor | None
    penalty: Tensor | None
