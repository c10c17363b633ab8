"""The search ``greedy``."""

from __future__ import annotations

import torch
from torch import Tensor

from attnx.attention.memory import all_steps
from attnx.decoding.step_model import Decoded, StepModel
from attnx.registry import Natural, Rate, register
from attnx.symbols import PAD


@register("search", "greedy")
class Greedy:
    """Take the likeliest symbol at every step, or the row of numbers that the model gives.

    Formula: ``y_t = argmax_y p(y | y_<t, x)``
    Source: Sutskever et al. 2014, section 3.2 with beam 1, https://arxiv.org/abs/1409.3215

    A sequence ends at EOS (one of numbers with the row that is likelier the last one than not), or after ``ratio``
    times its source's length plus ``extra`` steps. The limit is each one's own, so that the batch it happens to be in
    changes nothing.
    """

    def __init__(self, ratio: Rate = 2.0, extra: Natural = 5) -> None:
        self.ratio, self.extra = ratio, extra

    @torch.no_grad()
    def __call__(
        self, model: StepModel, source: Tensor, present: Tensor, tag: Tensor | None = None, need_weights: bool = False
    ) -> Decoded:
        """Decode a batch: (b, s) symbols or (b, s, features), (b, s) bool, and (b,) tags if there are any."""
        limit = (present.sum(-1) * self.ratio).long() + self.extra
        state = model.begin(source, present, tag)
        inputs = model.target.first(len(limit), source.device)
        running, lengths = torch.ones_like(limit, dtype=torch.bool), torch.zeros_like(limit)
        total = torch.zeros(len(limit), device=source.device)
        written, weights = [], []
        for step in range(int(limit.max())):
            predicted, state, read = model.step(inputs, state, need_weights)
            inputs, score, ended = model.target.pick(predicted)
            inputs[~running] = PAD
            total = total + torch.where(running, score, 0.0)
            lengths = lengths + running
            written.append(inputs)
            weights.append(read.weights)
            running = running & ~ended & (step + 1 < limit)
            if not running.any():
                break
        held = [one for one in weights if one is not None]
        return Decoded(torch.stack(written, dim=1), lengths, total, all_steps(held) if held else None)
