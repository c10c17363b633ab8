"""The target of probes: a label for each step of what the decoder reads."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.data.vocabulary import SPECIALS
from attnx.nn.contracts import GreedyStep
from attnx.nn.position_encoding import sinusoidal
from attnx.nn.sublayers import NORMS
from attnx.nn.targets.single_label import label_log_probs
from attnx.nn.targets.symbols import Symbols


@dataclass(frozen=True)
class StepLabels(Symbols):
    """A symbol, special tokens excepted, for each step of the input, which the decoder reads up to that step.

    Formula: ``p(y_t | x_<=t) = softmax(o_t), loss = -sum over marked t of log p(y_t)``
    """

    def decoder_inputs(self, source: Tensor, target: Tensor) -> Tensor:
        """The source: a label belongs to its own step."""
        return source

    def step_losses(self, outputs: Tensor, target: Tensor, target_mask: Tensor, label_smoothing: float = 0.0) -> Tensor:
        """Cross-entropy of each step over the symbols, 0 where the mask is False."""
        labels = (target - len(SPECIALS)).masked_fill(~target_mask, -1)
        logits = outputs[..., len(SPECIALS) :].flatten(0, 1)
        losses = F.cross_entropy(
            logits, labels.flatten(), ignore_index=-1, reduction="none", label_smoothing=label_smoothing
        )
        return losses.view(target.shape)

    def predict(self, outputs: Tensor) -> Tensor:
        """Logits -> log-probabilities; -inf for special tokens."""
        return label_log_probs(outputs)

    def greedy(self, predictions: Tensor) -> GreedyStep:
        """The likeliest symbol of each row (n, width); no step is the last."""
        step = super().greedy(predictions)
        return step._replace(is_last=torch.zeros_like(step.is_last))


@dataclass(frozen=True)
class CompressedLabels(StepLabels):
    """Labels of all marked steps, from the state of the last one alone.

    Formula: ``p(y_t | x_<=T) = softmax(O z_t)``, T the last marked step, z_t of :class:`PositionDecoder`
    """

    def marked_states(self, size: int) -> nn.Module:
        """Decoded from the last state, by the positions of the steps."""
        return PositionDecoder(size)


class PositionDecoder(nn.Module):
    """A small network that is given the state of the last marked step, and which step to write.

    Formula: ``z_t = N f(V N f(W N (h_T + p_t) + a) + b), f = GELU``, N a normalization by the root of the mean square
    Source: Poli et al. 2024, section 3.1 and their program, https://arxiv.org/abs/2403.17844
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        maps = [[NORMS["rms"](size), nn.Linear(size, size), nn.GELU()] for _ in range(2)]
        self.layers = nn.Sequential(*maps[0], *maps[1], NORMS["rms"](size))

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(b, t, size) and a mask (b, t) of n steps -> (n, size), in the order of rows."""
        rows, steps = mask.nonzero(as_tuple=True)
        last = (mask * torch.arange(mask.shape[1], device=mask.device)).amax(1)  # (b,)
        ends = states[torch.arange(len(states), device=last.device), last]  # (b, size)
        vectors: Tensor = self.layers(ends[rows] + sinusoidal(steps, states.shape[-1]).to(ends.dtype))
        return vectors
