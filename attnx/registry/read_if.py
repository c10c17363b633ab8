"""The declaration ``read_if`` of a part: on which values of its other options it reads an option."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from attnx.errors import UserError

CONDITION: Final = re.compile(r"(\w+)(!?=)(\S+)")


def check_conditions(conditions: Any, options: Collection[str], place: str) -> None:
    """Check what a part declares as ``read_if``.

    ``{"temperature": "top_k!=1", "size": "keys_from=one_hot|sinusoidal", "rate": ("form=a", "layers!=1")}``
    names an option, or a value of one, ``"precision=tf32"``, and the condition on which it has an effect: words that
    all hold, or a tuple of conditions of which one holds. A value that is not set is ``null``.

    Args:
        conditions: what it declares.
        options: the names of its options.
        place: ``file:line``, for the message.

    Raises:
        UserError: it is no such mapping, or names no option of the part.
    """
    if not isinstance(conditions, Mapping):
        raise UserError(f'{place}: read_if is {conditions!r}; expected conditions by option, {{"a": "b!=1"}}')
    for key, alternatives in conditions.items():
        words = " ".join([alternatives] if isinstance(alternatives, str) else map(str, alternatives)).split()
        names = [str(key).partition("=")[0], *(word.partition("=")[0].removesuffix("!") for word in words)]
        if wrong := next((word for word in words if not CONDITION.fullmatch(word)), None):
            raise UserError(f"{place}: read_if has {wrong!r}; write OPTION=VALUE, OPTION=A|B or OPTION!=VALUE")
        if unknown := next((name for name in names if name not in options), None):
            raise UserError(f"{place}: read_if names {unknown!r}, which is no option")
