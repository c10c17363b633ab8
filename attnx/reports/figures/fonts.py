"""Fonts for the characters of a picture in any script, and line breaking by display columns."""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, takewhile
from typing import NamedTuple

from matplotlib import font_manager

# Fonts with a placeholder for everything, that cannot be rasterized, or with other glyphs at known codes.
EXCLUDED_FONTS = ("Last Resort", "Noto Color Emoji", "STIXNonUnicode", "cm")
UNLIKELY_STYLES = ("Mono", "Serif", "Looped", "Display", "Unjoined", "Kufi")
# Signs that pictures add: visible space, dotted circle (carries a lone mark), arrow, cross, ellipsis, empty set.
SIGNS = "\u2423\u25cc\u2192\u2717\u2026\u2205"
JOINERS = frozenset("\u200c\u200d")  # invisible, they control how their neighbors join
# Keeps neighboring text left to right; without it the arrow of a title turns between right-to-left words.
LEFT_TO_RIGHT = "\u200e"
ELLIPSIS = "\u2026"


class TextFonts(NamedTuple):
    """Font families that together cover a text, and its characters that no installed font has."""

    families: list[str]
    missing: frozenset[str]

    def display(self, symbol: str) -> str:
        """The text to draw for a symbol: spaces are visible, missing characters become U+XXXX."""
        if symbol and unicodedata.combining(symbol[0]) and "\u25cc" not in self.missing:
            symbol = "\u25cc" + symbol
        only_joiners = not set(symbol) - JOINERS
        return "".join(
            f"U+{ord(c):04X}" if only_joiners or c in self.missing else c for c in symbol.replace(" ", "\u2423")
        )

    @property
    def warning(self) -> str:
        """A line that names the printable characters that are missing; "" if none is."""
        missing = sorted(c for c in self.missing if c.isprintable())
        if not missing:
            return ""
        names = ", ".join(f"U+{ord(c):04X} {unicodedata.name(c, '')}".rstrip() for c in missing[:3])
        surplus = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        return f"no installed font has {names}{surplus}: drawn as code points; install a font of the script, e.g. Noto"


def choose_fonts(text: str) -> TextFonts:
    """Choose fonts for a text: DejaVu Sans, then installed fonts with characters that it lacks."""
    needed = {character for character in text if character.isprintable()} | (set(text) & JOINERS) | set(SIGNS)
    if is_right_to_left(text):
        needed |= {LEFT_TO_RIGHT}
    families = ["DejaVu Sans"]
    missing = needed - _characters(font_manager.findfont("DejaVu Sans"))
    for family, file in _candidates(text) if missing else ():
        if missing & _characters(file):
            families.append(family)
            missing -= _characters(file)
        if not missing:
            break
    return TextFonts(families, frozenset(missing | (set(text) - needed)))


def is_right_to_left(text: str) -> bool:
    """Whether a text's first letter belongs to a right-to-left script."""
    return next((kind != "L" for kind in map(unicodedata.bidirectional, text) if kind in ("L", "R", "AL")), False)


def display_width(text: str) -> int:
    """Columns of a text: an ideograph takes two, a combining mark none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def shorten(text: str, columns: int) -> str:
    """Cut a text to so many columns, with an ellipsis at the end if it was cut."""
    return text if display_width(text) <= columns else _head(text, columns - 1) + ELLIPSIS


def wrap(text: str, columns: int, max_lines: int, end: str = "") -> str:
    """Break a text into lines at spaces, or within words longer than a line; surplus lines are cut off.

    ``end`` follows the last character; it is never cut off and never on a line alone.
    """
    lines: list[str] = []
    for word in text.split(" "):
        tail = word
        if lines and display_width(lines[-1]) + 1 + display_width(tail) <= columns:
            tail = f"{lines.pop()} {tail}"
        while display_width(tail) > columns:  # a word longer than a line
            lines.append(_head(tail, columns) or tail[0])
            tail = tail[len(lines[-1]) :]
        lines += [tail] if tail or not lines else []
    if end and display_width(lines[-1]) + display_width(end) > columns:  # move the last word to the end's line
        last = lines.pop()
        first = last.rpartition(" ")[0] or _head(last, columns - display_width(end))
        lines += [first, last[len(first) :].lstrip(" ")]
    if len(lines) > max_lines:
        lines = [*lines[: max_lines - 1], shorten(" ".join(lines[max_lines - 1 :]), columns - display_width(end))]
    return "\n".join(lines) + end


def _head(text: str, columns: int) -> str:
    """The longest prefix of at most so many columns."""
    ends = accumulate(map(display_width, text))
    return text[: sum(1 for _ in takewhile(lambda end: end <= columns, ends))]


def _candidates(text: str) -> Iterator[tuple[str, str]]:
    """Installed fonts, the likeliest first; fonts that are not in matplotlib's cached list come last."""
    yield from _rank(text, _listed_fonts())
    yield from _rank(text, _unlisted_fonts())


def _rank(text: str, fonts: dict[str, str]) -> list[tuple[str, str]]:
    """Plain fonts before serif and monospaced ones; for ideographs first the font of the text's language."""
    ideographs = f"Noto Sans CJK {_region(text)}"

    def rank(font: tuple[str, str]) -> tuple[bool, bool, bool, str]:
        name = font[0]
        is_unlikely = any(style in name for style in UNLIKELY_STYLES)
        return name != ideographs, is_unlikely, not name.startswith("Noto Sans"), name

    return sorted(fonts.items(), key=rank)


def _region(text: str) -> str:
    """Region whose forms ideographs take: Japan with kana, Korea with hangul, else China."""
    if re.search("[\u3040-\u30ff]", text):
        return "JP"
    return "KR" if re.search("[\u1100-\u11ff\uac00-\ud7af]", text) else "SC"


def _listed_fonts() -> dict[str, str]:
    return {font.name: font.fname for font in font_manager.fontManager.ttflist if _is_plain(font)}


@lru_cache(maxsize=1)
def _unlisted_fonts() -> dict[str, str]:
    """Add fonts installed after matplotlib cached its list, and return them."""
    listed = _listed_fonts().keys()
    files = {font.fname for font in font_manager.fontManager.ttflist}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for file in set(font_manager.findSystemFonts()) - files:
            try:
                font_manager.fontManager.addfont(file)
            except (OSError, RuntimeError, ValueError):  # no font, or none that can be drawn
                continue
    return {name: file for name, file in _listed_fonts().items() if name not in listed}


def _is_plain(font: font_manager.FontEntry) -> bool:
    is_upright = font.style == "normal" and str(font.weight) in {"400", "normal"}
    return is_upright and not font.name.startswith(EXCLUDED_FONTS)


@lru_cache
def _characters(file: str) -> frozenset[str]:
    return frozenset(map(chr, font_manager.get_font(file).get_charmap()))
