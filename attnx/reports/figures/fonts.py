"""Fonts for the characters of a picture in any script, and line breaking by display columns."""

from __future__ import annotations

import re
import unicodedata
import warnings
from functools import lru_cache
from typing import NamedTuple

from matplotlib import font_manager
from rich.cells import cell_len, chop_cells

# Fonts with a placeholder for everything, that cannot be rasterized, or with other glyphs at known codes.
EXCLUDED_FONTS = ("Last Resort", "Noto Color Emoji", "STIXNonUnicode", "cm")
UNLIKELY_STYLES = ("Mono", "Serif", "Looped", "Display", "Unjoined", "Kufi")
# Signs that pictures add: visible space, dotted circle (carries a lone mark), arrow, cross, ellipsis, empty set.
SIGNS = "\u2423\u25cc\u2192\u2717\u2026\u2205"
JOINERS = frozenset("\u200c\u200d")  # invisible, they control how their neighbors join
# Keeps neighboring text left to right; without it the arrow of a title turns between right-to-left words.
LEFT_TO_RIGHT = "\u200e"


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
    """Choose fonts for a text: DejaVu Sans, then installed fonts with characters that it lacks, the likeliest first.

    Plain fonts come before serif and monospaced ones; for ideographs the font of the text's language comes first.
    """
    needed = {character for character in text if character.isprintable()} | (set(text) & JOINERS) | set(SIGNS)
    if is_right_to_left(text):
        needed |= {LEFT_TO_RIGHT}
    is_korean = re.search("[\u1100-\u11ff\uac00-\ud7af]", text)
    region = "JP" if re.search("[\u3040-\u30ff]", text) else "KR" if is_korean else "SC"

    def rank(font: tuple[str, str]) -> tuple[bool, bool, bool, str]:
        name = font[0]
        is_unlikely = any(style in name for style in UNLIKELY_STYLES)
        return name != f"Noto Sans CJK {region}", is_unlikely, not name.startswith("Noto Sans"), name

    families = ["DejaVu Sans"]
    missing = needed - _characters(font_manager.findfont("DejaVu Sans"))
    for find_fonts in (_listed_fonts, _unlisted_fonts):
        for family, file in sorted(find_fonts().items(), key=rank) if missing else ():
            if missing and missing & _characters(file):
                families.append(family)
                missing -= _characters(file)
    return TextFonts(families, frozenset(missing | (set(text) - needed)))


def is_right_to_left(text: str) -> bool:
    """Whether a text's first letter belongs to a right-to-left script."""
    return next((kind != "L" for kind in map(unicodedata.bidirectional, text) if kind in ("L", "R", "AL")), False)


def shorten(text: str, columns: int) -> str:
    """Cut a text to so many columns, with an ellipsis at the end if it was cut."""
    return text if cell_len(text) <= columns else chop_cells(text, columns - 1)[0] + "\u2026"


def wrap(text: str, columns: int, max_lines: int, end: str = "") -> str:
    """Break a text into lines at spaces, or within words longer than a line; surplus lines are cut off.

    ``end`` follows the last character; it is never cut off and never on a line alone.
    """
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}".lstrip(" ")
        lines[-1:] = [joined] if cell_len(joined) <= columns else [lines[-1], *chop_cells(word, columns)]
    lines = list(filter(None, lines)) or [""]
    if end and cell_len(lines[-1] + end) > columns:  # move the last word to the end's line
        last = lines.pop()
        first = last.rpartition(" ")[0] or chop_cells(last, columns - cell_len(end))[0]
        lines += [first, last[len(first) :].lstrip(" ")]
    if len(lines) > max_lines:
        lines = [*lines[: max_lines - 1], shorten(" ".join(lines[max_lines - 1 :]), columns - cell_len(end))]
    return "\n".join(lines) + end


def _listed_fonts() -> dict[str, str]:
    """The upright fonts of normal weight that matplotlib knows."""
    fonts = font_manager.fontManager.ttflist
    plain = [font for font in fonts if font.style == "normal" and str(font.weight) in {"400", "normal"}]
    return {font.name: font.fname for font in plain if not font.name.startswith(EXCLUDED_FONTS)}


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


@lru_cache
def _characters(file: str) -> frozenset[str]:
    return frozenset(map(chr, font_manager.get_font(file).get_charmap()))
