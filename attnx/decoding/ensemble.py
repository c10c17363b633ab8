"""Several models that decode as one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnx.attention import AttentionOutput
from attnx.decoding.contracts import StepModel
from attnx.errors import UserError
from attnx.nn.targets.symbols import Symbols


class Ensemble(nn.Module):
    """The mean of what several models predict at each step: of their probabilities, or of their numbers.

    Formula: ``p(y_t | y_<t, x) = 1/n sum_i p_i(y_t | y_<t, x)``
    Source: Sutskever et al. 2014, section 3.6, https://arxiv.org/abs/1409.3215

    Their weights are averaged where they read alike; else there are none. Heads have no order that two models share, so
    of several it is their mean that is averaged; the slots of an entity net only where words name them
    (:attr:`attnx.decoding.contracts.StepModel.views`). That symbols mean the same to all of them is for whoever brings
    them together to check.

    Args:
        models: one or more, each of kind :class:`StepModel`.

    Raises:
        UserError: their targets differ.
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        first, *others = self._members
        for other in others:
            if other.target != first.target:
                raise UserError(f"an ensemble writes one thing, but its models write {first.target} and {other.target}")
        self.sources, self.target = first.sources, first.target
        self.sums_to_one = all(model.sums_to_one for model in self._members)

    @property
    def _members(self) -> list[StepModel]:
        return list(self.models)  # type: ignore[arg-type]

    def init_state(self, source: Tensor, present: Tensor, tag: Tensor | None = None) -> tuple[Any, ...]:
        """The states of all, before the first step."""
        return tuple(model.init_state(source, present, tag) for model in self._members)

    def decode_step(
        self, inputs: Tensor, state: tuple[Any, ...], need_weights: bool = False
    ) -> tuple[Tensor, tuple[Any, ...], AttentionOutput]:
        """As :meth:`StepModel.decode_step`, the mean of all; the context is the first one's."""
        asked = zip(self._members, state, strict=True)
        predicted, states, reads = zip(
            *(model.decode_step(inputs, own, need_weights) for model, own in asked), strict=True
        )
        told = torch.stack(predicted)
        mean = told.logsumexp(0) - math.log(len(told)) if isinstance(self.target, Symbols) else told.mean(0)
        return mean, states, AttentionOutput(reads[0].context, self._mean_weights(reads))

    def _mean_weights(self, reads: Sequence[AttentionOutput]) -> Tensor | None:
        """None where not all have read the same positions, in the same order."""
        weights = [read.weights for read in reads if read.weights is not None]
        alike = len({tuple(one.shape) for one in weights}) == len({model.sources for model in self._members}) == 1
        views = {getattr(model, "views", "heads") for model in self._members}
        if not alike or len(weights) < len(reads) or "nameless" in views:
            return None
        mean = torch.stack(weights).mean(0)
        return mean.mean(1) if mean.dim() == 4 and views == {"heads"} else mean

    def select_rows(self, state: tuple[Any, ...], rows: Tensor) -> tuple[Any, ...]:
        """As :meth:`StepModel.select_rows`."""
        return tuple(model.select_rows(own, rows) for model, own in zip(self._members, state, strict=True))

    def reorder_beams(self, state: tuple[Any, ...], rows: Tensor) -> tuple[Any, ...]:
        """As :meth:`StepModel.reorder_beams`."""
        return tuple(model.reorder_beams(own, rows) for model, own in zip(self._members, state, strict=True))
