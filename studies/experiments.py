"""Settings as experiment files, so that one `attnx -m experiment=A,B,C` trains settings that form no grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from attnx.config.groups import GROUPS
from attnx.runs.sweep import split_override
from studies.job import Job, Setting

HEAD = "# @package _global_\n# attnx {}\n"
BASE, PARTS = "base", "defaults"


def write_experiments(folder: Path, jobs: Iterable[Job], configs: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the experiment file of each job's setting into ``folder/experiment``; ``configs`` are by task."""
    (folder / "experiment").mkdir(parents=True, exist_ok=True)
    for job in jobs:
        content = experiment(configs[job.task], job.setting)
        text = HEAD.format(" ".join(job.setting)) + yaml.safe_dump(content, sort_keys=False)
        (folder / "experiment" / f"{job.experiment}.yaml").write_text(text, encoding="utf-8")


def experiment(config: Mapping[str, Any], setting: Setting) -> dict[str, Any]:
    """A task's configuration with a setting's parts in its list of defaults, and the setting's options.

    ``base`` is the experiment that it extends, ``defaults`` are its parts by kind.
    """
    content = {key: value for key, value in config.items() if key not in (BASE, PARTS)}
    parts = dict(config.get(PARTS, {}))
    for key, value in map(split_override, setting):
        if key in GROUPS:
            parts[key] = yaml.safe_load(value)
        else:
            group, _, option = key.partition(".")
            content[group] = {**content.get(group, {}), option: yaml.safe_load(value)}
    base = [config[BASE]] if BASE in config else []
    return {"defaults": [*base, *({f"override /{kind}": part} for kind, part in parts.items())], **content}
