"""Solves the widths of models so that all cost what the first one costs."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from attnx.errors import UserError
from attnx.models.resolve import resolve_model

TOLERANCE = 0.02  # by how much a matched cost may differ
MAX_STEP, MAX_GROWTH = 64, 32  # between two possible widths; of a width, as a multiple
FEEDFORWARD = "model.feedforward_size"
NEUTRAL_KEYS = ("seed", "name", "folder")  # they do not change what is trained
FREE_KINDS = ("optimizer", "lr_schedule")  # a model costs the same with each of them
Config = Mapping[str, Any]


class Match(NamedTuple):
    """The widths with which a model costs about what the first one does, such as ``model.hidden_size=252``.

    ``value`` is the cost with them, ``residual`` by how much it exceeds the first one's, as a share: 0.004.
    """

    overrides: tuple[str, ...]
    value: float
    residual: float

    @property
    def is_close(self) -> bool:
        """Whether the costs are equal within 2 %."""
        return abs(self.residual) <= TOLERANCE


def match_widths(configs: Sequence[Config], measure: Callable[[Config], float]) -> list[Match]:
    """Solve widths so that each model costs what the first one costs, as nearly as whole numbers allow.

    The width is the model's ``hidden_size``, or else those of its encoder and decoder, scaled together. Widths that the
    model refuses, such as those that do not divide into heads, are passed over. Where that leaves more than 2 % and the
    model has feed-forward layers, their ``model.feedforward_size`` makes up for it. The cost grows with
    the widths; ``measure`` raises a UserError for widths that do not fit.
    """
    target, solved = measure(configs[0]), dict[str, Match]()
    for config in configs:
        key = cost_key(config)
        if key not in solved:
            solved[key] = _match(config, target, measure)
    return [solved[cost_key(config)] for config in configs]


def width_keys(config: Config) -> list[str]:
    """The options that make a model wide: its ``hidden_size``, or else those of its encoder and decoder, if read."""
    ineffective = resolve_model(config).ineffective
    kinds = ["model"] if "hidden_size" in config["model"] else ["encoder", "decoder"]
    keys = [f"{kind}.hidden_size" for kind in kinds if isinstance(config.get(kind, {}).get("hidden_size"), int)]
    return [key for key in keys if key not in ineffective and key.partition(".")[0] not in ineffective]


def with_values(config: Config, values: Mapping[str, int]) -> dict[str, Any]:
    """The configuration with other values of options, given by ``kind.option``."""
    changed: dict[str, Any] = copy.deepcopy(dict(config))
    for key, value in values.items():
        kind, _, option = key.partition(".")
        changed[kind][option] = value
    return changed


def setting_key(config: Config) -> str:
    """A text that configurations share which differ by seed and folder alone."""
    return json.dumps({key: value for key, value in config.items() if key not in NEUTRAL_KEYS})


def cost_key(config: Config) -> str:
    """A text that configurations share whose models cost the same on any data: their optimizers may differ, too."""
    return setting_key({key: value for key, value in config.items() if key not in FREE_KINDS})


def _match(config: Config, target: float, measure: Callable[[Config], float]) -> Match:
    own = measure(config)
    if own == target:
        return Match((), own, 0.0)
    if not (keys := width_keys(config)):
        raise UserError(f"model={config['model']['name']} has no width to match; leave match out")
    widths = {key: int(config[key.partition(".")[0]]["hidden_size"]) for key in keys}
    lead = widths[keys[0]]

    def widened(width: int) -> dict[str, int]:
        return {key: max(1, round(value * width / lead)) for key, value in widths.items()}

    def cost(values: Mapping[str, int]) -> float | None:
        try:
            return measure(with_values(config, values))
        except ValueError:  # as a UserError is: these widths do not fit
            return None

    width, value = _nearest(lead, own, target, lambda width: cost(widened(width)))
    chosen = widened(width)
    units = config["model"].get("feedforward_size", 0)  # None is four times the width
    if abs(value / target - 1) > TOLERANCE and units != 0:
        units = units or 4 * width
        started = cost({**chosen, FEEDFORWARD: units})
        if started is not None:
            units, value = _nearest(units, started, target, lambda count: cost({**chosen, FEEDFORWARD: count}))
            chosen[FEEDFORWARD] = units
    changed = {key: size for key, size in chosen.items() if size != widths.get(key)}
    return Match(tuple(f"{key}={size}" for key, size in changed.items()), value, value / target - 1)


def _nearest(size: int, own: float, target: float, cost: Callable[[int], float | None]) -> tuple[int, float]:
    """The size whose cost is nearest to the target, and that cost, from a size that is possible and its cost."""
    step = next((step for step in range(1, min(MAX_STEP, size)) if cost(size - step) is not None), size)
    costs = {0: own}  # by the number of steps from the first size

    def cost_at(index: int) -> float:
        if index not in costs and (value := cost(size + step * index)) is not None:
            costs[index] = value
        return costs.get(index, math.inf if index > 0 else 0.0)  # what is refused ends the search on its side

    low = high = 0
    lowest, highest, jump = -((size - 1) // step), (MAX_GROWTH - 1) * size // step, 1
    while cost_at(high) < target and high < highest:
        low, high, jump = high, min(high + jump, highest), 2 * jump
    while cost_at(low) > target and low > lowest:
        low, high, jump = max(low - jump, lowest), low, 2 * jump
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cost_at(middle) <= target else (low, middle)
    index = min(costs, key=lambda index: (abs(costs[index] - target), abs(index)))
    return size + step * index, costs[index]
