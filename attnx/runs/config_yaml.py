"""Reads config.yaml; parts that many runs share are parsed once."""

from __future__ import annotations

import copy
import re
from functools import cache
from pathlib import Path
from typing import Any

from attnx.errors import UserError
from attnx.files.bounded_files import MAX_FILE_BYTES, parse_yaml, read_mapping, read_text
from attnx.registry.part import KINDS
from attnx.runs.layout import CONFIG_YAML

# The start of a top-level key.
SECTION = re.compile(r"^(?=[^\s#-])", re.MULTILINE)


def read_config(file: Path) -> dict[str, Any]:
    """Read a configuration; empty without the file.

    Raises:
        UserError: it cannot be read, or a part in it is a number or a word.
    """
    if not (file.is_symlink() or file.exists()):
        return {}
    text = read_text(file, MAX_FILE_BYTES)
    try:
        sections = [_parse(section) for section in SECTION.split(text) if section.strip()]
    except (UserError, TypeError):  # YAML that attnx did not write: read, or refused, in one piece
        config = read_mapping(file)
    else:
        config = copy.deepcopy({key: value for section in sections for key, value in section.items()})
    for kind in KINDS:
        if isinstance(config.get(kind), str | int | float):
            raise UserError(f"{file}: {kind}: expected a name and options, found {config[kind]!r}")
    return config


@cache
def _parse(text: str) -> dict[str, Any]:
    section = parse_yaml(text, CONFIG_YAML) or {}
    if not isinstance(section, dict):
        raise TypeError(type(section))
    return section
