"""The packages that attnx needs: one that is missing or too old is an error of one line that says how to install it."""

from __future__ import annotations

import importlib
import re
from contextlib import suppress
from importlib import metadata
from typing import Any

from attnx.errors import UserError


def require_core_packages() -> None:
    """Look whether the packages that every command needs are installed, without importing them.

    Raises:
        UserError: one is not installed, or is older than ``pyproject.toml`` asks for.
    """
    for package, oldest in _oldest_versions("").items():
        try:
            _refuse_older(package, oldest, "attnx", "")
        except metadata.PackageNotFoundError:
            raise UserError(f"attnx needs {package}, which is not installed: {install_command('')}") from None


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
        raise UserError(f"{what} needs {package}, which is not installed: {install_command(extra)}") from None
    name = package.replace("_", "-")
    with suppress(metadata.PackageNotFoundError):  # a module of another package
        _refuse_older(name, _oldest_versions(extra).get(name, "0"), what, extra)
    return imported


def _refuse_older(package: str, oldest: str, what: str, extra: str) -> None:
    version = metadata.version(package)
    if _release(version) < _release(oldest):
        raise UserError(f"{what} needs {package} {oldest} or newer, and this is {version}: {install_command(extra)}")


def _oldest_versions(extra: str) -> dict[str, str]:
    """By package, the oldest version that an extra asks for, or without one attnx itself."""
    try:
        requirements = metadata.requires("attnx") or []
    except metadata.PackageNotFoundError:  # a clone that is not installed
        return {}
    matches = (re.match(r"([\w-]+)[^;]*>=([\w.]+)[^;]*(?:;.*extra == '([\w-]+)')?$", text) for text in requirements)
    return {match[1]: match[2] for match in matches if match and (match[3] or "") == extra}


def _release(version: str) -> tuple[int, ...]:
    """The numbers of a version; a preview counts as what it precedes, as torch's in NVIDIA's containers.

    >>> _release("2.7.0a0+79aa17489c")
    (2, 7, 0)
    """
    return tuple(int(number) for number in re.findall(r"\d+", re.split(r"[^\d.]", version)[0]))


def install_command(extra: str) -> str:
    """How to install attnx with an extra; it is in no package index, where its name is something else."""
    place = f"'.[{extra}]'" if extra else "."
    return f"in the clone of attnx, pip install -c constraints.txt -e {place}"
