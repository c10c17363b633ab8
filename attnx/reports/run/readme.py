"""Writes the README.md of a run folder: command, configuration, results, files and next steps."""

from __future__ import annotations

import shlex
from pathlib import Path

from attnx.config.view import node_text
from attnx.reports.markdown import titled_table
from attnx.reports.run.results_table import result_lines
from attnx.runs.layout import (
    ALIGNMENT_STATISTICS,
    ALIGNMENTS,
    ALIGNMENTS_PICTURE,
    BAD_BATCH,
    CHECKPOINTS,
    CONFIG,
    CURVES_PICTURE,
    ERROR,
    EXPLANATION,
    MATRICES,
    METRICS,
    PAGE,
    PLUGINS,
    POINTS_PICTURE,
    PREDICTIONS,
    PREDICTIONS_PICTURE,
    PROFILE,
    RESAMPLED,
    RESULTS,
    RUN,
    TENSORBOARD,
    VOCABULARY,
    WANDB,
)
from attnx.runs.run import Run, read_run

CONFIG_KEYS = (
    "task",
    "model",
    "encoder",
    "decoder",
    "readout",
    "output",
    "attention",
    "scorer",
    "scope",
    "query",
    "normalizer",
    "decoding",
    "optimizer",
    "lr_schedule",
    "trainer",
    "seed",
)
FILES = {
    RUN: "the run: command, versions, commit of the code, schedule",
    CONFIG: "the composed configuration",
    PROFILE: "the time of a training step by part of the model",
    METRICS: "a row per validation: losses, speed, and all metrics of the task",
    RESULTS: "test results with 95 % confidence intervals, differences from baselines, and speed",
    PREDICTIONS: "a line per test example: source, prediction, references, errors, log probability",
    RESAMPLED: "metrics of 2,000 bootstrap samples of the test, to compare runs",
    MATRICES: "predicted matrices and their references, by the names in predictions.tsv",
    PREDICTIONS_PICTURE: "some predictions as curves, column by column",
    POINTS_PICTURE: "some answers drawn among their points",
    ALIGNMENTS: "attention weights of some test examples, as arrays and pictures",
    ALIGNMENTS_PICTURE: "six of these alignments on one page",
    ALIGNMENT_STATISTICS: "entropy, coverage and diagonality of attention",
    PAGE: "the alignments for a browser: weights, heads and hypotheses of each example",
    CURVES_PICTURE: "losses and the monitored validation metric over steps",
    CHECKPOINTS: "best and last weights",
    ERROR: "the error with its traceback",
    BAD_BATCH: "the batch whose loss was not finite",
    PLUGINS: "copies of the plug-ins that the run used",
    WANDB: "recordings for W&B, a folder each",
    TENSORBOARD: "recordings for TensorBoard: tensorboard --logdir FOLDER",
    VOCABULARY: "source and target symbols, or the scaling of features",
}
RESUME = """\
```sh
attnx resume {quoted}
```

"""
NEXT_STEPS = """\
## Next steps

{resume}```python
import attnx

run = attnx.open_run("{folder}")
```"""


def write_readme(folder: Path | str) -> Path:
    """Write README.md into a run folder from run.json, config.yaml and results.json, and return its path.

    Raises:
        UserError: not a run folder, an unreadable file, or a format newer than this attnx knows.
    """
    run = read_run(folder)
    sections = [write(run) for write in (_heading, _failure, _setting, _results, _files, _uploads, _next_steps)]
    target = run.path / EXPLANATION
    target.write_text("\n\n".join(filter(None, sections)) + "\n", encoding="utf-8")
    return target


def _heading(run: Run) -> str:
    facts = [f"A run folder of attnx, format {run.info['format']}"]
    facts += [f"{key} {run.info[key]}" for key in ("created", "status") if run.info.get(key)]
    lines = [f"# {run.name}", "", f"{', '.join(facts)}."]
    if command := run.info.get("command"):
        lines += ["", "```sh", command if isinstance(command, str) else shlex.join(map(str, command)), "```"]
    return "\n".join(lines)


def _failure(run: Run) -> str:
    error = run.info.get("error") if run.info.get("status") == "failed" else None
    return f"## Error\n\n{' '.join(str(error).split())}" if error else ""


def _setting(run: Run) -> str:
    rows = [(key, node_text(run.config[key])) for key in CONFIG_KEYS if key in run.config]
    rows += [("schedule", node_text(run.info["schedule"]))] if run.info.get("schedule") else []
    return titled_table("Configuration", ("part", "choice"), rows)


def _results(run: Run) -> str:
    head, *rows = result_lines(run)
    return titled_table("Results", head, rows)


def _files(run: Run) -> str:
    rows = ((f"`{name}`", content) for name, content in FILES.items() if (run.path / name).exists())
    return titled_table("Files", ("file", "content"), rows)


def _uploads(run: Run) -> str:
    """Commands that upload what loggers recorded offline."""
    commands = run.info.get("left") or {}
    lines = ["## Uploads", "", "To upload what was recorded offline:", "", "```sh", *commands.values(), "```"]
    return "\n".join(lines) if commands else ""


def _next_steps(run: Run) -> str:
    current, path = Path.cwd(), run.path.resolve()
    folder = path.relative_to(current) if path.is_relative_to(current) else path
    resume = RESUME.format(quoted=shlex.quote(str(folder))) if run.info.get("status") != "finished" else ""
    return NEXT_STEPS.format(folder=folder, resume=resume)
