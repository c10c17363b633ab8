"""Optional packages: imported where they are used, and if missing, asked for in one line."""

from __future__ import annotations

import importlib
from typing import Any

from attnx.errors import UserError


def need(module: str, extra: str, what: str) -> Any:
    """Import a module of an optional package.

    Args:
        module: its dotted name.
        extra: the extra of attnx that installs it.
        what: what needs it, for the message.

    Raises:
        UserError: it is not installed.
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise UserError(f"{what} needs {package}, which is not installed: pip install 'attnx[{extra}]'") from None
