"""A part built for a picture, and its numbers as whole numbers for a page."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from attnx import registry
from attnx.gallery.drawings import Numbers
from attnx.gallery.part_variant import PartVariant
from attnx.gallery.pictures import HEAD, STATE_SIZE

HUNDREDTHS, THOUSANDTHS = 100, 1000
WIDTHS = ("query_size", "memory_size", "state_size", "context_size", "token_size")
TAGS = 4
MAX_SHOWN = 1e6  # a number that is larger, or infinite, is shown as this


def build_part(variant: PartVariant, width: int = STATE_SIZE) -> Any:
    """The part for vectors of one width, with the initial parameters of seed 0, in evaluation.

    Raises:
        UserError: it cannot be imported, or it refuses its knobs.
    """
    sizes = {**dict.fromkeys(WIDTHS, width), "tags": TAGS, **HEAD}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return registry.build(variant.part.kind, variant.spec, **sizes).eval()


def finite(values: Numbers) -> Numbers:
    """The values within what can be shown; NaN is 0."""
    return np.nan_to_num(values, nan=0.0, posinf=MAX_SHOWN, neginf=-MAX_SHOWN).clip(-MAX_SHOWN, MAX_SHOWN)


def whole_numbers(values: Numbers, scale: int) -> list[Any]:
    """The values, in nested lists, as counts of ``1 / scale``."""
    counts: list[Any] = np.rint(finite(values) * scale).astype(int).tolist()
    return counts
