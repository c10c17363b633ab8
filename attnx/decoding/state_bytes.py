"""How many bytes a model keeps of what it has read: a KV cache, which grows, or a state of fixed size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attnx.decoding.contracts import StepModel

TAKEN = 3  # steps; the first one or two may differ, since a KV cache begins with the second


@torch.no_grad()
def state_bytes(model: StepModel, source: Tensor, steps: int) -> int:
    """How many bytes of numbers a model keeps of a row, after a source and so many steps.

    They are those of its state in decoding: keys and values, a mixer's state, a recurrence's; masks and counters do not
    count. Three steps are taken. Each later one adds what the third adds, since a memory grows evenly or not at all.

    Args:
        model: in evaluation mode.
        source: (1, s) symbols, or (1, s, features), on the model's device; a model without a source does not read it.
        steps: of the target, 1 or more; of a decoder-only model without a source they are the context.

    >>> from attnx.models.transformer.model import Transformer, TransformerConfig
    >>> from attnx.nn.targets.symbols import Symbols
    >>> options = TransformerConfig(form="decoder_only", hidden_size=16, layers=6)
    >>> model = Transformer(None, Symbols(17), options).eval()
    >>> state_bytes(model, torch.zeros(1, 0, dtype=torch.int64), steps=100)  # 6 layers, a key and a value of 16 floats
    76800
    """
    mask = torch.ones(source.shape[:2], dtype=torch.bool, device=source.device)
    state, sizes = model.init_state(source, mask), []
    for _ in range(min(steps, TAKEN)):
        _, state, _ = model.decode_step(model.target.start_input(1, source.device), state)
        sizes.append(count_bytes(state))
    return sizes[-1] + (steps - TAKEN) * (sizes[-1] - sizes[-2]) if steps > TAKEN else sizes[-1]


def count_bytes(state: Any) -> int:
    """The bytes of all floating-point tensors of a state; one that stands in two places counts once."""
    tensors = {id(tensor): tensor for tensor in _numbers(state)}.values()
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _numbers(tree: Any) -> Iterator[Tensor]:
    """The floating-point tensors in a state."""
    if isinstance(tree, tuple):
        for part in tree:
            yield from _numbers(part)
    elif isinstance(tree, Tensor) and tree.is_floating_point():
        yield tree
