"""Training steps of a decoder-only transformer in bfloat16 whose layers hold a mixer: by its definition, by kernels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec

from torch import nn

from attnx import accel
from attnx.accel.attention import kernels
from attnx.models.transformer.layer_choices import LayerChoice
from gpu_sections.cases import Case, Figures, NotRunError, Setting
from gpu_sections.row_names import MIXER_LENGTH, MIXERS, OWN, WITH_FLA, mixer_row
from gpu_sections.transformer import CHECK_LENGTHS, CHECK_SIZES, SIZES, Forward, Sizes, by_attnx, measure

PLANNED_SECONDS = {WITH_FLA: 32.0, OWN: 12.0}
"""For a case: the model's start and 14 steps, and the compilation of kernels with all tiles that are tried."""


def cases(setting: Setting) -> Iterator[Case]:
    """Every mixer by kernels, then every mixer by its definition."""
    length = CHECK_LENGTHS[0] if setting.is_check else MIXER_LENGTH
    for way, seconds in PLANNED_SECONDS.items():
        for name in MIXERS:
            yield Case(mixer_row(name, way, length), partial(_measure, setting, name, way, length), seconds)


def build(name: str, way: str, sizes: Sizes, length: int) -> tuple[nn.Module, Forward]:
    """attnx's transformer with a mixer in each layer."""
    choice = LayerChoice("mixer", name, {"heads": sizes.heads})
    model, forward = by_attnx(sizes, length, layer_choices=(choice,))
    if way == OWN:
        accel.disable(model)
    return model, forward


def _measure(setting: Setting, name: str, way: str, length: int) -> Figures:
    if way == WITH_FLA and (setting.device.type != "cuda" or find_spec("fla") is None):
        raise NotRunError("flash-linear-attention needs a GPU and the extra fla")
    sizes = CHECK_SIZES if setting.is_check else SIZES
    figures = measure(setting, partial(build, name, way, sizes), length)
    failed = [reason for reason in kernels._failures.values() if reason is not None]
    if way == WITH_FLA and (failed or not kernels._failures):  # else the row would be one of the definition
        raise RuntimeError(failed[0] if failed else "no kernel was called")
    return figures
