"""What the scope of a finished run forbids to read, from its configuration and its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from attnx import registry
from attnx.runs.alignments import Alignment

Mask: TypeAlias = NDArray[np.bool_]


class Window(NamedTuple):
    """What ``scope=local`` lets a step read around a center that is known beforehand."""

    window: int
    dilation: int = 1
    sinks: int = 0
    global_tokens: int = 0

    def forbidden_mask(self, centers: NDArray[np.integer[Any]], count: int) -> Mask:
        """The positions, ``count`` of them, that steps with these centers (t,) do not read: (t, count)."""
        positions, steps = np.arange(count), np.arange(len(centers))[:, None]
        distance = abs(positions - centers[:, None])
        is_read = (distance <= self.window * self.dilation) & (distance % self.dilation == 0)
        is_read |= positions < max(self.sinks, self.global_tokens)
        mask: Mask = ~(is_read | (steps < self.global_tokens))
        return mask


Windows: TypeAlias = Sequence[Window | None]
"""Those of the heads, in turn; None of a head with another scope."""


def forbidden_mask(weights: NDArray[np.floating[Any]], decoder_states: int, windows: Windows = ()) -> Mask:
    """The positions that the scope forbids: (t, m) weights -> (t, m) bool.

    A step reads no decoder state of a later step. If the last state that it may read lies further back, in all steps
    alike, and always has weight, those behind it are forbidden, too. So is what lies outside of all ``windows``, around
    the step in the source, and around the last state that it may read, where that is known.
    """
    steps, columns = weights.shape
    source = columns - decoder_states
    ages = np.arange(steps)[:, None] - np.arange(-source, decoder_states)  # of states, in steps; source comes before
    mask: Mask = (ages < 0) & (np.arange(columns) >= source)
    known = [window for window in windows if window is not None]
    has_windows = 0 < len(windows) == len(known)
    if has_windows:
        centers = np.minimum(np.arange(steps), source - 1)
        mask[:, :source] |= np.all([window.forbidden_mask(centers, source) for window in known], axis=0)
    read = weights != 0
    if (read[:, source:]).any():
        youngest = ages[:, source:][read[:, source:]].min()
        if read[:, source:][ages[:, source:] == youngest].all():
            mask |= (ages < youngest) & ~read
            if has_windows:
                centers = np.arange(steps) - youngest
                outside = [window.forbidden_mask(centers, decoder_states) for window in known]
                mask[:, source:] |= np.all(outside, axis=0)
    return mask


def view_masks(alignment: Alignment, windows: Windows = ()) -> list[Mask]:
    """What the scope forbids in each view of an alignment: in the mean what it forbids to all heads."""
    count, states = max(1, len(windows)), alignment.num_decoder_states
    mean, *heads = alignment.views.values()
    masks = [forbidden_mask(head, states, windows[index % count :][:1]) for index, head in enumerate(heads)]
    return [forbidden_mask(mean, states, windows), *masks]


def read_windows(config: Mapping[str, Any], site: Literal["self", "cross"] | None = None) -> Windows:
    """The windows of the attention whose weights are saved, or of a transformer's at a site; empty if there are none.

    Empty also for an encoder with fewer states than source steps: windows count states, saved weights are over steps.
    """
    encoder = (config.get("encoder") or {}).get("name", "recurrent")
    if registry.declarations("encoder", encoder).get("is_downsampling"):
        return ()
    head_scopes = (config.get("attention") or {}).get("head_scopes")
    scopes = [_with_options(scope) for scope in head_scopes] if head_scopes else [_scope(config, site)]
    windows = [_window(scope) for scope in scopes]
    return windows if any(windows) else ()


def _window(scope: Mapping[str, Any]) -> Window | None:
    """The window of a scope; None for another scope, and for predicted centers, which weights do not show."""
    if scope.get("name") != "local" or scope.get("center", "monotonic") != "monotonic" or "window" not in scope:
        return None
    return Window(**{option: scope[option] for option in Window._fields if option in scope})


def _scope(config: Mapping[str, Any], site: str | None) -> Mapping[str, Any]:
    """The scope of a site; where none is named in a transformer, of cross-attention, or of decoder_only's own."""
    model = config.get("model") or {}
    site = site or ("self" if model.get("form") == "decoder_only" else "cross")
    spec = model.get(f"{site}_scope")
    return _with_options(spec) if spec is not None else config.get("scope") or {}


def _with_options(spec: Any) -> Mapping[str, Any]:
    name, options = registry.parse_spec("scope", spec)
    return {"name": name, **registry.check("scope", name, options)}
