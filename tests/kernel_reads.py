"""Reads by one kernel and by the definition, which are the same."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attnx import accel
from attnx.attention import AttentionOutput, Memory


def by_kernel(plain: Any, kernel: type) -> Any:
    """A copy of an attention that reads by a kernel alone."""
    fast: Any = accel.enable(copy.deepcopy(plain))
    fast.kernels = tuple(part for part in fast.kernels if isinstance(part, kernel))
    assert fast.kernels
    return fast


def assert_same_reads(
    fast: Any, plain: Any, tensors: Sequence[Tensor], remember: Callable[[Any, Tensor, Tensor], Memory], **options: Any
) -> None:
    """Of queries, states and values all that is read and all gradients agree, and the context without gradients."""
    queries, states, values = tensors
    result = []
    for attention in (fast, plain):
        read: AttentionOutput = attention(queries, remember(attention, states, values), **options)
        parts = [part for part in read if part is not None]
        loss = sum((torch.linspace(-1, 1, part.numel()).view_as(part) * part).sum() for part in parts)
        learned = [*tensors, *(parameter for parameter in attention.parameters() if parameter.requires_grad)]
        result.append((*parts, *torch.autograd.grad(loss, learned, materialize_grads=True)))
    assert all(tensor.isfinite().all() for tensor in result[0])
    torch.testing.assert_close(result[0], result[1])
    with torch.no_grad():
        again = fast(queries, remember(fast, states, values), **options).context
    torch.testing.assert_close(again, result[1][0])
