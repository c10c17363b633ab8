"""A run folder written by hand, as much of it as a test needs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from attnx.runs.layout import CONFIG_YAML, FORMAT, METRICS, PREDICTIONS, README, RESULTS, RUN_JSON

HEAD = "source\tprediction\treferences\tedits\tlog_probability"


def write_run_folder(
    folder: str | Path,
    config: Mapping[str, Any] | None = None,
    results: Mapping[str, Any] | None = None,
    predictions: Sequence[str] | None = None,
    curve: str = "",
    readme: str = "",
    **info: Any,
) -> Path:
    """Write the record of a finished run, which ``info`` changes, and of its other files those that are given.

    Args:
        predictions: the lines of the table of predictions behind its head.
        curve: the table of metrics.
    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    record = {
        "format": FORMAT,
        "status": "finished",
        "monitor": "valid_per",
        "maximize": False,
        "created": "2031-07-05",
    }
    texts = {
        RUN_JSON: json.dumps({**record, **info}),
        CONFIG_YAML: None if config is None else yaml.safe_dump(config, sort_keys=False),
        RESULTS: None if results is None else json.dumps(results),
        PREDICTIONS: None if predictions is None else "\n".join([HEAD, *predictions]) + "\n",
        METRICS: curve or None,
        README: readme or None,
    }
    for name, text in texts.items():
        if text is not None:
            (path / name).write_text(text, encoding="utf-8")
    return path
