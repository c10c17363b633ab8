"""Step-by-step decoding of independent rows, for greedy search and sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnx.attention.memory import stack_step_weights
from attnx.decoding.constraints import DecodingConstraints
from attnx.decoding.contracts import DecodeResult, StepModel
from attnx.decoding.hypotheses import group_by_source
from attnx.nn.targets.contract import GreedyStep
from attnx.nn.targets.symbols import Symbols

Pick = Callable[[Tensor, Tensor, int], GreedyStep]
"""Predictions (r, width), the index of each row (r,) and the step -> the outputs of the step."""


def decode_stepwise(
    model: StepModel, start: Any, limit: Tensor, copies: int, need_weights: bool, rules: DecodingConstraints, pick: Pick
) -> DecodeResult:
    """Write every row to its end or its limit; finished rows are dropped.

    Args:
        model: decodes.
        start: its state before the first step, a row for each source.
        limit: (b,) the maximum steps of each source's rows.
        copies: how many rows are written from each source.
        need_weights: also return the attention weights.
        rules: what may be written.
        pick: picks a step from predictions.
    """
    sources = torch.arange(len(limit), device=limit.device).repeat_interleave(copies)
    state, limit = start if copies == 1 else model.select_rows(start, sources), limit[sources]
    inputs = model.target.start_input(len(limit), limit.device)
    written = inputs.new_zeros(len(limit), 0, *inputs.shape[1:])
    lengths, total = torch.zeros_like(limit), torch.zeros(len(limit), device=limit.device)
    active = torch.arange(len(limit), device=limit.device)
    step_weights: list[Tensor] = []
    step = 0
    while len(active):
        predicted, state, attention = model.decode_step(inputs, state, need_weights)
        if isinstance(model.target, Symbols):
            rules.apply_(predicted, written[active, :step], sources[active])
        inputs, score, is_last = pick(predicted, active, step)
        if not step:  # an output may be wider than the first input: of quantiles one is read, and all are written
            written = written.new_zeros(len(limit), int(limit.max()), *inputs.shape[1:])
        written[:, step].index_copy_(0, active, inputs.to(written.dtype))
        total.index_add_(0, active, score.to(total.dtype))
        if need_weights and attention.weights is not None:
            all_rows = attention.weights.new_zeros(len(limit), *attention.weights.shape[1:])
            step_weights.append(all_rows.index_copy(0, active, attention.weights))
        step += 1
        is_last = is_last | (limit[active] == step)
        lengths.index_fill_(0, active, step)
        remaining = (~is_last).nonzero()[:, 0]
        if 0 < len(remaining) < len(active):
            state, inputs = model.select_rows(state, remaining), inputs[remaining]
        active = active[remaining]
    weights = stack_step_weights(step_weights) if step_weights else None
    return group_by_source(DecodeResult(written[:, :step], lengths, total, total, weights), copies)
