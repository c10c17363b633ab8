"""Which fonts hold the characters of a picture, whatever the script, and what to write for those that none holds."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import NamedTuple

from matplotlib import font_manager

# Fonts that have a placeholder for everything, cannot be rasterised, or put other glyphs at known codes.
USELESS_FONTS = ("Last Resort", "Noto Color Emoji", "STIXNonUnicode", "cm")


class Lettering(NamedTuple):
    """The fonts that together hold the characters of a picture, and the characters that none of them has."""

    families: list[str]
    missing: frozenset[str]

    def shown(self, symbol: str) -> str:
        """Return what to write for a symbol: a visible space, U+XXXX for what no font has, else itself."""
        if symbol and unicodedata.combining(symbol[0]) and "\u25cc" not in self.missing:
            symbol = "\u25cc" + symbol
        return "".join(f"U+{ord(c):04X}" if c in self.missing else c for c in symbol.replace(" ", "\u2423"))


def lettering_for(text: str) -> Lettering:
    """Choose fonts for a text: DejaVu Sans, then whichever installed fonts add characters it lacks."""
    needed = {character for character in text if character.isprintable()} | set("\u2423\u25cc\u2192\u2717")
    families = ["DejaVu Sans"]
    missing = needed - _characters(font_manager.findfont("DejaVu Sans"))
    installed = {font.name: font.fname for font in font_manager.fontManager.ttflist if _plain(font)}
    for family in sorted(installed) if missing else ():
        if missing & _characters(installed[family]):
            families.append(family)
            missing -= _characters(installed[family])
    return Lettering(families, frozenset(missing | (set(text) - needed)))


def _plain(font: font_manager.FontEntry) -> bool:
    upright = font.style == "normal" and str(font.weight) in {"400", "normal"}
    return upright and not font.name.startswith(USELESS_FONTS)


@lru_cache
def _characters(file: str) -> frozenset[str]:
    return frozenset(map(chr, font_manager.get_font(file).get_charmap()))
