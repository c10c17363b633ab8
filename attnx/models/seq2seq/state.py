"""Where the decoder of :mod:`attnx.models.seq2seq.model` stands between two steps, and what a whole pass gives."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from attnx.attention import AttentionHistory, Memory
from attnx.models.seq2seq.folded import Folded
from attnx.nn.recurrent import State


class DecoderState(NamedTuple):
    """Where a decoder stands; every tensor has the batch as its first axis, so that rows can be reordered.

    Attributes:
        memory: what may be read; it grows where the decoder's own states are in it.
        cell: the recurrence's state, per layer.
        context: (b, v) the last context.
        fed: (b, f) what enters the recurrence at the next step besides the token; width 0 unless ``feed=next``.
        told: (b, g) what enters at every step: the embedded tag; width 0 unless ``model.tag_inputs`` says so.
        tag: (b,) int64, the number of each row's tag.
        at: (b,) int64, how many steps were taken.
        past: how the memory was read so far, for a scorer that needs it.
        shared: how many rows, which lie together, share a row of the memory.
        folded: what steps need where the memory holds no values but what is made of them.
        shares: (b, s) of each step of the source in the weight of the state that stands for it; None if each has one.
        symbols: (b, s) int64, what the output layer may copy of the source; None if it copies nothing.
        parents: (b,) int64, from which row each one was picked: those of one parent have one cell. None if that is not
            known, or a step was taken since.
    """

    memory: Memory
    cell: State
    context: Tensor
    fed: Tensor
    told: Tensor
    tag: Tensor
    at: Tensor
    past: AttentionHistory | None
    shared: int = 1
    folded: Folded | None = None
    shares: Tensor | None = None
    symbols: Tensor | None = None
    parents: Tensor | None = None


class Output(NamedTuple):
    """A teacher-forced pass.

    Attributes:
        logits: (b, t, symbols); of a target of numbers, these and the logit of the end (b, t, features + 1). Of an
            output layer that copies they are log-probabilities, which are their own logits.
        weights: (b, t, m) if asked for; (b, h, t, m) with several heads.
        penalty: (b, t) what the scorer adds to the loss at each step, or None.
    """

    logits: Tensor
    weights: Tensor | None
    penalty: Tensor | None
