"""Select the decoding of a loaded run: its configured one, another one, or a beam wide enough for N outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnx import registry
from attnx.errors import UserError
from attnx.registry import PartSpec

# Constraints on outputs: what the run's decoding sets holds for the decoding that replaces it, too.
CONSTRAINT_OPTIONS = ("max_length_ratio", "max_length_extra", "min_length", "no_repeat_ngram_size")
WIDE = "beam"


def choose_decoding(
    configured: Mapping[str, Any],
    override: PartSpec | None = None,
    options: Mapping[str, Any] | None = None,
    nbest: int | None = None,
) -> dict[str, Any]:
    """The decoding to use, with the value of every option.

    Args:
        configured: the run's decoding.
        override: another decoding, by its name or with its options; it keeps the constraints of the run's.
        options: values of options, for either.
        nbest: number of outputs for each source; by default the decoding's. A configured decoding with one output is
            replaced by ``beam``, and a configured ``beam_size`` grows to ``nbest``.

    Raises:
        UserError: an unknown decoding or option, a value out of its range, or a beam narrower than ``nbest``.
    """
    name, defaults = registry.parse_spec("decoding", configured)
    requested = dict(options or {})
    if override is not None:
        name, values = registry.parse_spec("decoding", override)
        requested = {**values, **requested}
    elif type(nbest) is int and nbest > 1 and "nbest" not in _options(name):
        name, override = WIDE, WIDE
    if override is not None:
        defaults = {
            option: defaults[option] for option in CONSTRAINT_OPTIONS if option in defaults and option in _options(name)
        }
    checked = registry.fill_in("decoding", (name, {**defaults, **requested}))
    return checked if nbest is None else _widen(checked, requested, nbest)


def _widen(search: dict[str, Any], requested: Mapping[str, Any], nbest: int) -> dict[str, Any]:
    """The decoding with a beam of at least ``nbest``."""
    if type(nbest) is not int or nbest < 1:
        raise UserError(f"nbest={nbest!r}: expected a whole number, 1 or more")
    name = search["name"]
    if "nbest" not in search:
        if nbest > 1:
            raise UserError(f"decoding={name} finds one output for each source; the {nbest} best need decoding={WIDE}")
        return search
    if requested.get("nbest", nbest) != nbest:
        raise UserError(f"decoding.nbest={requested['nbest']} and nbest={nbest} contradict each other; leave one out")
    beam_size = search.get("beam_size", nbest)
    if beam_size < nbest and "beam_size" in requested:
        raise UserError(f"decoding.beam_size={beam_size} holds fewer than the {nbest} best; raise it, or leave it out")
    wide = {"beam_size": max(beam_size, nbest)} if "beam_size" in search else {}
    return registry.fill_in("decoding", {**search, **wide, "nbest": nbest})


def _options(name: str) -> set[str]:
    return {option.name for option in registry.describe("decoding", name).options}
