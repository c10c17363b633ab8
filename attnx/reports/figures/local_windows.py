"""Where the windows of ``scope=local`` lay when a run read: from its configuration and the weights it left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnx import registry

# Normalizers that give every position of a window some weight, so that weights tell where a predicted window lay.
DENSE = ("softmax", "sigmoid")


class Window(NamedTuple):
    """The scope ``local`` as a run was configured.

    Attributes:
        reach: how many positions it holds on either side of its center.
        monotonic: whether the center is the step, and not predicted.
        dense: whether every position of a window has some weight.
    """

    reach: int
    monotonic: bool
    dense: bool

    def holds(self, weights: NDArray[np.floating[Any]], own: int) -> NDArray[np.bool_]:
        """Which positions each step's window held: (t, m) weights -> (t, m) bool.

        Known are the windows around a step's own position in the source; a predicted one, and one among the decoder's
        own states, shows in which weights are not zero. A row whose window cannot be told holds none.
        """
        steps, symbols = weights.shape
        read = symbols - own
        held = np.zeros(weights.shape, dtype=np.bool_)
        if self.monotonic and read:
            centers = np.minimum(np.arange(steps), read - 1)
            held[:, :read] = abs(np.arange(read) - centers[:, None]) <= self.reach
        elif self.dense:
            held[:, :read] = [self._span(row, cut=True) for row in weights[:, :read]]
        if self.dense and own:
            held[:, read:] = [self._span(row, cut=False) for row in weights[:, read:]]
        return held

    def _span(self, row: NDArray[np.floating[Any]], cut: bool) -> NDArray[np.bool_]:
        """From the first to the last position that has weight; nothing where that is no window.

        Args:
            row: weights.
            cut: whether a window narrower than it should be must lie at an edge.
        """
        found = np.flatnonzero(row)
        span = np.zeros(len(row), dtype=np.bool_)
        if len(found):
            first, last = found[[0, -1]]
            width, whole = last - first + 1, 2 * self.reach + 1
            at_edge = not cut or first == 0 or last == len(row) - 1
            span[first : last + 1] = width == whole or (width < whole and at_edge)
        return span


def window_of(config: Mapping[str, Any]) -> Window | None:
    """The window of a run's configuration; None if its scope is another."""
    scope = _chosen(config, "scope")
    if scope.get("name") != "local" or "window" not in scope:
        return None
    dense = _chosen(config, "normalizer").get("name", "softmax") in DENSE
    return Window(int(scope["window"]), scope.get("center", "monotonic") == "monotonic", dense)


def _chosen(config: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """What a model chose; of one that attends at several places, at that whose weights are kept."""
    model = config.get("model") or {}
    place = "self" if model.get("form") == "decoder_only" else "cross"
    own = model.get(f"{place}_{kind}")
    if own is None:
        return config.get(kind) or {}
    name, knobs = registry.spec(kind, own)
    return {"name": name, **registry.check(kind, name, knobs)}
