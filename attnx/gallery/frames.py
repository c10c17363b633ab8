"""Frames: what one picture of an animation shows, computed by the part itself, as whole numbers for a page.

Scores are in hundredths, weights and gains in thousandths. A picture of the same part with other knobs is another
frame, with the same fields.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from attnx.attention.attention import needs_history
from attnx.gallery.decoder_step import query_vectors
from attnx.gallery.drawings import ALLOWED_COUNT, RISING_SCORES, SCORE_ROW, Numbers, rising_weights, row_weights
from attnx.gallery.part_numbers import HUNDREDTHS, THOUSANDTHS, build_part, finite, whole_numbers
from attnx.gallery.part_variant import PartVariant
from attnx.gallery.pictures import composition, read_example, selected_vector

Frame = dict[str, Any]

CURVE_STRIDE = 4  # of the points of a normalizer's curve every fourth is embedded
# Points of a plane on which a scorer is drawn, for queries of one length in all directions.
PLANE_EXTENT, PLANE_POINTS, DIRECTIONS, QUERY_LENGTH = 3.0, 13, 12, 2.0
PLANE_SHADES = 99


def make_frame(variant: PartVariant) -> Frame:
    """The frame of a part.

    Raises:
        UserError: the part cannot be imported, or it refuses its knobs.
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
    scores = None if variant.part.properties.get("is_recurrent") else plane_scores(variant)
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
    return {"selected": selected_vector(variant.part), "query": query}


FRAMES = {
    "scorer": _scorer_frame,
    "scope": _reading_frame,
    "normalizer": _normalizer_frame,
    "query": _query_frame,
    "bias": _reading_frame,
}
