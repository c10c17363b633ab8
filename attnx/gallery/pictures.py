"""Draws a choice: what it does on the tiny example, or, for a query input, what it picks from a decoder's step."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from attnx.errors import UserError
from attnx.gallery.decoder_step import VECTORS, step_picture
from attnx.gallery.example import AGAIN, ASKED, FITTING, LONG, Shown, normalize, read
from attnx.gallery.normalizing import normalizing_picture
from attnx.gallery.part_choice import Choice, alternatives
from attnx.gallery.readings import Numbers, reading_picture
from attnx.registry.source_scan import Part

ASKS = f"Steps {ASKED} and {AGAIN} ask the same."
HOLDS = f"Positions {ASKED} and {AGAIN} are almost alike, position {LONG} has the longest vector."
OWN = "The decoder's own states are the queries, each there once it was made."
FITTED = f"Fitted for {FITTING} steps to read position t at step t."


def picture(choice: Choice) -> Figure:
    """Draw a part.

    Raises:
        UserError: its file cannot be imported, or it refuses its knobs.
    """
    if choice.part.kind == "query":
        return step_picture(_needs(choice.part), str(choice))
    if choice.part.kind == "normalizer":
        return normalizing_picture(normalize((choice.part.name, choice.knobs)), str(choice))
    shown = _read(choice)
    return reading_picture(shown.reading, str(choice), _note(shown))


def telling(part: Part) -> list[Choice]:
    """The part as it is and, of a scope or a normalizer, with other values of its choices if the weights are others."""
    plain = Choice(part)
    if part.kind not in ("scope", "normalizer"):
        return [plain]
    before = _weights(plain)
    return [plain, *(other for other in alternatives(part) if not _alike(_weights(other), before))]


def save(figure: Figure, path: Path) -> Path:
    """Write a picture in 256 colors, more than it needs and a third of the bytes."""
    drawn = io.BytesIO()
    figure.savefig(drawn)
    Image.open(drawn).convert("RGB").quantize(256).save(path, optimize=True)
    return path


def _read(choice: Choice) -> Shown:
    spec = choice.part.name, choice.knobs
    return read(scorer=spec) if choice.part.kind == "scorer" else read(scope=spec)


def _weights(choice: Choice) -> Numbers:
    if choice.part.kind == "normalizer":
        return normalize((choice.part.name, choice.knobs)).weights
    return _read(choice).reading.weights


def _alike(one: Numbers, other: Numbers) -> bool:
    return one.shape == other.shape and np.allclose(one, other)


def _note(shown: Shown) -> str:
    example = [ASKS, *([HOLDS] if "source" in shown.reading.halves else [])]
    more = [*([OWN] if shown.reading.own else []), *([FITTED] if shown.fitted else [])]
    return "\n".join(" ".join(line) for line in (example, more) if line)


def _needs(part: Part) -> str:
    needs = part.declares.get("needs")
    if needs not in VECTORS:
        raise UserError(f"{part.place}: the query input {part.name!r} must declare needs = {', '.join(VECTORS)}")
    return str(needs)
