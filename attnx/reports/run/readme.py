"""Writes the README.md of a run folder: command, configuration, results, files and next steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attnx.config.view import node_text
from attnx.files.atomic_files import write_text
from attnx.files.printable import titled_table
from attnx.reports.run.tables import CONFIG_KEYS, results_section
from attnx.reports.run.task_declarations import captions
from attnx.runs import layout
from attnx.runs.layout import resume_command
from attnx.runs.run import Run, read_run

FILES = {
    layout.RUN_JSON: "the run: command, versions, commit of the code, schedule",
    layout.CONFIG_YAML: "the composed configuration",
    layout.PROFILE: "where the time of training and test went, by Lightning's profiler",
    layout.METRICS: "training losses every few steps; at validations all metrics of the task; speed",
    layout.RESULTS: "test results with 95 % confidence intervals, differences from baselines, and speed",
    layout.COST: "time and memory of a decoded token by context, measured by attnx cost",
    layout.PREDICTIONS: "a line per test example: source, prediction, references, errors, log probability",
    layout.RESAMPLED: "metrics of 2,000 bootstrap samples of the test, to compare runs",
    layout.MATRICES: "predicted matrices and their references, by the names in predictions.tsv",
    layout.PREDICTIONS_PICTURE: "some predictions as curves, column by column",
    layout.ALIGNMENTS: "attention weights of some test examples, as arrays and pictures",
    layout.ALIGNMENTS_PICTURE: "six of these alignments on one page",
    layout.ALIGNMENT_STATISTICS: "entropy, coverage and diagonality of attention",
    layout.PAGE: "the alignments for a browser: weights, heads and hypotheses of each example",
    layout.CURVES_PICTURE: "losses and the monitored validation metric over steps",
    layout.CHECKPOINTS: "best and last weights",
    layout.ERROR_TXT: "the error with its traceback",
    layout.BAD_BATCH: "the batch whose loss was not finite",
    layout.PLUGINS: "copies of the plug-ins that the run used",
    layout.WANDB: "recordings for W&B, a folder each",
    layout.TENSORBOARD: "recordings for TensorBoard: tensorboard --logdir FOLDER",
    layout.VOCABULARY: "source and target symbols, or the scaling of features",
}
NEXT_STEPS = """\
## Next steps

{resume}```python
import attnx

run = attnx.open_run("{folder}")
```"""


def write_run_readme(run_folder: Path | str) -> Path:
    """Write README.md into a run folder from run.json, config.yaml and results.json, and return its path.

    Raises:
        UserError: not a run folder, an unreadable file, or a format newer than this attnx knows.
    """
    run = read_run(run_folder)
    rows = [(key, node_text(run.config[key])) for key in CONFIG_KEYS if key in run.config]
    rows += [("schedule", node_text(run.info["schedule"]))] if run.info.get("schedule") else []
    configuration = titled_table("Configuration", ("part", "choice"), rows)
    notes = "\n".join(["## Notes", "", *(f"- {note}" for note in run.info["notes"])]) if run.info.get("notes") else ""
    facts = [f"A run folder of attnx, format {run.info['format']}"]
    facts += [f"{key} {run.info[key]}" for key in ("created", "status") if run.info.get(key)]
    lines = [f"# {run.name}", "", f"{', '.join(facts)}."]
    if command := run.info.get("command"):
        lines += ["", "```sh", str(command), "```"]
    if run.info.get("status") == "failed" and (error := run.info.get("error")):
        lines += ["", "## Error", "", " ".join(str(error).split())]
    sections = ["\n".join(lines), notes, configuration, results_section(run), files_section(run, FILES)]
    if commands := run.info.get("uploads"):
        uploads = "\n".join(map(str, commands.values()))
        sections.append(f"## Uploads\n\nTo upload what was recorded offline:\n\n```sh\n{uploads}\n```")
    current, path = Path.cwd(), run.path.resolve()
    folder = path.relative_to(current) if path.is_relative_to(current) else path
    resume = f"```sh\n{resume_command(folder)}\n```\n\n" if run.info.get("status") != "finished" else ""
    sections.append(NEXT_STEPS.format(folder=folder, resume=resume))
    target = run.path / layout.README
    write_text(target, "\n\n".join(filter(None, sections)) + "\n")
    return target


def files_section(run: Run, descriptions: Mapping[str, str]) -> str:
    """A table of the files in a run's folder that have a description, or that its task draws."""
    contents = {**descriptions, **captions(run)}
    rows = [(f"`{name}`", content) for name, content in contents.items() if (run.path / name).exists()]
    return titled_table("Files", ("file", "content"), rows)
