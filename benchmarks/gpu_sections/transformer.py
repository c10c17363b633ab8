"""Training steps of a decoder-only transformer in bfloat16: attnx's causal attention, and the same model by hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from peers.transformer_by_hand import HandWrittenTransformer
from torch import Tensor, nn

from attnx import accel
from attnx.models.transformer.config import TransformerConfig
from attnx.models.transformer.model import Transformer
from attnx.models.transformer.sites import AttentionSite, TransformerParts
from attnx.nn.targets.symbols import Symbols
from gpu_sections.cards import find_card
from gpu_sections.cases import Case, Figures, Setting
from gpu_sections.row_names import (
    ALIBI,
    ATTNX,
    BY_HAND,
    LENGTHS,
    PEAK,
    SOFTCAP,
    TOKENS,
    UTILIZATION,
    WINDOW,
    transformer_row,
)
from gpu_sections.timing import synchronize

WARMUP_STEPS, MEASURED_STEPS, CHECK_STEPS = 4, 10, 1
PLANNED_SECONDS = 10.0
"""For a case: the model's start, and 14 steps of at most half a second."""


class Sizes(NamedTuple):
    """Of the model, and of a batch."""

    symbols: int
    size: int
    layers: int
    heads: int
    tokens: int
    """Of all sequences of a batch together."""


SIZES, CHECK_SIZES, CHECK_LENGTHS = Sizes(8192, 768, 12, 12, 16_384), Sizes(23, 16, 2, 2, 26), (13,)
Forward = Callable[[Tensor], Tensor]
"""Tokens (b, t) -> logits (b, t, symbols)."""
Build = Callable[[Sizes, int], tuple[nn.Module, Forward]]
"""A model of these sizes, for sequences of a length."""


def by_attnx(sizes: Sizes, length: int, softcap: float | None = None, **parts: Any) -> tuple[nn.Module, Forward]:
    """attnx's transformer, which reads no source, with parts of its layers; ``length`` has no effect."""
    options = TransformerConfig("decoder_only", sizes.size, sizes.layers, activation="gelu", dropout=0.0)
    layers = TransformerParts(**parts, attention={"heads": sizes.heads, "softcap": softcap})
    model = accel.enable(Transformer(None, Symbols(sizes.symbols), options, layers))

    def forward(tokens: Tensor) -> Tensor:
        nothing = tokens[:, :0]
        logits: Tensor = model(nothing, nothing > 0, tokens).logits
        return logits

    return model, forward


def by_hand(sizes: Sizes, length: int) -> tuple[nn.Module, Forward]:
    """The same model in plain torch."""
    model = HandWrittenTransformer(sizes.symbols, sizes.size, sizes.layers, sizes.heads, length)
    return model, model


FORMS: dict[str, Build] = {
    BY_HAND: by_hand,
    ATTNX: by_attnx,
    WINDOW: partial(by_attnx, self_attention=AttentionSite(scope=("local", {"window": 128}))),
    ALIBI: partial(by_attnx, self_attention=AttentionSite(bias="alibi")),
    SOFTCAP: partial(by_attnx, softcap=50.0),
}
"""The last three have a kernel by FlexAttention on a GPU."""


def cases(setting: Setting) -> Iterator[Case]:
    """Every model at every length."""
    sizes = CHECK_SIZES if setting.is_check else SIZES
    for name, length in product(FORMS, CHECK_LENGTHS if setting.is_check else LENGTHS):
        build = partial(FORMS[name], sizes)
        yield Case(transformer_row(name, length), partial(measure, setting, build, length), PLANNED_SECONDS)


def flop_of_a_token(sizes: Sizes, keys: float) -> float:
    """Floating-point operations to train on a token whose queries are compared with so many keys.

    Every weight of a matrix counts one multiplication and addition, and two more for the gradients.
    """
    weights = sizes.layers * 12 * sizes.size**2 + sizes.symbols * sizes.size
    return 6 * weights + 12 * sizes.layers * sizes.size * keys


def measure(setting: Setting, build: Callable[[int], tuple[nn.Module, Forward]], length: int) -> Figures:
    """Steps of the forward pass, the loss, the backward pass and the optimizer of a model for a length.

    The utilization counts the pairs of causal attention, whatever the layers hold.
    """
    sizes, device = CHECK_SIZES if setting.is_check else SIZES, setting.device
    steps = CHECK_STEPS if setting.is_check else MEASURED_STEPS
    torch.manual_seed(0)
    model, forward = build(length)
    optimizer = torch.optim.AdamW(model.to(device).train().parameters(), fused=device.type == "cuda")
    tokens = torch.randint(4, sizes.symbols, (sizes.tokens // length, length + 1), device=device)

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16):
            loss = F.cross_entropy(forward(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    seconds = _time(step, steps, device) / steps
    figures = {TOKENS: sizes.tokens / seconds, "ms a step": 1000 * seconds}
    if device.type == "cuda":
        figures[PEAK] = torch.cuda.max_memory_allocated() / 1e6
        if card := find_card(torch.cuda.get_device_name()):
            useful = flop_of_a_token(sizes, length / 2) * figures[TOKENS]
            figures[UTILIZATION] = 100 * useful / card.bfloat16_flop
    return figures


def _time(step: Callable[[], None], steps: int, device: torch.device) -> float:
    """The seconds of steps after a warm-up."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    for _ in range(min(WARMUP_STEPS, steps)):
        step()
    synchronize(device)
    start = time.perf_counter()
    for _ in range(steps):
        step()
    synchronize(device)
    return time.perf_counter() - start
