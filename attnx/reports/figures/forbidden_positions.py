"""What the scope of a finished run forbids to read, from its configuration and its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnx import registry
from attnx.runs.alignments import Alignment

# Normalizers that give every position of a window some weight, so that weights show where a predicted window was.
DENSE_NORMALIZERS = ("softmax", "sigmoid")


class LocalWindow(NamedTuple):
    """The scope ``local`` as configured, with ``radius`` positions on either side of the center.

    The center is the step (``is_monotonic``) or predicted; if ``is_dense``, every position has some weight.
    """

    radius: int
    is_monotonic: bool
    is_dense: bool

    def mask(self, weights: NDArray[np.floating[Any]], decoder_states: int) -> NDArray[np.bool_]:
        """The positions in each step's window: (t, m) weights -> (t, m) bool.

        Monotonic windows over the source are known. Predicted windows, and those over decoder states, are inferred
        from the nonzero weights; a row whose window cannot be inferred is all False.
        """
        steps, columns = weights.shape
        source = columns - decoder_states
        mask = np.zeros(weights.shape, dtype=np.bool_)
        if self.is_monotonic and source:
            centers = np.minimum(np.arange(steps), source - 1)
            mask[:, :source] = abs(np.arange(source) - centers[:, None]) <= self.radius
        elif self.is_dense:
            mask[:, :source] = [self._span(row, must_touch_edge=True) for row in weights[:, :source]]
        if self.is_dense and decoder_states:
            mask[:, source:] = [self._span(row, must_touch_edge=False) for row in weights[:, source:]]
        return mask

    def _span(self, row: NDArray[np.floating[Any]], must_touch_edge: bool) -> NDArray[np.bool_]:
        """From the first to the last nonzero weight, if that is as wide as a window or may be cut off by an edge."""
        nonzero, span = np.flatnonzero(row), np.zeros(len(row), dtype=np.bool_)
        if len(nonzero):
            first, last = nonzero[[0, -1]]
            width, full = last - first + 1, 2 * self.radius + 1
            may_be_cut = not must_touch_edge or first == 0 or last == len(row) - 1
            span[first : last + 1] = width == full or (width < full and may_be_cut)
        return span


def forbidden_mask(
    weights: NDArray[np.floating[Any]], decoder_states: int, window: LocalWindow | None = None
) -> NDArray[np.bool_]:
    """The positions that the scope forbids: (t, m) weights -> (t, m) bool.

    A step reads no decoder state of a later step. If the last state that it may read lies further back, in all steps
    alike, and always has weight, those behind it are forbidden, too. So is what lies outside a known window.
    """
    steps, columns = weights.shape
    source = columns - decoder_states
    ages = np.arange(steps)[:, None] - np.arange(-source, decoder_states)  # of states, in steps; source comes before
    mask: NDArray[np.bool_] = (ages < 0) & (np.arange(columns) >= source)
    read = weights != 0
    if (read[:, source:]).any():
        youngest = ages[:, source:][read[:, source:]].min()
        if read[:, source:][ages[:, source:] == youngest].all():
            mask |= (ages < youngest) & ~read
    if window is not None:
        inside = window.mask(weights, decoder_states)
        for group in (slice(0, source), slice(source, columns)):
            is_known = inside[:, group].any(axis=1, keepdims=True)
            mask[:, group] |= is_known & ~inside[:, group]
    return mask


def view_window(window: LocalWindow | None, alignment: Alignment, view: str) -> LocalWindow | None:
    """The window of a view of weights; the mean over heads has none if each head predicts its own."""
    is_mean = alignment.heads is not None and view == "mean"
    return None if window and is_mean and not window.is_monotonic else window


def read_window(config: Mapping[str, Any]) -> LocalWindow | None:
    """The window of a run's configuration; None for any other scope.

    None also for an encoder with fewer states than source steps: windows count states, saved weights are over steps.
    """
    scope, encoder = _part(config, "scope"), (config.get("encoder") or {}).get("name", "recurrent")
    if (
        scope.get("name") != "local"
        or "window" not in scope
        or registry.declarations("encoder", encoder).get("is_downsampling")
    ):
        return None
    is_dense = _part(config, "normalizer").get("name", "softmax") in DENSE_NORMALIZERS
    return LocalWindow(int(scope["window"]), scope.get("center", "monotonic") == "monotonic", is_dense)


def _part(config: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """The part of the attention whose weights are saved: in a transformer, cross-attention or decoder_only's own."""
    model = config.get("model") or {}
    site = "self" if model.get("form") == "decoder_only" else "cross"
    spec = model.get(f"{site}_{kind}")
    if spec is None:
        return config.get(kind) or {}
    name, options = registry.parse_spec(kind, spec)
    return {"name": name, **registry.check(kind, name, options)}
