"""Draws a part variant: what it does on the example, or which vector of a decoder step a query input selects."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from attnx.errors import UserError
from attnx.gallery.drawings import VECTORS, Numbers, Reading, draw_normalizer, draw_reading, draw_step, row_weights
from attnx.gallery.example import FIT_STEPS, LONG_POSITION, REPEAT_STEP, REPEATED_STEP, read_example
from attnx.gallery.part_variant import PartVariant, alternatives
from attnx.registry.source_scan import Part

QUERIES_NOTE = f"Steps {REPEATED_STEP} and {REPEAT_STEP} have the same query."
MEMORY_NOTE = (
    f"Positions {REPEATED_STEP} and {REPEAT_STEP} are almost equal; position {LONG_POSITION} has the longest vector."
)
STATES_NOTE = "The decoder states are the queries; each is visible from the next step on."
FITTED_NOTE = f"Fitted for {FIT_STEPS} steps to read position t at step t."


def draw_variant(variant: PartVariant) -> Figure:
    """Draw a part.

    Raises:
        UserError: its file cannot be imported, or it rejects its knobs.
    """
    if variant.part.kind == "query":
        needs = variant.part.properties.get("needs")
        if needs not in VECTORS:
            where, name = variant.part.place, variant.part.name
            raise UserError(f"{where}: the query input {name!r} must declare needs = {', '.join(VECTORS)}")
        return draw_step(str(needs), str(variant))
    if variant.part.kind == "normalizer":
        return draw_normalizer(variant.spec, str(variant))
    reading = _read(variant)
    has_source = reading.decoder_states < len(reading.columns)
    example = [QUERIES_NOTE, *([MEMORY_NOTE] if has_source else [])]
    details = [*([STATES_NOTE] if reading.decoder_states else []), *([FITTED_NOTE] if reading.is_fitted else [])]
    return draw_reading(reading, str(variant), "\n".join(" ".join(line) for line in (example, details) if line))


def variants_to_draw(part: Part) -> list[PartVariant]:
    """The part as it is and, of scopes and normalizers, the variants whose weights differ."""
    default = PartVariant(part)
    if part.kind not in ("scope", "normalizer"):
        return [default]
    variants, weights = [default], _weights(default)
    for variant in alternatives(part):
        changed = _weights(variant)
        if changed.shape != weights.shape or not np.allclose(changed, weights):
            variants.append(variant)
    return variants


def save_picture(figure: Figure, path: Path) -> Path:
    """Save a picture with 256 colors, which takes a third of the bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer)
    Image.open(buffer).convert("RGB").quantize(256).save(path, optimize=True)
    return path


def _read(variant: PartVariant) -> Reading:
    return read_example(**{variant.part.kind: variant.spec})


def _weights(variant: PartVariant) -> Numbers:
    return row_weights(variant.spec) if variant.part.kind == "normalizer" else _read(variant).weights
