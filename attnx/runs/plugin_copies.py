"""Copies of a run's plug-ins in its folder, and checks against the current code. Without torch."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnx import registry
from attnx.errors import UserError
from attnx.files.atomic_files import write_bytes
from attnx.registry.part import BY_HAND
from attnx.registry.plugin_code import digests, plugin_parts, short_digest, source_files
from attnx.registry.plugin_files import searched
from attnx.runs.info import plugin_digests, plugin_records
from attnx.runs.layout import PLUGINS
from attnx.runs.run import Run


def current_code(config: Mapping[str, Any]) -> dict[str, str]:
    """The current SHA-256 of each plug-in file that a configuration uses; empty if it uses none."""
    return digests(source_files(plugin_parts(config)))


def copy_plugins(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the plug-ins that a configuration uses into its run folder; return ``plugins`` for run.json, if any."""
    parts = plugin_parts(config)
    code = source_files(parts)
    for path, text in code.items():
        (copy := folder / PLUGINS / path).parent.mkdir(parents=True, exist_ok=True)
        write_bytes(copy, text)
    records = {
        f"{part.kind}={part.name}": {"origin": part.origin, "code": short_digest(digests(source_files([part])))}
        for part in parts
    }
    return {"plugins": {"parts": records, "files": digests(code)}} if parts else {}


def refuse_missing(run: Run) -> None:
    """Refuse a run with a plug-in that is not registered; with the folders searched, and the run's copy."""
    for (kind, name), record in plugin_records(run.info).items():
        if name in registry.names(kind):
            continue
        if record.get("origin") == BY_HAND:
            source = f"; its source is in {run.path / PLUGINS}" if record.get("code") else ""
            raise UserError(f"{run.path}: its {kind} {name!r} was {BY_HAND}; register it here, too{source}")
        copy = f"; to use the run's copy, set {variables}" if (variables := _copy_variables(run)) else ""
        origin = record.get("origin", "")
        problem = "is not installed; install it" if origin.startswith("package ") else f"is missing; {searched()}"
        raise UserError(f"{run.path}: its {kind} {name!r} was a plug-in part, {origin}, which {problem}{copy}")


def changed_code_message(run: Run) -> str | None:
    """Which plug-ins of a run have changed since it was trained; None if none has."""
    recorded, current = plugin_digests(run.info), current_code(run.config)
    if short_digest(recorded) == short_digest(current):
        return None
    changed = [path for path, digest in {**recorded, **current}.items() if digest not in recorded.values()]
    changed += [path for path, digest in recorded.items() if digest not in current.values() and path not in changed]
    variables = _copy_variables(run)
    copy = f"to use the run's copy, set {variables}" if variables else "the run's copy of it is incomplete"
    return f"{run.path}: the code of {', '.join(changed)} has changed since this run was trained; {copy}"


def changed_code_digest(run: Run) -> str:
    """The short digest of the current plug-in code if it has changed since the run was trained; else ""."""
    recorded, current = short_digest(plugin_digests(run.info)), short_digest(current_code(run.config))
    return "" if current == recorded else current or "none"


def _copy_variables(run: Run) -> str:
    """The environment variables that select the run's copies; "" if a copy is missing or was changed."""
    folder = run.path / PLUGINS
    files = {path: digest for path, digest in plugin_digests(run.info).items() if path.endswith(".py")}
    for path, digest in files.items():
        copy = folder / path
        if not copy.is_file() or hashlib.sha256(copy.read_bytes()).hexdigest() != digest:
            return ""
    origins = [record.get("origin", "") for record in plugin_records(run.info).values()]
    packages = {origin.removeprefix("package ") for origin in origins if origin.startswith("package ")}
    is_installed = [path.partition("/")[0] in packages for path in files]
    variables = {"PYTHONPATH": any(is_installed), "ATTNX_PLUGINS": not all(is_installed)}
    return " ".join(f"{name}={shlex.quote(str(folder))}" for name, is_needed in variables.items() if is_needed)
