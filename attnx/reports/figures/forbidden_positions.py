"""What the scope of a finished run forbids to read, from its configuration and its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnx import registry

# The options of a window around the step that is all it reads, and has no gaps.
PLAIN_WINDOW = {"center": "monotonic", "dilation": 1, "sinks": 0, "global_tokens": 0}


def forbidden_mask(
    weights: NDArray[np.floating[Any]], decoder_states: int, window: int | None = None
) -> NDArray[np.bool_]:
    """The positions that the scope forbids: (t, m) weights -> (t, m) bool.

    A step reads no decoder state of a later step. If the last state that it may read lies further back, in all steps
    alike, and always has weight, those behind it are forbidden, too. So is what is further from the step in the source
    than ``window`` positions.
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
        centers = np.minimum(np.arange(steps), source - 1)
        mask[:, :source] |= abs(np.arange(source) - centers[:, None]) > window
    return mask


def read_window(config: Mapping[str, Any]) -> int | None:
    """How far the window of ``scope=local`` around the step reaches in the source; None for any other scope.

    None also for predicted windows, which weights do not show, for those with gaps, sinks or global tokens, for heads
    with scopes of their own, and for an encoder with fewer states than source steps: windows count states, saved
    weights are over steps.
    """
    scope, encoder = _part(config, "scope"), (config.get("encoder") or {}).get("name", "recurrent")
    has_head_scopes = (config.get("attention") or {}).get("head_scopes")
    is_plain = not has_head_scopes and all(scope.get(option, plain) == plain for option, plain in PLAIN_WINDOW.items())
    is_monotonic = scope.get("name") == "local" and is_plain
    is_downsampling = registry.declarations("encoder", encoder).get("is_downsampling")
    return int(scope["window"]) if is_monotonic and "window" in scope and not is_downsampling else None


def _part(config: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """The part of the attention whose weights are saved: in a transformer, cross-attention or decoder_only's own."""
    model = config.get("model") or {}
    site = "self" if model.get("form") == "decoder_only" else "cross"
    spec = model.get(f"{site}_{kind}")
    if spec is None:
        return config.get(kind) or {}
    name, options = registry.parse_spec(kind, spec)
    return {"name": name, **registry.check(kind, name, options)}
