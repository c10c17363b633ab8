"""The decoder's state between two steps."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from attnx.attention import AttentionHistory, Memory
from attnx.nn.recurrent import State
from attnx.nn.spans import Spans


class DecoderState(NamedTuple):
    """The state of a decoder. Every tensor has the batch as its first axis, so that rows can be selected."""

    memory: Memory  # what attention may read; it grows where the decoder's own states are in it
    rnn_state: State  # of every layer of the recurrence
    context: Tensor  # (b, v) the last context
    # (b, f) the last readout, which enters the recurrence at the next step; None unless ``feed=next``
    input_feed: Tensor | None
    tag_embedding: Tensor | None  # (b, g) enters the recurrence at every step; None unless ``model.tag_inputs`` says so
    tag: Tensor  # (b,) int64, the index of each row's tag
    step: Tensor  # (b,) int64, how many steps were taken
    history: AttentionHistory | None  # for a scorer that reads earlier weights, and for recurrent parts
    spans: Spans | None = None  # the steps of the memory's encoder states; None if every step has a state
    # (b, s) int64, the target ids that the output layer may copy from the source; None if it copies none
    copy_ids: Tensor | None = None

    @property
    def top_hidden(self) -> Tensor:
        """(b, d), h of the top layer."""
        return self.rnn_state[-1][0]
