"""Draws a part variant: what it does on the example, or which vector of a decoder step a query input selects."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from attnx.errors import UserError
from attnx.gallery.decoder_step import VECTORS, draw_step
from attnx.gallery.example import (
    FIT_STEPS,
    LONG_POSITION,
    REPEAT_STEP,
    REPEATED_STEP,
    FittedReading,
    normalize_example,
    read_example,
)
from attnx.gallery.normalizing import draw_normalizer
from attnx.gallery.part_variant import PartVariant, alternatives
from attnx.gallery.readings import Numbers, draw_reading
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
        return draw_step(_required_vector(variant.part), str(variant))
    if variant.part.kind == "normalizer":
        return draw_normalizer(normalize_example((variant.part.name, variant.knobs)), str(variant))
    fitted = _read(variant)
    return draw_reading(fitted.reading, str(variant), _note(fitted))


def variants_to_draw(part: Part) -> list[PartVariant]:
    """The part as it is and, of scopes and normalizers, the variants whose weights differ."""
    default = PartVariant(part)
    if part.kind not in ("scope", "normalizer"):
        return [default]
    weights = _weights(default)
    return [default, *(variant for variant in alternatives(part) if not _is_close(_weights(variant), weights))]


def save(figure: Figure, path: Path) -> Path:
    """Save a picture with 256 colors, which takes a third of the bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer)
    Image.open(buffer).convert("RGB").quantize(256).save(path, optimize=True)
    return path


def _read(variant: PartVariant) -> FittedReading:
    spec = variant.part.name, variant.knobs
    return read_example(scorer=spec) if variant.part.kind == "scorer" else read_example(scope=spec)


def _weights(variant: PartVariant) -> Numbers:
    if variant.part.kind == "normalizer":
        return normalize_example((variant.part.name, variant.knobs)).weights
    return _read(variant).reading.weights


def _is_close(first: Numbers, second: Numbers) -> bool:
    return first.shape == second.shape and np.allclose(first, second)


def _note(fitted: FittedReading) -> str:
    reading = fitted.reading
    example = [QUERIES_NOTE, *([MEMORY_NOTE] if "source" in reading.column_groups else [])]
    details = [*([STATES_NOTE] if reading.decoder_states else []), *([FITTED_NOTE] if fitted.is_fitted else [])]
    return "\n".join(" ".join(line) for line in (example, details) if line)


def _required_vector(part: Part) -> str:
    needs = part.properties.get("needs")
    if needs not in VECTORS:
        raise UserError(f"{part.place}: the query input {part.name!r} must declare needs = {', '.join(VECTORS)}")
    return str(needs)
