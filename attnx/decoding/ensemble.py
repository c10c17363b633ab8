"""Several models that decode as one."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnx.attention import AttentionOutput
from attnx.decoding.contracts import StepModel
from attnx.nn.targets.symbols import Symbols


class Ensemble(nn.Module):
    """The mean of what several models predict at each step: of their probabilities, or of their numbers.

    Formula: ``p(y_t | y_<t, x) = 1/n sum_i p_i(y_t | y_<t, x)``
    Source: Sutskever et al. 2014, section 3.6, https://arxiv.org/abs/1409.3215

    Their weights are averaged where they read alike; else there are none. Heads have no order that two models share, so
    of several it is their mean that is averaged. The slots of an entity network are averaged only where words name
    them (``weights_axis`` of a :class:`attnx.decoding.contracts.StepModel`). The caller checks that all models have the
    same vocabulary and target.
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self.members: list[StepModel] = list(self.models)  # type: ignore[arg-type]
        first = self.members[0]
        self.sources, self.target = first.sources, first.target
        self.is_distribution = all(member.is_distribution for member in self.members)

    def with_members(self, members: Sequence[StepModel]) -> Ensemble:
        """The same ensemble, decoded by other step models of its members."""
        ensemble = copy.copy(self)
        ensemble.members = list(members)
        return ensemble

    def forward(
        self,
        source: Tensor,
        source_mask: Tensor,
        inputs: Tensor,
        tag: Tensor | None = None,
        need_weights: bool = False,
        source_lengths: Tensor | None = None,
        **options: Any,
    ) -> Any:
        """As :meth:`SequenceModel.forward`, the mean of all, without a penalty: an ensemble is not trained.

        The logits of symbols are log-probabilities, which are their own logits; ``options`` go to every model.
        """
        outputs = [
            model(source, source_mask, inputs, tag, need_weights, source_lengths, **options) for model in self.models
        ]
        mean = self._mean([self.target.predict(output.logits) for output in outputs])
        return outputs[0]._replace(
            logits=mean, weights=self._mean_weights([output.weights for output in outputs]), penalty=None
        )

    def init_state(self, source: Tensor, source_mask: Tensor, tag: Tensor | None = None) -> tuple[Any, ...]:
        """The states of all, before the first step."""
        return tuple(model.init_state(source, source_mask, tag) for model in self.members)

    def decode_step(
        self, inputs: Tensor, state: tuple[Any, ...], need_weights: bool = False
    ) -> tuple[Tensor, tuple[Any, ...], AttentionOutput]:
        """As :meth:`StepModel.decode_step`, the mean of all; the context is the first one's."""
        outputs = [
            member.decode_step(inputs, member_state, need_weights)
            for member, member_state in zip(self.members, state, strict=True)
        ]
        predicted, states, attentions = zip(*outputs, strict=True)
        weights = self._mean_weights([attention.weights for attention in attentions])
        return self._mean(predicted), states, AttentionOutput(attentions[0].context, weights)

    def _mean(self, predicted: Sequence[Tensor]) -> Tensor:
        """The log of the mean probabilities of symbols, or the mean numbers."""
        stacked = torch.stack(list(predicted))
        is_symbols = isinstance(self.target, Symbols)
        return stacked.logsumexp(0) - math.log(len(stacked)) if is_symbols else stacked.mean(0)

    def _mean_weights(self, members_weights: Sequence[Tensor | None]) -> Tensor | None:
        """None unless all attended to the same positions, in the same order."""
        axes = [getattr(member, "weights_axis", "heads") for member in self.members]
        weights = [
            part.mean(1) if part.dim() == 4 and axis == "heads" else part
            for part, axis in zip(members_weights, axes, strict=True)
            if part is not None
        ]
        shapes, sources = {tuple(part.shape) for part in weights}, {member.sources for member in self.members}
        if not len(shapes) == len(sources) == 1 or len(weights) < len(members_weights) or "slots" in axes:
            return None
        return torch.stack(weights).mean(0)

    def source_shares(self, state: tuple[Any, ...]) -> Tensor | None:
        """As :meth:`StepModel.source_shares`, the mean of all, which is their mean weight where all was read once."""
        pairs = zip(self.members, state, strict=True)
        shares = [member.source_shares(member_state) for member, member_state in pairs]
        known = next((part for part in shares if part is not None), None)
        if known is None:
            return None
        return torch.stack([torch.ones_like(known) if part is None else part for part in shares]).mean(0)

    def select_rows(self, state: tuple[Any, ...], rows: Tensor) -> tuple[Any, ...]:
        """As :meth:`StepModel.select_rows`."""
        pairs = zip(self.members, state, strict=True)
        return tuple(member.select_rows(member_state, rows) for member, member_state in pairs)

    def reorder_beams(self, state: tuple[Any, ...], rows: Tensor) -> tuple[Any, ...]:
        """As :meth:`StepModel.reorder_beams`."""
        pairs = zip(self.members, state, strict=True)
        return tuple(member.reorder_beams(member_state, rows) for member, member_state in pairs)
