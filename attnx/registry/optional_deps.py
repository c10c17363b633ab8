"""Imports optional packages; a missing one is an error of one line that says how to install it."""

from __future__ import annotations

import importlib
from typing import Any

from attnx.errors import UserError

# attnx is in no package index: what an index has by its name is something else.
INSTALL = "in the clone of attnx, pip install -c constraints.txt -e '.[{}]'"


def require_package(module: str, extra: str, what: str) -> Any:
    """Import a module of an optional package, which an extra of attnx installs and ``what`` needs.

    Raises:
        UserError: it is not installed.
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise UserError(f"{what} needs {package}, which is not installed: {INSTALL.format(extra)}") from None
