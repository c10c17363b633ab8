"""Swaps the classes of a model's modules for faster ones, in place: parameters and ``state_dict`` stay the same."""

from __future__ import annotations

from typing import TypeVar

from torch import nn

from attnx.accel.attention.modules import (
    FastAdditive,
    FastAttention,
    FastMultiHeadAttention,
    matching_kernels,
)
from attnx.accel.linear_cpu import FastLinearOutput
from attnx.accel.lstm.module import FastEmbedding, FastMemoryCellLayer
from attnx.attention.attention import Attention
from attnx.attention.multi_head import MultiHeadAttention
from attnx.attention.scorers.additive import Additive
from attnx.nn.outputs.linear import LinearOutput
from attnx.nn.recurrent import MemoryCellLayer

M = TypeVar("M", bound=nn.Module)
FAST: dict[type[nn.Module], type[nn.Module]] = {
    Attention: FastAttention,
    MultiHeadAttention: FastMultiHeadAttention,
    Additive: FastAdditive,
    LinearOutput: FastLinearOutput,
    MemoryCellLayer: FastMemoryCellLayer,
    nn.Embedding: FastEmbedding,
}
"""The faster class of each; a subclass of one is left as it is."""
PLAIN = {fast: plain for plain, fast in FAST.items()}


def enable(model: M) -> M:
    """Give a model its fast paths, in place: C on a CPU, and attention kernels. Numbers stay equal to rounding."""
    attentions = [module for module in model.modules() if type(module) is Attention]
    kernels = [matching_kernels(attention) for attention in attentions]  # by the names of parts that are plain yet
    _swap(model, FAST)
    for attention, matches in zip(attentions, kernels, strict=True):
        attention.kernels = matches  # type: ignore[assignment]
    return model


def disable(model: nn.Module) -> None:
    """Undo :func:`enable`: plain torch again."""
    _swap(model, PLAIN)


def _swap(model: nn.Module, classes: dict[type[nn.Module], type[nn.Module]]) -> None:
    for module in model.modules():
        module.__class__ = classes.get(type(module), type(module))
