"""What the user's own configuration files set, as overrides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from attnx.config.groups import GROUPS, PART_GROUPS, PRESETS
from attnx.config.view import value_text


def overrides_in_files(overrides: Sequence[str], config_dir: str | None) -> dict[Path, list[str]]:
    """What the files of a folder that overrides choose would be on the command line, by file.

    None of a file is returned if several presets are chosen: each may replace what another sets.
    """
    choices = [override.partition("=")[::2] for override in overrides]
    if config_dir is None or sum(group in PRESETS for group, _ in choices) > 1:
        return {}
    files = {Path(config_dir, group, f"{name}.yaml"): group for group, name in choices if group in GROUPS}
    return {file: list(_overrides(file, group)) for file, group in files.items() if file.is_file()}


def _overrides(file: Path, group: str) -> Iterator[str]:
    """The overrides that a file amounts to; Hydra has read it already."""
    content = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    for entry in content.pop("defaults", []):
        for key, value in entry.items() if isinstance(entry, Mapping) else ():
            kind = str(key).removeprefix("override").strip().removeprefix("/")
            if kind in PART_GROUPS:
                yield f"{kind}={value_text(value)}"
    yield from _flatten(content, f"{group}." if group in PART_GROUPS else "")


def _flatten(node: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}={value_text(value)}"
