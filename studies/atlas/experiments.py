"""Settings as experiment files, so that one `attnx -m experiment=A,B,C` trains settings that form no grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from attnx.config.groups import GROUPS
from attnx.runs.sweep import split_override
from studies.atlas.design import Job, Setting, Task

HEAD = "# @package _global_\n# attnx {}\n"


def write_experiments(folder: Path, jobs: Iterable[Job], tasks: Mapping[str, Task]) -> None:
    """Write the experiment file of each job's setting into ``folder/experiment``."""
    (folder / "experiment").mkdir(parents=True, exist_ok=True)
    for job in jobs:
        content = experiment(tasks[job.task].config, job.setting)
        text = HEAD.format(" ".join(job.setting)) + yaml.safe_dump(content, sort_keys=False)
        (folder / "experiment" / f"{job.experiment}.yaml").write_text(text, encoding="utf-8")


def experiment(config: Mapping[str, Any], setting: Setting) -> dict[str, Any]:
    """A task's configuration with a setting's parts in its list of defaults, and the setting's knobs."""
    content = {key: dict(value) for key, value in config.items()}
    parts = content.pop("defaults", {})
    for key, value in map(split_override, setting):
        if key in GROUPS:
            parts[key] = yaml.safe_load(value)
        else:
            group, _, knob = key.partition(".")
            content.setdefault(group, {})[knob] = yaml.safe_load(value)
    return {"defaults": [{f"override /{group}": part} for group, part in parts.items()], **content}
