"""Which fonts hold the characters of a picture, whatever the script, and what to write for those that none holds."""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, takewhile
from typing import NamedTuple

from matplotlib import font_manager

# Fonts that have a placeholder for everything, cannot be rasterized, or put other glyphs at known codes.
USELESS_FONTS = ("Last Resort", "Noto Color Emoji", "STIXNonUnicode", "cm")
# What pictures write beside symbols: a space, the bearer of a mark, an arrow, a cross, an ellipsis, the empty set.
SIGNS = "\u2423\u25cc\u2192\u2717\u2026\u2205"
JOINERS = frozenset("\u200c\u200d")  # they print nothing and say how their neighbors are joined
# A mark that keeps what is next to it from left to right: the arrow of a title would turn between words that are not.
LEFT_TO_RIGHT = "\u200e"
ELLIPSIS = "\u2026"


class Lettering(NamedTuple):
    """The fonts that together hold the characters of a picture, and the characters that none of them has."""

    families: list[str]
    missing: frozenset[str]

    def shown(self, symbol: str) -> str:
        """Return what to write for a symbol: a visible space, U+XXXX for what no font has, else itself."""
        if symbol and unicodedata.combining(symbol[0]) and "\u25cc" not in self.missing:
            symbol = "\u25cc" + symbol
        bare = not set(symbol) - JOINERS
        return "".join(f"U+{ord(c):04X}" if bare or c in self.missing else c for c in symbol.replace(" ", "\u2423"))

    @property
    def lacking(self) -> str:
        """Which scripts' characters no installed font has, in one line; "" if none is missing."""
        unseen = sorted(c for c in self.missing if c.isprintable())
        if not unseen:
            return ""
        named = ", ".join(f"U+{ord(c):04X} {unicodedata.name(c, '')}".rstrip() for c in unseen[:3])
        more = f" and {len(unseen) - 3} more" if len(unseen) > 3 else ""
        return f"no installed font has {named}{more}: written as code points; a font of the script, Noto say, helps"


def lettering_for(text: str) -> Lettering:
    """Choose fonts for a text: DejaVu Sans, then whichever installed fonts add characters it lacks."""
    needed = {character for character in text if character.isprintable()} | (set(text) & JOINERS) | set(SIGNS)
    if right_to_left(text):
        needed |= {LEFT_TO_RIGHT}
    families = ["DejaVu Sans"]
    missing = needed - _characters(font_manager.findfont("DejaVu Sans"))
    for family, file in _candidates(text) if missing else ():
        if missing & _characters(file):
            families.append(family)
            missing -= _characters(file)
        if not missing:
            break
    return Lettering(families, frozenset(missing | (set(text) - needed)))


def right_to_left(text: str) -> bool:
    """Whether a text's first letter belongs to a script that is written from right to left."""
    return next((kind != "L" for kind in map(unicodedata.bidirectional, text) if kind in ("L", "R", "AL")), False)


def wide(text: str) -> int:
    """How many columns a text takes: an ideograph takes two, a mark on another character none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def shortened(text: str, most: int) -> str:
    """A text of at most so many columns, an ellipsis at its end if something was left out."""
    return text if wide(text) <= most else _head(text, most - 1) + ELLIPSIS


def wrapped(text: str, width: int, lines: int, end: str = "") -> str:
    """A text in lines of at most ``width`` columns, broken at spaces where that can be; too many lines are cut off.

    ``end`` is written behind the last character, never on a line of its own and never cut off.
    """
    found: list[str] = []
    for word in text.split(" "):
        rest = word
        if found and wide(found[-1]) + 1 + wide(rest) <= width:
            rest = f"{found.pop()} {rest}"
        while wide(rest) > width:  # a word longer than a line
            found.append(_head(rest, width) or rest[0])
            rest = rest[len(found[-1]) :]
        found += [rest] if rest or not found else []
    if end and wide(found[-1]) + wide(end) > width:  # the end takes the last word, or a part of it, to the next line
        last = found.pop()
        kept = last.rpartition(" ")[0] or _head(last, width - wide(end))
        found += [kept, last[len(kept) :].lstrip(" ")]
    if len(found) > lines:
        found = [*found[: lines - 1], shortened(" ".join(found[lines - 1 :]), width - wide(end))]
    return "\n".join(found) + end


def _head(text: str, most: int) -> str:
    """As much of a text as takes at most so many columns."""
    ends = accumulate(map(wide, text))
    return text[: sum(1 for _ in takewhile(lambda end: end <= most, ends))]


def _candidates(text: str) -> Iterator[tuple[str, str]]:
    """Installed fonts, the likeliest first; those installed since matplotlib made its list come last."""
    yield from _ranked(text, _listed())
    yield from _ranked(text, _new())


def _ranked(text: str, fonts: dict[str, str]) -> list[tuple[str, str]]:
    """Plain fonts before those with serifs or of one width; of the fonts for ideographs that of the text's language."""
    ideographs = f"Noto Sans CJK {_language(text)}"
    unlikely = ("Mono", "Serif", "Looped", "Display", "Unjoined", "Kufi")

    def rank(font: tuple[str, str]) -> tuple[bool, bool, bool, str]:
        name = font[0]
        return name != ideographs, any(word in name for word in unlikely), not name.startswith("Noto Sans"), name

    return sorted(fonts.items(), key=rank)


def _language(text: str) -> str:
    """The region whose forms ideographs have: of Japanese beside kana, of Korean beside hangul, else of China."""
    if re.search("[\u3040-\u30ff]", text):
        return "JP"
    return "KR" if re.search("[\u1100-\u11ff\uac00-\ud7af]", text) else "SC"


def _listed() -> dict[str, str]:
    return {font.name: font.fname for font in font_manager.fontManager.ttflist if _plain(font)}


@lru_cache(maxsize=1)
def _new() -> dict[str, str]:
    """Add the fonts that matplotlib's own list, made when it was first used, does not have yet."""
    known = {font.fname for font in font_manager.fontManager.ttflist}
    before = _listed().keys()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for file in font_manager.findSystemFonts():
            if file not in known:
                try:
                    font_manager.fontManager.addfont(file)
                except (OSError, RuntimeError, ValueError):  # a file that is no font, or none that can be drawn
                    continue
    return {name: file for name, file in _listed().items() if name not in before}


def _plain(font: font_manager.FontEntry) -> bool:
    upright = font.style == "normal" and str(font.weight) in {"400", "normal"}
    return upright and not font.name.startswith(USELESS_FONTS)


@lru_cache
def _characters(file: str) -> frozenset[str]:
    return frozenset(map(chr, font_manager.get_font(file).get_charmap()))
