"""Writes the README.md of a run folder: what it was, what came out, what its files hold, how to go on."""

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
    VOCABULARY,
)
from attnx.runs.run import Run, read_run

PARTS = ("scorer", "scope", "query", "normalizer")
SETTING = (
    "task",
    "model",
    "encoder",
    "decoder",
    "readout",
    "output",
    "attention",
    *PARTS,
    "decoding",
    "optimizer",
    "lr_schedule",
    "trainer",
    "seed",
)
HOLDS = {
    RUN: "what was run: the command, versions, the code's commit, the schedule",
    CONFIG: "the whole composed configuration, parts by name",
    PROFILE: "where the time of a training step went, part by part",
    METRICS: "one row a validation: losses, speed, and every measure of the task",
    RESULTS: "the test results with their 95 % intervals, the differences from baselines, and the speed",
    PREDICTIONS: "one line a test example: source, prediction, references, errors, log probability",
    RESAMPLED: "the results of 2,000 other draws of the test's examples, to tell this run from others",
    MATRICES: "the matrices that were predicted, and their references, by the names in predictions.tsv",
    PREDICTIONS_PICTURE: "some of them as curves, column by column",
    POINTS_PICTURE: "some of the answers drawn among their points",
    ALIGNMENTS: "attention weights of some test examples, as arrays and pictures",
    ALIGNMENTS_PICTURE: "six of those pictures on one page",
    ALIGNMENT_STATISTICS: "how it read: how widely, how much of the source, how straight",
    PAGE: "those alignments to look into, in any browser: weights, heads, hypotheses, example by example",
    CURVES_PICTURE: "losses over steps, and the validation measure that chose the best weights",
    CHECKPOINTS: "the weights, best and last",
    ERROR: "what went wrong, with Python's traceback",
    BAD_BATCH: "the batch whose loss was no number",
    PLUGINS: "copies of the plug-ins that it used, as they were",
    "wandb": "what W&B was told, or is to be told: each recording in a folder of its own",
    "tensorboard": "the same for TensorBoard: tensorboard --logdir FOLDER",
    VOCABULARY: "source and target symbols, one a line, or how features are scaled",
}
RESUME = """\
```sh
attnx resume {quoted}
```

"""
ONWARD = """\
## Go on

{resume}```python
import attnx

run = attnx.open_run("{folder}")
```"""


def write_explanation(folder: Path | str) -> Path:
    """Write README.md into a run folder from run.json, config.yaml and results.json, and return its path.

    Raises:
        UserError: not a run folder, an unreadable file, or a format newer than this attnx knows.
    """
    run = read_run(folder)
    sections = [_opening(run), _failure(run), _setting(run), _results(run), _files(run), _left(run), _onward(run)]
    target = run.path / EXPLANATION
    target.write_text("\n\n".join(section for section in sections if section) + "\n", encoding="utf-8")
    return target


def _opening(run: Run) -> str:
    facts = [f"A run folder of attnx, format {run.info['format']}"]
    facts += [f"{key} {run.info[key]}" for key in ("created", "status") if run.info.get(key)]
    lines = [f"# {run.name}", "", f"{', '.join(facts)}."]
    if command := run.info.get("command"):
        lines += ["", "```sh", command if isinstance(command, str) else shlex.join(map(str, command)), "```"]
    return "\n".join(lines)


def _failure(run: Run) -> str:
    error = run.info.get("error") if run.info.get("status") == "failed" else None
    return f"## What went wrong\n\n{' '.join(str(error).split())}" if error else ""


def _setting(run: Run) -> str:
    rows = [(key, node_text(run.config[key])) for key in SETTING if key in run.config]
    rows += [("schedule", node_text(run.info["schedule"]))] if run.info.get("schedule") else []
    return titled_table("What it was", ("part", "choice"), rows)


def _results(run: Run) -> str:
    head, *rows = result_lines(run)
    return titled_table("Results", head, rows)


def _files(run: Run) -> str:
    rows = ((f"`{name}`", holds) for name, holds in HOLDS.items() if (run.path / name).exists())
    return titled_table("Files", ("file", "holds"), rows)


def _left(run: Run) -> str:
    """What a logger left to the user."""
    left = run.info.get("left") or {}
    lines = ["## Left to do", "", "To upload what was recorded:", "", "```sh", *left.values(), "```"]
    return "\n".join(lines) if left else ""


def _onward(run: Run) -> str:
    here = Path.cwd()
    path = run.path.resolve()
    folder = path.relative_to(here) if path.is_relative_to(here) else path
    resume = RESUME.format(quoted=shlex.quote(str(folder))) if run.info.get("status") != "finished" else ""
    return ONWARD.format(folder=folder, resume=resume)
