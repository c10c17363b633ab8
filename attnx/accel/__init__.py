"""Speed alone: the same numbers as the definitions, faster. Delete the folder, and what remains is plain torch.

:func:`enable` swaps modules of a model for faster ones; :func:`fused_decoder` is what searches decode with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from torch import nn

    from attnx.decoding.contracts import StepModel

M = TypeVar("M", bound="nn.Module")


def enable(model: M) -> M:
    """Give a model its fast paths, in place: C on a CPU, and attention kernels. Numbers stay equal to rounding."""
    from attnx.accel import swap

    swap.enable(model)
    return model


def disable(model: nn.Module) -> None:
    """Undo :func:`enable`: plain torch again."""
    from attnx.accel import swap

    swap.disable(model)


def fused_decoder(model: StepModel) -> StepModel:
    """The model to search with: a fused decoder where an enabled model has one, else the model itself."""
    from attnx.accel import fused_decode

    return fused_decode.fused_decoder(model)
