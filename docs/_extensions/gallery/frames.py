"""Frames: what one picture of an animation shows, computed by the part itself, as whole numbers for a page.

Scores are in hundredths, weights and gains in thousandths. A picture of the same part with other options is another
frame, with the same fields.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import torch

from attnx.attention.attention import needs_history
from gallery.drawings import VECTORS
from gallery.example import (
    ALLOWED_COUNT,
    RISING_SCORES,
    SCORE_ROW,
    STEPS,
    Numbers,
    build_part,
    composition,
    example_context,
    query_vectors,
    read_example,
    rising_weights,
    row_weights,
)
from gallery.variants import PartVariant

Frame = dict[str, Any]

HUNDREDTHS, THOUSANDTHS = 100, 1000
MAX_SHOWN = 1e6  # a number that is larger, or infinite, is shown as this
SUBSCRIPTS = str.maketrans("t-1", "\u209c\u208b\u2081")
CURVE_STRIDE = 4  # of the points of a normalizer's curve every fourth is embedded
# Points of a plane on which a scorer is drawn, for queries of one length in all directions.
PLANE_EXTENT, PLANE_POINTS, DIRECTIONS, QUERY_LENGTH = 3.0, 13, 12, 2.0
PLANE_SHADES = 99


def make_frame(variant: PartVariant) -> Frame:
    """The frame of a part.

    Raises:
        UserError: the part cannot be imported, or it refuses its options.
    """
    return FRAMES[variant.drawn_as](variant)


def _reading_frame(variant: PartVariant) -> Frame:
    """Scores, allowed positions, gains and weights (t, m) of the example."""
    reading = read_example(**composition(variant))
    return {
        "columns": list(reading.columns),
        "states": reading.decoder_states,
        "scores": whole_numbers(reading.scores, HUNDREDTHS),
        "allowed": ["".join(map(str, row)) for row in reading.allowed_mask.astype(int)],
        "gain": None if reading.gain is None else whole_numbers(reading.gain, THOUSANDTHS),
        "weights": whole_numbers(reading.weights, THOUSANDTHS),
    }


def _scorer_frame(variant: PartVariant) -> Frame:
    """As any part's, and scores on a plane, unless they depend on previous weights or steps."""
    frame = _reading_frame(variant)
    scores = None if variant.part.declarations.get("is_recurrent") else plane_scores(variant)
    if scores is not None:
        low, high = float(scores.min()), float(scores.max())
        shades = (scores - low) / max(high - low, 1e-9) * PLANE_SHADES
        frame["plane"] = {"low": round(low, 2), "high": round(high, 2), "shades": whole_numbers(shades, 1)}
    return frame


def plane_scores(variant: PartVariant) -> Numbers | None:
    """(directions, points) scores of memory vectors on a plane, row by row from the top, with initial parameters.

    None for a scorer that depends on previous weights.
    """
    line = torch.linspace(-PLANE_EXTENT, PLANE_EXTENT, PLANE_POINTS)
    memory = torch.stack([line.repeat(PLANE_POINTS), -line.repeat_interleave(PLANE_POINTS)], dim=-1)
    angles = torch.arange(DIRECTIONS) * (2 * math.pi / DIRECTIONS)
    queries = QUERY_LENGTH * torch.stack([angles.cos(), angles.sin()], dim=-1)
    scorer = build_part(variant, width=2)
    if needs_history(scorer):
        return None
    with torch.no_grad():
        scores = scorer.score(scorer.project_queries(queries[None]), scorer.project_keys(memory[None]))[0]
    return finite(scores.double().numpy())


def _normalizer_frame(variant: PartVariant) -> Frame:
    """One row of scores and its weights, and the weight of one of two positions by its score."""
    curve = slice(None, None, CURVE_STRIDE)
    return {
        "columns": list(map(str, range(len(SCORE_ROW)))),
        "states": 0,
        "scores": whole_numbers(np.array([SCORE_ROW]), HUNDREDTHS),
        "allowed": ["1" * ALLOWED_COUNT + "0" * (len(SCORE_ROW) - ALLOWED_COUNT)],
        "gain": None,
        "weights": whole_numbers(row_weights(variant.spec)[None], THOUSANDTHS),
        "curve": {
            "scores": whole_numbers(RISING_SCORES[curve], HUNDREDTHS),
            "weights": whole_numbers(rising_weights(variant.spec)[curve], THOUSANDTHS),
        },
    }


def _query_frame(variant: PartVariant) -> Frame:
    """The name of the selected vector, and the query (t, size) that the part makes of it."""
    query = whole_numbers(query_vectors(variant), HUNDREDTHS)
    return {"selected": variant.part.declarations["needs"], "query": query}


FRAMES = {
    "scorer": _scorer_frame,
    "scope": _reading_frame,
    "normalizer": _normalizer_frame,
    "query": _query_frame,
    "bias": _reading_frame,
}


def vectors_to_select() -> list[dict[str, Any]]:
    """Name, label, availability and numbers (t, d) of the vectors from which a query selects.

    A tag is one number, and so is what a learned vector needs: 1.
    """
    context = {**example_context()._asdict(), "nothing": torch.ones(1, STEPS)}
    return [
        {
            "name": name,
            "label": _plain_text(vector.text),
            "availability": vector.availability,
            "numbers": whole_numbers(context[name].reshape(STEPS, -1).double().numpy(), HUNDREDTHS),
        }
        for name, vector in VECTORS.items()
    ]


def _plain_text(text: str) -> str:
    """Mathematics in plain text: ``$h_{t-1}$`` is an h with a subscript."""
    return re.sub(r"_\{?([t\-1]+)\}?", lambda match: match[1].translate(SUBSCRIPTS), text).replace("$", "")


def finite(values: Numbers) -> Numbers:
    """The values within what can be shown; NaN is 0."""
    return np.nan_to_num(values, nan=0.0, posinf=MAX_SHOWN, neginf=-MAX_SHOWN).clip(-MAX_SHOWN, MAX_SHOWN)


def whole_numbers(values: Numbers, scale: int) -> list[Any]:
    """The values, in nested lists, as counts of ``1 / scale``."""
    counts: list[Any] = np.rint(finite(values) * scale).astype(int).tolist()
    return counts
