"""Begin with the weights of another run, as ``init_from`` names it."""

from __future__ import annotations

import torch
from torch import nn

from attnx.errors import UserError
from attnx.inference.build_model import data_sizes
from attnx.inference.load import load_run
from attnx.models.resolve import ResolvedConfig
from attnx.tasks.contract import SequenceData

SIZES = {"source": "source_symbols", "target": "target_symbols", "tags": "tags"}
"""What is counted in a vocabulary, and where the model learns how many there are."""


def init_weights(model: nn.Module, resolved: ResolvedConfig, data: SequenceData, folder: str) -> str:
    """Copy the best weights of the run in ``folder`` into a model where their names and shapes agree.

    Weights of symbols, such as embeddings, are copied only if both runs have the same symbols in the same order.

    Returns:
        how many weights were copied, and the names of the others.

    Raises:
        UserError: the run cannot be opened, or none of its weights has a place in the model.
    """
    run = load_run(folder)
    weights, saved = model.state_dict(), run.model.state_dict()
    symbol_weights = _weights_of_symbols(model, resolved, data)
    is_equal = {side: getattr(run.data, side) == getattr(data, side) for side in SIZES}
    copied, left = {}, []
    for name, weight in weights.items():
        if name not in saved:
            left.append(f"{name} (new)")
        elif saved[name].shape != weight.shape:
            shapes = f"{_shape(saved[name])} there, {_shape(weight)} here"
            left.append(f"{name} ({shapes})")
        elif unequal := [side for side in symbol_weights.get(name, ()) if not is_equal[side]]:
            left.append(f"{name} (other {' and '.join(unequal)} symbols)")
        else:
            copied[name] = saved[name]
    left += [f"{name} (only there)" for name in saved if name not in weights]
    if not copied:
        raise UserError(
            f"init_from={folder}: none of its weights has a place in this model: {', '.join(left[:3])}, ..."
        )
    model.load_state_dict(copied, strict=False)
    return f"{len(copied)} of {len(weights)} from {folder}" + (f"; not {', '.join(left)}" if left else "")


def _weights_of_symbols(model: nn.Module, resolved: ResolvedConfig, data: SequenceData) -> dict[str, list[str]]:
    """The vocabularies that the shape of each weight depends on, by its name: one more symbol changes the shape."""
    sides: dict[str, list[str]] = {}
    sizes, own = data_sizes(data), model.state_dict()
    for side, size in SIZES.items():
        if not (count := getattr(sizes, size)):
            continue
        with torch.random.fork_rng([]):
            larger = resolved.build(sizes._replace(**{size: count + 1}))
        for name, weight in larger.state_dict().items():
            if name in own and own[name].shape != weight.shape:
                sides.setdefault(name, []).append(side)
    return sides


def _shape(weight: torch.Tensor) -> str:
    return "x".join(map(str, weight.shape))
