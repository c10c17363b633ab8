"""Which search a reopened run uses: its own, another one, or one wide enough for the best N. Without torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnx import registry
from attnx.errors import UserError
from attnx.registry import PartSpec

# What outputs may be: a run's own rules hold for whichever search takes the place of its own.
RULES = ("max_length_ratio", "max_length_extra", "min_length", "no_repeat_ngram_size")
WIDE = "beam"


def choose_search(
    own: Mapping[str, Any],
    asked: PartSpec | None = None,
    knobs: Mapping[str, Any] | None = None,
    nbest: int | None = None,
) -> dict[str, Any]:
    """The search to use, every knob filled in.

    Args:
        own: the run's.
        asked: another one, by its name or with its knobs; it keeps the rules of the run's own.
        knobs: values for whichever it is.
        nbest: how many outputs to find for each source. Left out, as many as the search is set to. A search that was
            not asked for gives way to ``beam`` if it finds one alone, and a width that was not asked for is widened.

    Raises:
        UserError: an unknown search or knob, a value out of its range, or a search too narrow for ``nbest``.
    """
    name, held = registry.parse_spec("decoding", own)
    given = dict(knobs or {})
    if asked is not None:
        name, values = registry.parse_spec("decoding", asked)
        given = {**values, **given}
    elif type(nbest) is int and nbest > 1 and "nbest" not in _knobs(name):
        name, asked = WIDE, WIDE
    if asked is not None:
        held = {knob: held[knob] for knob in RULES if knob in held and knob in _knobs(name)}
    chosen = {**held, **given}
    checked = {"name": name, **registry.check("decoding", name, chosen)}
    return checked if nbest is None else _for_the_best(checked, given, nbest)


def _for_the_best(search: dict[str, Any], given: Mapping[str, Any], nbest: int) -> dict[str, Any]:
    """The search with room for so many."""
    if type(nbest) is not int or nbest < 1:
        raise UserError(f"nbest={nbest!r}: expected a whole number, 1 or more")
    name = search["name"]
    if "nbest" not in search:
        if nbest > 1:
            raise UserError(f"decoding={name} finds one output for each source; the {nbest} best need decoding={WIDE}")
        return search
    if given.get("nbest", nbest) != nbest:
        raise UserError(f"decoding.nbest={given['nbest']} and {nbest} best are both asked for; leave one out")
    beam_size = search.get("beam_size", nbest)
    if beam_size < nbest and "beam_size" in given:
        raise UserError(f"decoding.beam_size={beam_size} holds fewer than the {nbest} best; raise it, or leave it out")
    wide = {"beam_size": max(beam_size, nbest)} if "beam_size" in search else {}
    return {"name": name, **registry.check("decoding", name, {**_without_name(search), **wide, "nbest": nbest})}


def _knobs(name: str) -> set[str]:
    return {knob.name for knob in registry.describe("decoding", name).knobs}


def _without_name(search: Mapping[str, Any]) -> dict[str, Any]:
    return {knob: value for knob, value in search.items() if knob != "name"}
