"""Imports optional packages; one that is missing or too old is an error of one line that says how to install it."""

from __future__ import annotations

import importlib
import re
from importlib import metadata
from typing import Any

from packaging.version import Version

from attnx.errors import UserError

# attnx is in no package index: what an index has by its name is something else.
INSTALL = "in the clone of attnx, pip install -c constraints.txt -e '.[{}]'"


def require_package(module: str, extra: str, what: str) -> Any:
    """Import a module of an optional package, which an extra of attnx installs and ``what`` needs.

    Raises:
        UserError: it is not installed, or is older than the extra asks for.
    """
    package = module.partition(".")[0]
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise UserError(f"{what} needs {package}, which is not installed: {INSTALL.format(extra)}") from None
    try:
        version, requirements = metadata.version(package), metadata.requires("attnx") or []
    except metadata.PackageNotFoundError:  # a module of another package, or a clone that is not installed
        return imported
    name = package.replace("_", "-")
    for requirement in requirements:
        oldest = re.match(rf"{name}\b(?!-)[^;]*>=([\w.]+).*extra == '{extra}'", requirement)
        if oldest and Version(version) < Version(oldest[1]):
            needed = f"{what} needs {name} {oldest[1]} or newer, and this is {version}"
            raise UserError(f"{needed}: {INSTALL.format(extra)}")
    return imported
