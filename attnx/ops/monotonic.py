"""Alignments of consecutive steps that move through the positions of a row from left to right."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from attnx.ops.normalize import at_least_float32, masked_normalize


def start_alignment(memory_mask: Tensor) -> Tensor:
    """One-hot at the first real position, where every alignment starts: (b, m) bool -> (b, m).

    >>> start_alignment(torch.tensor([[False, True, True], [False, False, False]]))
    tensor([[0., 1., 0.],
            [0., 0., 0.]])
    """
    return (memory_mask & (memory_mask.long().cumsum(-1) == 1)).float()


def choice_probabilities(energies: Tensor, allowed_mask: Tensor, noise: float, is_hard: bool) -> Tensor:
    """The sigmoid of energies (b, q, m), 0 where forbidden, in single precision at least.

    Args:
        energies: (b, q, m).
        allowed_mask: (b, q, m) bool.
        noise: standard deviation of Gaussian noise that is added to the energies.
        is_hard: round each to 0 or 1, without noise.

    >>> energies, allowed_mask = torch.tensor([[[0.0, -1.0, 9.0]]]), torch.tensor([[[True, True, False]]])
    >>> choice_probabilities(energies, allowed_mask, noise=0.0, is_hard=False)
    tensor([[[0.5000, 0.2689, 0.0000]]])
    >>> choice_probabilities(energies, allowed_mask, noise=1.0, is_hard=True)
    tensor([[[1., 0., 0.]]])
    """
    energies = energies.to(at_least_float32(energies.dtype))
    if noise and not is_hard:
        energies = energies + noise * torch.randn_like(energies)
    probabilities = masked_normalize(torch.sigmoid, energies, allowed_mask)
    return (probabilities >= 0.5).to(probabilities.dtype) if is_hard else probabilities


def monotonic_alignment(stop: Tensor, start: Tensor) -> Tensor:
    """How probable it is that each step ends at a position, if it moves on from where the step before ended.

    Position j is reached with the probability ``q_j = (1 - stop_{j-1}) q_{j-1} + previous_j``, which
    :func:`linear_scan` computes for all positions at once, and is where the step ends with ``stop_j q_j``.

    Args:
        stop: (b, q, m), the probability to stop at a position once it is reached.
        start: (b, m), the alignment before the first step.

    Returns:
        (b, q, m) alignments, none of which sums to more than the one before.

    >>> monotonic_alignment(torch.full((1, 2, 3), 0.5), torch.tensor([[1.0, 0.0, 0.0]]))
    tensor([[[0.5000, 0.2500, 0.1250],
             [0.2500, 0.2500, 0.1875]]])
    """
    rounds = [product.unbind(1) for product in decay_products(1 - F.pad(stop, (1, 0))[..., :-1])]
    alignment, alignments = start.to(stop.dtype).expand(stop.shape[0], -1), []
    for step, probability in enumerate(stop.unbind(1)):
        alignment = probability * linear_scan(alignment, [products[step] for products in rounds])
        alignments.append(alignment)
    return torch.stack(alignments, 1)


def hard_monotonic_alignment(stop: Tensor, start: Tensor) -> Tensor:
    """:func:`monotonic_alignment` where each probability is 0 or 1: the first stop from the last position on, or none.

    It needs no rounds, whose number would depend on the row's length: a traced program fits rows of any length.

    Args:
        stop: (b, q, m), 0 or 1.
        start: (b, m), one-hot or zeros.

    >>> stop = torch.tensor([[[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]])
    >>> hard_monotonic_alignment(stop, torch.tensor([[1.0, 0.0, 0.0]]))
    tensor([[[1., 0., 0.],
             [0., 1., 0.],
             [0., 0., 0.]]])
    """
    alignment, alignments = start.to(stop.dtype), []
    for stop_here in stop.unbind(1):
        reached = stop_here * (alignment.cumsum(-1) > 0)
        alignment = reached * (reached.cumsum(-1) == 1)
        alignments.append(alignment)
    return torch.stack(alignments, 1)


def decay_products(decays: Tensor) -> list[Tensor]:
    """What :func:`linear_scan` needs of the decays (..., m): their products over 1, 2, 4, ... consecutive positions.

    Of each product the positions are left out that have too few before them.
    """
    products, span = [], 1
    while span < decays.shape[-1]:
        products.append(decays[..., span:])
        decays = torch.cat([decays[..., :span], decays[..., span:] * decays[..., :-span]], -1)
        span *= 2
    return products


def linear_scan(inputs: Tensor, products: Sequence[Tensor]) -> Tensor:
    """``y_j = decay_j y_{j-1} + x_j`` over the last axis, y before the first position being 0.

    It takes log2(m) rounds, in each of which a position adds the decayed sum of as many positions before it as it has
    summed already. Nothing is divided and no logarithm is taken, so that decays and inputs may be 0 and their
    products may underflow: the result has the rounding of the recurrence.

    Args:
        inputs: (..., m), the x.
        products: of the decays, by :func:`decay_products`; the first decay is not read.

    >>> linear_scan(torch.tensor([1.0, 2.0, 3.0]), decay_products(torch.tensor([9.0, 0.5, 0.1])))
    tensor([1.0000, 2.5000, 3.2500])
    """
    for power, product in enumerate(products):
        span = 2**power
        later = torch.addcmul(inputs[..., span:], product, inputs[..., :-span])
        inputs = torch.cat([inputs[..., :span], later], -1)
    return inputs
