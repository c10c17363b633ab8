"""What Hydra refused, said in one line of our own, with near misses."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attnx.choices import CHOSEN, GROUPS, SCALARS, options, owners
from attnx.errors import near_misses


def in_our_words(error: Exception, overrides: Sequence[str]) -> str:
    """Say in one line what Hydra refused."""
    text = str(error)
    missing = re.search(r"Could not (?:find|load) '([^']+)/([^'/]+)'", text)
    if missing:
        kind, name = missing.groups()
        return f"unknown {kind} {name!r}{near_misses(name, options(kind))}"
    unknown = re.search(r"Key '([^']+)' is not in struct\s+full_key: (\S+)", text)
    if unknown:
        return _unknown_key(unknown[2])
    group = re.search(r"In 'config': Could not (?:find|override) '([^']+)'", text) or re.search(
        r"Could not override '([^'=]+)'", text
    )
    if group and group[1] not in GROUPS:
        return _unknown_key(group[1])
    several = re.search(r"(?:Ambiguous value for argument|Sweep parameters) '([^']+)'", text)
    if several:
        return f"{several[1]} means several runs; add -m to run them in turn, or write a list as [a,b]"
    syntax = re.search(
        r"(?:mismatched input|no viable alternative|extraneous input|token recognition|LexerNoViable)", text
    )
    if syntax:
        shown = " ".join(overrides)
        return f"cannot read the overrides {shown!r}: write key=value, lists as key=[a,b], and quote spaces and braces"
    return " ".join(text.split())


def _unknown_key(path: str) -> str:
    head, _, knob = path.partition(".")
    if not knob:
        return f"unknown key {head!r}{near_misses(head, [*GROUPS, *SCALARS])}"
    if head == "query":
        name, _, rest = knob.partition(".")
        return (
            f"query.{name} is not part of this query; add it with +query=[...]"
            if not rest
            else (f"the query {name!r} has no knob {rest!r}")
        )
    if head not in CHOSEN:
        return f"unknown key {path!r}"
    held = owners(head)
    if knob in held:
        return f"the chosen {head} has no knob {knob!r}; it belongs to {head}={', '.join(held[knob])}"
    return f"the chosen {head} has no knob {knob!r}{near_misses(knob, held)}"
