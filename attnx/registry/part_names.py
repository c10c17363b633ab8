"""Names of parts."""

from __future__ import annotations

import re

PART_NAME = re.compile(r"[^\W\d][\w-]*")
YAML_VALUES = ("null", "true", "false")
NAME_RULE = f"a part's name is one word of letters, digits, _ and -, and none of {', '.join(YAML_VALUES)}"


def is_part_name(name: object) -> bool:
    """Whether a part can be chosen by a name.

    >>> is_part_name("mlp"), is_part_name("a b"), is_part_name("null")
    (True, False, False)
    """
    return isinstance(name, str) and PART_NAME.fullmatch(name) is not None and name not in YAML_VALUES
