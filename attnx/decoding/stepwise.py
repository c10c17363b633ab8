"""Writes rows step by step, each on its own; what is picked at a step is the search's affair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnx.attention.memory import stack_step_weights
from attnx.decoding.constraints import DecodingConstraints
from attnx.decoding.contracts import DecodeResult, StepModel
from attnx.decoding.hypotheses import hypotheses
from attnx.nn.targets.contract import GreedyStep
from attnx.nn.targets.symbols import Symbols

Pick = Callable[[Tensor, Tensor, int], GreedyStep]
"""What is predicted (r, width), which of all rows these are (r,), and the number of the step -> what is written."""


def one_by_one(
    model: StepModel, start: Any, limit: Tensor, copies: int, need_weights: bool, rules: DecodingConstraints, pick: Pick
) -> DecodeResult:
    """Write every row to its end or its limit; one that has ended costs nothing from then on.

    Args:
        model: what is asked.
        start: its state before the first step, a row for each source.
        limit: (b,) the most steps of each source's rows.
        copies: how many rows are written from each source.
        need_weights: also return the attention weights.
        rules: what may be written.
        pick: picks a step from what is predicted.
    """
    sources = torch.arange(len(limit), device=limit.device).repeat_interleave(copies)
    # Copies end one by one, so each needs what was encoded for itself; rows that stay what they are need not.
    state, limit = (model.reorder_beams if copies == 1 else model.select_rows)(start, sources), limit[sources]
    inputs = model.target.start_input(len(limit), limit.device)
    written = inputs.new_zeros(len(limit), 0, *inputs.shape[1:])
    lengths, total = torch.zeros_like(limit), torch.zeros(len(limit), device=limit.device)
    going = torch.arange(len(limit), device=limit.device)
    reads: list[Tensor] = []
    step = 0
    while len(going):
        predicted, state, read = model.decode_step(inputs, state, need_weights)
        if isinstance(model.target, Symbols):
            rules.narrow(predicted, written[going, :step], sources[going])
        inputs, score, ended = pick(predicted, going, step)
        if not step:  # a step may be wider than what is read first: of quantiles one is read, and all are written
            written = written.new_zeros(len(limit), int(limit.max()), *inputs.shape[1:])
        written[:, step].index_copy_(0, going, inputs.to(written.dtype))
        total.index_add_(0, going, score.to(total.dtype))
        if need_weights and read.weights is not None:
            reads.append(read.weights.new_zeros(len(limit), *read.weights.shape[1:]).index_copy(0, going, read.weights))
        step += 1
        ended = ended | (limit[going] == step)
        lengths.index_fill_(0, going, step)
        left = (~ended).nonzero()[:, 0]
        if 0 < len(left) < len(going):
            state, inputs = model.select_rows(state, left), inputs[left]
        going = going[left]
    found = DecodeResult(written[:, :step], lengths, total, total, stack_step_weights(reads) if reads else None)
    return hypotheses(found, copies)
