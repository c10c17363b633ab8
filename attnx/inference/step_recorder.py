"""A step model that records what a search has it compute: beginnings of outputs, and what attention reads for each."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from attnx.attention.attention import Attention
from attnx.attention.types import AttentionInputs, AttentionOutput
from attnx.decoding.contracts import StepModel
from attnx.nn.targets.symbols import Symbols

NO_PARENT = -1
CALL = inspect.signature(Attention.forward)


@dataclass
class Beginning:
    """A beginning of an output, by its last symbol, and what the model computed to continue it."""

    parent: int  # the index of the beginning without its last symbol; NO_PARENT of the empty one
    token: int  # the id of its last symbol; 0 for rows of numbers
    prediction: Tensor  # (symbols,) log-probabilities of the next one, or numbers
    read: AttentionRead | None  # of one row: (h, ...)
    next: dict[int, int] = field(default_factory=dict)  # the indices of beginnings that are longer by a symbol, by id


def follow(beginnings: Sequence[Beginning], tokens: Sequence[int]) -> list[int] | None:
    """The index of the beginning before each symbol of an output; None if one was not recorded."""
    indices: list[int] = []
    index = 0 if beginnings else None
    for token in tokens:
        if index is None:
            return None
        indices.append(index)
        index = beginnings[index].next.get(token)
    return indices


class RecorderState(NamedTuple):
    """The model's state, and the beginning (r,) int64 that each row continues; NO_PARENT before the first step."""

    model_state: Any
    parents: Tensor


class StepRecorder(nn.Module):
    """Decodes one source as ``model`` does, and records its steps: equal beginnings of several rows once, in order."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = cast("StepModel", model)
        self.sources, self.target = self.model.sources, self.model.target
        self.is_distribution = self.model.is_distribution
        self.beginnings: list[Beginning] = []

    def init_state(self, source: Tensor, source_mask: Tensor, tag: Tensor | None = None) -> RecorderState:
        """The model's first state."""
        state = self.model.init_state(source, source_mask, tag)
        return RecorderState(state, torch.full((len(source),), NO_PARENT))

    def decode_step(
        self, inputs: Tensor, state: RecorderState, need_weights: bool = False
    ) -> tuple[Tensor, RecorderState, AttentionOutput]:
        """The model's step; its predictions are copied, since a search may write into them."""
        with record_reads(cast("nn.Module", self.model)) as reads:
            predicted, model_state, attention = self.model.decode_step(inputs, state.model_state, need_weights)
        read, copies = join_heads(reads, len(inputs)), predicted.clone()
        tokens = inputs.tolist() if isinstance(self.target, Symbols) else [0] * len(inputs)
        current = []
        for row, (parent, token) in enumerate(zip(state.parents.tolist(), tokens, strict=True)):
            own = None if read is None else AttentionRead._make(None if part is None else part[row] for part in read)
            index = len(self.beginnings)
            if parent != NO_PARENT:
                index = self.beginnings[parent].next.setdefault(token, index)
            elif self.beginnings:
                index = 0
            if index == len(self.beginnings):  # no other row had it
                self.beginnings.append(Beginning(parent, token, copies[row], own))
            current.append(index)
        return predicted, RecorderState(model_state, torch.tensor(current)), attention

    def select_rows(self, state: RecorderState, rows: Tensor) -> RecorderState:
        """As :meth:`StepModel.select_rows`."""
        return RecorderState(self.model.select_rows(state.model_state, rows), state.parents[rows])

    def reorder_beams(self, state: RecorderState, rows: Tensor) -> RecorderState:
        """As :meth:`StepModel.reorder_beams`."""
        return RecorderState(self.model.reorder_beams(state.model_state, rows), state.parents[rows])

    def source_shares(self, state: RecorderState) -> Tensor | None:
        """As :meth:`StepModel.source_shares`."""
        return self.model.source_shares(state.model_state)

    def path(self, tokens: list[int]) -> list[Beginning] | None:
        """The beginnings of an output, from the empty one to that before its last symbol; None if one is missing."""
        indices = follow(self.beginnings, tokens)
        return None if indices is None else [self.beginnings[index] for index in indices]


class AttentionRead(NamedTuple):
    """One read (q = 1) by every row, in h heads."""

    queries: Tensor  # (r, h, q)
    scores: Tensor  # (r, h, m)
    allowed_mask: Tensor  # (r, h, m) bool
    weights: Tensor  # (r, h, m)
    gain: Tensor | None  # (r, h, m), or None if no scope multiplies weights
    context: Tensor  # (r, h, v)


@contextmanager
def record_reads(model: nn.Module) -> Iterator[list[AttentionRead]]:
    """List the reads whose weights are requested, in the order of the calls, until the context ends.

    A head of several that are computed as rows of one call is a row: (r h, 1, ...). The model computes what it always
    does: hooks look at its attention by the definition, so its fast paths are to be disabled first.
    """
    reads: list[AttentionRead] = []

    def record(attention: nn.Module, args: Any, kwargs: dict[str, Any], output: AttentionOutput) -> None:
        assert isinstance(attention, Attention)
        if output.weights is None or output.scores is None:
            return
        call = CALL.bind(attention, *args, **kwargs).arguments
        queries, memory, steps = call["queries"], call["memory"], call.get("steps")
        steps = torch.arange(queries.shape[1]) if steps is None else steps
        mask = attention.scope_mask(AttentionInputs(queries, queries, memory, steps, call.get("allowed_mask")))
        allowed_mask = mask.allowed_mask.expand_as(output.scores)
        gain = None if mask.gain is None else mask.gain.expand_as(output.scores)
        reads.append(AttentionRead(queries, output.scores, allowed_mask, output.weights, gain, output.context))

    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    hooks = [attention.register_forward_hook(record, with_kwargs=True) for attention in attentions]
    try:
        yield reads
    finally:
        for hook in hooks:
            hook.remove()


def join_heads(reads: Sequence[AttentionRead], rows: int) -> AttentionRead | None:
    """The reads of a step as one, their heads in the order of the calls, as in saved weights."""
    if not reads:
        return None

    def join(fields: Sequence[Tensor | None]) -> Tensor | None:
        parts = [field.reshape(rows, len(field) // rows, field.shape[-1]) for field in fields if field is not None]
        return torch.cat(parts, 1) if len(parts) == len(reads) else None

    joined: Any = [join(fields) for fields in zip(*reads, strict=True)]
    return AttentionRead(*joined)
