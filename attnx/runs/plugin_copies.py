"""The plug-ins of a run: copies of their code in its folder, and what is said if other code is there now.

Without torch.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnx import registry
from attnx.errors import UserError
from attnx.registry.plugin_code import digests, plugin_parts, short_digest, source_files
from attnx.registry.source_scan import Part
from attnx.runs.info import plugin_digests, plugin_records
from attnx.runs.layout import PLUGINS
from attnx.runs.run import Run


def code_now(config: Mapping[str, Any]) -> dict[str, str]:
    """The SHA-256 of each file of the plug-ins that a configuration uses, as they are now; empty if it uses none."""
    return digests(source_files(plugin_parts(config)))


def keep_copies(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the plug-ins that a configuration uses into its run folder.

    Returns:
        ``plugins`` for run.json: where each part is from, with what stands for its code, and the SHA-256 of each copy;
        empty if there is none.
    """
    parts = plugin_parts(config)
    code = source_files(parts)
    for place, text in code.items():
        (copy := folder / PLUGINS / place).parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(text)
    told = {f"{part.kind}={part.name}": _told(part) for part in parts}
    return {"plugins": {"parts": told, "files": digests(code)}} if parts else {}


def _told(part: Part) -> dict[str, str]:
    return {"origin": part.origin, "code": short_digest(digests(source_files([part])))}


def refuse_missing(run: Run) -> None:
    """See that the plug-ins of a run are there.

    Raises:
        UserError: one is not: which file it was, where that is looked for, and where the run keeps a copy.
    """
    for (kind, name), told in plugin_records(run.info).items():
        if name in registry.names(kind):
            continue
        copy = f"; the run's copy serves by {use}" if (use := _use_of_copies(run)) else ""
        origin = told.get("origin", "")
        looked = f"$ATTNX_PLUGINS ({os.environ.get('ATTNX_PLUGINS') or 'not set'}) and {Path('plugins').absolute()}"
        what = {
            "package": "is not installed; install it",
            "plug-in": f"is not there; it is looked for in {looked}",
        }.get(origin.partition(" ")[0], "is not registered now; do that before")
        raise UserError(f"{run.path}: its {kind} {name!r} was a part from outside, {origin}, which {what}{copy}")


def other_code(run: Run) -> str | None:
    """Say which plug-ins of a run have other code now than it was made with; None if they are as they were."""
    before, now = plugin_digests(run.info), code_now(run.config)
    if short_digest(before) == short_digest(now):
        return None
    changed = [place for place, digest in {**before, **now}.items() if digest not in before.values()]
    changed += [place for place, digest in before.items() if digest not in now.values() and place not in changed]
    use = _use_of_copies(run)
    copy = f"use the code it was made with by {use}" if use else "and its own copy of it is not whole"
    return f"{run.path}: the code of {', '.join(changed)} is not what this run was made with; {copy}"


def other_code_name(run: Run) -> str:
    """What names the code of the plug-ins in force, if it is not what the run was made with; else empty."""
    before, now = short_digest(plugin_digests(run.info)), short_digest(code_now(run.config))
    return "" if now == before else now or "none"


def _use_of_copies(run: Run) -> str:
    """The variables that put the run's copies in force; empty if these are not what was copied."""
    files, folder = plugin_digests(run.info), run.path / PLUGINS
    for place, digest in files.items():
        copy = folder / place
        if not copy.is_file() or hashlib.sha256(copy.read_bytes()).hexdigest() != digest:
            return ""
    packages = [place.partition("/")[0] for place in files if "/" in place]
    variables = {"PYTHONPATH": bool(packages), "ATTNX_PLUGINS": any("/" not in place for place in files)}
    return " ".join(f"{name}={shlex.quote(str(folder))}" for name, needed in variables.items() if needed)
