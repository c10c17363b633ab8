"""What searches share: constraints on outputs, and step-by-step decoding of independent rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from attnx.attention.memory import stack_step_weights
from attnx.data.output_limit import OutputLimit
from attnx.decoding.constraints import DecodingConstraints
from attnx.decoding.contracts import DecodeResult, NextTokenFilter, StepModel
from attnx.decoding.hypotheses import group_by_source
from attnx.decoding.select import CONSTRAINT_OPTIONS
from attnx.nn.contracts import GreedyStep
from attnx.nn.targets.symbols import Symbols
from attnx.registry import NonNegativeInt
from attnx.registry.option_types import LengthRatio, StepCount

Pick = Callable[[Tensor, Tensor, int], GreedyStep]
"""Predictions (r, width), the index of each row (r,) and the step -> the outputs of the step."""

FIRST_ROOM = 16
"""For how many steps there is room at first."""


class SearchInputs(NamedTuple):
    """A batch to search: arguments of :class:`Search`, and what follows from them."""

    model: StepModel
    state: object  # the model's before the first step, a row for each source
    source: Tensor
    source_mask: Tensor
    limit: Tensor  # (b,) the maximum steps of each row
    constraints: DecodingConstraints  # the constraints on outputs
    need_weights: bool


@dataclass(frozen=True, kw_only=True)
class ConstrainedSearch(ABC):
    """A :class:`attnx.decoding.contracts.Search`, a dataclass with the options of :class:`DecodingConstraints`."""

    max_length_ratio: LengthRatio | None = None
    max_length_extra: StepCount | None = None
    min_length: StepCount = 0
    no_repeat_ngram_size: NonNegativeInt = 0

    def constraints(self, model: StepModel, **for_batch: Any) -> DecodingConstraints:
        """The constraints on outputs of a model; for one batch, with its ``prefix`` and ``token_filter``."""
        options = {name: getattr(self.with_limit(OutputLimit()), name) for name in CONSTRAINT_OPTIONS}
        return DecodingConstraints(**options, **for_batch, steps=model.target.steps)

    def with_limit(self, limit: OutputLimit) -> Self:
        """The search with the length limits of the training data, where its options leave them unset."""
        ratio, extra = self.max_length_ratio, self.max_length_extra
        ratio, extra = limit.ratio if ratio is None else ratio, limit.extra if extra is None else extra
        return replace(self, max_length_ratio=ratio, max_length_extra=extra)

    def check(self, model: StepModel) -> None:
        """As :meth:`Search.check`: constraints on symbols need symbols."""
        self.constraints(model).check(model)

    @torch.no_grad()
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
        """As :class:`Search`."""
        self.check(model)
        constraints = self.constraints(model, prefix=prefix, token_filter=token_filter)
        constraints.check(model)
        state, limit = model.init_state(source, source_mask, tag), constraints.limit(source_mask)
        return self.search(SearchInputs(model, state, source, source_mask, limit, constraints, need_weights))

    @abstractmethod
    def search(self, inputs: SearchInputs) -> DecodeResult:
        """Search a batch."""


def decode_stepwise(inputs: SearchInputs, copies: int, pick: Pick) -> DecodeResult:
    """Write every row to its end or its limit; finished rows are dropped.

    ``copies`` rows are written from each source; ``pick`` picks a step from predictions.
    """
    model, state, need_weights, limit = inputs.model, inputs.state, inputs.need_weights, inputs.limit
    sources = torch.arange(len(limit), device=limit.device).repeat_interleave(copies)
    state, limit = state if copies == 1 else model.select_rows(state, sources), limit[sources]
    tokens = model.target.start_input(len(limit), limit.device)
    sequences = tokens.new_zeros(len(limit), 0)
    lengths, total = torch.zeros_like(limit), torch.zeros(len(limit), device=limit.device)
    active = torch.arange(len(limit), device=limit.device)
    step_weights: list[Tensor] = []
    step = 0
    while len(active):
        predicted, state, attention = model.decode_step(tokens, state, need_weights)
        if isinstance(model.target, Symbols):
            inputs.constraints.apply_(predicted, sequences[active, :step], sources[active])
        tokens, score, is_last = pick(predicted, active, step)
        if step == sequences.shape[1]:  # make room for as many steps again: the limit may be far beyond the end
            # An output may be wider than the first input: of quantiles one is read, and all are written.
            room = sequences.new_zeros(len(limit), max(step, FIRST_ROOM), *tokens.shape[1:])
            sequences = torch.cat([sequences, room], dim=1) if step else room
        sequences[:, step].index_copy_(0, active, tokens.to(sequences.dtype))
        total.index_add_(0, active, score.to(total.dtype))
        if need_weights and attention.weights is not None:
            all_rows = attention.weights.new_zeros(len(limit), *attention.weights.shape[1:])
            step_weights.append(all_rows.index_copy(0, active, attention.weights))
        step += 1
        lengths.index_fill_(0, active, step)
        remaining = (~(is_last | (limit[active] == step))).nonzero()[:, 0]
        if 0 < len(remaining) < len(active):
            state, tokens = model.select_rows(state, remaining), tokens[remaining]
        active = active[remaining]
    weights = stack_step_weights(step_weights) if step_weights else None
    return group_by_source(DecodeResult(sequences[:, :step], lengths, total, total, weights), copies)
