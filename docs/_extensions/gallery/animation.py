"""The animation of a part: the values of its options, and a frame for each combination of them, as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from part_docs import doc_paragraphs

from attnx.config.groups import option_key
from attnx.config.view import value_text
from attnx.errors import UserError
from attnx.registry.part import Option, Part
from gallery.example import build_part
from gallery.frames import DIRECTIONS, Frame, make_frame
from gallery.option_values import option_values
from gallery.variants import CHOICE_KEYS, PartVariant, choice_key, drawn_options

# With more combinations only those are drawn in which one option differs from the start. Scorers are fitted each time.
MAX_COMBINATIONS = {"scorer": 30, "scope": 120, "normalizer": 300, "query": 30, "bias": 30}
START_STEP = 3
# The drawings of a frame, the most telling first.
PANELS = {
    "scorer": ("plane", "scores", "weights", "bars"),
    "scope": ("allowed", "weights", "scores", "bars"),
    "normalizer": ("bars", "curve"),
    "query": ("vectors",),
    "bias": ("scores", "weights", "bars"),
}

Combination = tuple[int, ...]  # the index of a value of each option


@dataclasses.dataclass(frozen=True)
class Dial:
    """An option, the values that it moves through, and the index of the first that is shown."""

    option: Option
    values: Sequence[Any]
    start: int


def animate(part: Part) -> dict[str, Any]:
    """The animation of a part, which starts with its default options.

    ``pictures`` are its different frames; ``frames`` has the index of one for each combination, written as ``0,2``.

    Raises:
        UserError: the part cannot be imported.
    """
    variant = PartVariant(part)
    start = make_frame(variant)
    dials = [_dial(part, option) for option in drawn_options(part)]
    texts = {json.dumps(start): 0}
    frames = {tuple(dial.start for dial in dials): 0}
    for combination in combinations(dials, MAX_COMBINATIONS[variant.drawn_as]):
        if combination not in frames:
            options = {dial.option.name: dial.values[index] for dial, index in zip(dials, combination, strict=True)}
            text = json.dumps(_frame_or_refusal(PartVariant(part, options)))
            frames[combination] = texts.setdefault(text, len(texts))
    return {
        **_facts(part),
        "dials": [_describe(part, dial, _moves(frames, axis)) for axis, dial in enumerate(dials)],
        "panels": [panel for panel in PANELS[variant.drawn_as] if panel != "plane" or "plane" in start],
        "views": _views(start),
        "frames": {",".join(map(str, combination)): index for combination, index in frames.items()},
        "pictures": [json.loads(text) for text in texts],
    }


def _frame_or_refusal(variant: PartVariant) -> Frame:
    try:
        return make_frame(variant)
    except UserError as error:
        return {"refused": str(error)}


def _dial(part: Part, option: Option) -> Dial:
    """The option with the values that the part takes while its other options have their defaults."""

    def is_accepted(value: Any) -> bool:
        try:
            build_part(PartVariant(part, {option.name: value}))
        except UserError:
            return False
        return True

    values = option_values(option, is_accepted)
    return Dial(option, values, values.index(option.default))


def combinations(dials: Sequence[Dial], limit: int) -> list[Combination]:
    """All combinations of values; if they are more than the limit, those in which one option is not at its start."""
    ranges = [range(len(dial.values)) for dial in dials]
    if math.prod(map(len, ranges)) <= limit:
        return list(product(*ranges))
    start = tuple(dial.start for dial in dials)
    moved = [(*start[:axis], index, *start[axis + 1 :]) for axis, values in enumerate(ranges) for index in values]
    return list(dict.fromkeys(moved))


def _moves(frames: Mapping[Combination, int], axis: int) -> bool:
    """Whether an option changes the picture while the options beside it stay."""
    pictures: dict[Combination, set[int]] = {}
    for combination, picture in frames.items():
        pictures.setdefault((*combination[:axis], *combination[axis + 1 :]), set()).add(picture)
    return any(len(different) > 1 for different in pictures.values())


def _facts(part: Part) -> dict[str, Any]:
    """What the page writes about a part."""
    return {
        "kind": part.kind,
        "choice": choice_key(part),
        "nested": part.kind in CHOICE_KEYS,
        "name": part.name,
        "text": doc_paragraphs(part),
        "formula": part.doc_line("Formula").replace("``", ""),
        "source": part.doc_line("Source") or "not stated",
        "module": part.module + ("" if part.origin == "core" else f", {part.origin}"),
    }


def _describe(part: Part, dial: Dial, moves: bool) -> dict[str, Any]:
    """A dial as JSON; ``moves`` is whether it changes the picture."""
    return {
        "name": dial.option.name,
        "key": option_key(part, dial.option.name),
        "about": dial.option.type.phrase if moves else f"{dial.option.type.phrase}; changes nothing in this picture",
        "control": _control(dial.values),
        "values": list(map(value_text, dial.values)),
        "default": value_text(dial.option.default),
        "start": dial.start,
    }


def _control(values: Sequence[Any]) -> str:
    """The element that moves an option."""
    if all(isinstance(value, bool) for value in values):
        return "checkbox"
    return "slider" if all(isinstance(value, int | float) for value in values) else "select"


def _views(frame: Frame) -> list[dict[str, Any]]:
    """Dials that are not options: the step of the example, and the direction of the query in a plane."""
    steps = len(frame["weights"] if "weights" in frame else frame["query"])
    views = []
    if steps > 1:
        values = list(map(str, range(steps)))
        views.append({"name": "step", "about": "the decoder step that is shown", "values": values, "start": START_STEP})
    if "plane" in frame:
        values = [f"{360 * index // DIRECTIONS}\u00b0" for index in range(DIRECTIONS)]
        views.append({"name": "direction", "about": "of the query in the plane", "values": values, "start": 1})
    return [{**view, "control": "slider"} for view in views]
