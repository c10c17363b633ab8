"""Paths as users write them: with a home folder and environment variables to fill in."""

from __future__ import annotations

import os
import re
from pathlib import Path

from attnx.errors import UserError


def fill_in(knob: str, path: str) -> Path:
    """Fill in ``~`` and environment variables, as in ``$ATTNX_DATA/words.tsv``.

    Args:
        knob: what named the path, for the message.
        path: a file, a folder, or a pattern of files.

    Raises:
        UserError: a variable is not set.

    >>> fill_in("task.train", "words.tsv").name
    'words.tsv'
    """
    filled = os.path.expandvars(os.path.expanduser(path))
    unset = re.search(r"\$\{?(\w+)", filled)
    if unset:
        raise UserError(f"{knob}={path}: the environment variable {unset[1]} is not set; set it to the data's folder")
    return Path(filled)
