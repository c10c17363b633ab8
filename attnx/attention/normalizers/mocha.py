"""The normalizer ``mocha``."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.attention.normalizers.monotonic import Monotonic
from attnx.ops import at_least_float32
from attnx.registry import NonNegativeFloat, PositiveFloat, PositiveInt, register

# The energy of a forbidden position: far below all others, and finite, so that no difference of two is NaN.
FORBIDDEN_ENERGY = -1e30


@register("normalizer", "mocha")
class Mocha(nn.Module):
    """``monotonic`` chooses where a chunk of positions ends; a softmax over the chunk says what is read of it.

    Formula: ``b_i,m = sum_k a_i,k exp(u_i,m) / sum_l exp(u_i,l), k from m to m + w - 1, l from k - w + 1 to k,
        u = s e / T``, a the alignment of ``monotonic``
    Source: Chiu and Raffel 2018, equations 16 to 23, https://arxiv.org/abs/1712.05382

    A chunk has ``window`` positions, w; with 1 it is ``monotonic``. The paper scores the end of a chunk and the
    positions in it by two functions. A composition has one scorer, whose scores serve both: those of the chunk are
    multiplied by a learned scalar s, at first 1. What is carried is the alignment a and not the weights b.

    >>> scores, mask = torch.tensor([[[-1.0, 1.0, 0.0]]]), torch.ones(1, 1, 3, dtype=torch.bool)
    >>> mocha = Mocha().eval()
    >>> mocha(scores, mask, mocha.init_carry(mask[:, 0]))[0].detach()
    tensor([[[0.1192, 0.8808, 0.0000]]])
    """

    is_distribution = False
    is_recurrent = True

    def __init__(
        self,
        window: PositiveInt = 2,
        noise: NonNegativeFloat = 1.0,
        bias: float = 0.0,
        temperature: PositiveFloat = 1.0,
    ) -> None:
        super().__init__()
        self.window, self.temperature = window, temperature
        self.monotonic = Monotonic(noise, bias, temperature)
        self.scale = nn.Parameter(torch.ones(()))

    def init_carry(self, memory_mask: Tensor) -> Tensor:
        """The first real position: (b, m) bool -> (b, m)."""
        return self.monotonic.init_carry(memory_mask)

    def forward(self, scores: Tensor, allowed_mask: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        """(b, q, m), their mask, and the last alignment (b, m) -> weights (b, q, m) and the last alignment."""
        wide = scores.to(at_least_float32(scores.dtype)).masked_fill(~allowed_mask, 0.0)
        alignments, carry = self.monotonic(wide, allowed_mask, carry)
        energies = (self.scale * wide / self.temperature).masked_fill(~allowed_mask, FORBIDDEN_ENERGY)
        return _weights_in_chunks(alignments, energies, self.window).to(scores.dtype), carry


def _weights_in_chunks(alignments: Tensor, energies: Tensor, window: int) -> Tensor:
    """Spread the probability (b, q, m) of each end of a chunk over the chunk, one position of all chunks at a time."""
    positions = [energies]  # of each chunk, the last one first
    for _ in range(window - 1):
        positions.append(F.pad(positions[-1], (1, 0), value=FORBIDDEN_ENERGY)[..., :-1])
    log_sums = functools.reduce(torch.logaddexp, positions)
    weights = alignments * torch.exp(energies - log_sums)
    for offset, position in enumerate(positions[1:], 1):
        share = alignments * torch.exp(position - log_sums)
        weights = weights + F.pad(share, (0, offset))[..., offset:]
    return weights
