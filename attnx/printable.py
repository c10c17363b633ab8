r"""Text that is safe to show: no character of it moves the cursor, colors, renames the window or turns the direction.

Data, and files of other people, may hold such characters; a terminal obeys those that it is sent.
"""

from __future__ import annotations

import re
from typing import Final

# Control characters (C0, DEL, C1), line and paragraph separators, what embeds, overrides or isolates a direction
# (Unicode TR9), and halves of surrogate pairs, which no stream can encode.
UNSAFE: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE = re.compile(f"[{UNSAFE}]")


def printable(text: str) -> str:
    r"""Text with each unsafe character written out as Python does: ``\x1b``, ``\u202e``; a tab is ``\t``.

    >>> print(printable("a\x1b[31mb\u202e c\td"))
    a\x1b[31mb\u202e c\td
    """
    return _UNSAFE.sub(lambda found: ascii(found[0])[1:-1], text)
