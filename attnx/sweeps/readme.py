"""The README.md of a sweep's folder: the command, the status of each job, how to resume."""

from __future__ import annotations

import shlex
from collections import Counter

from attnx.runs.layout import EXPLANATION, STUDY
from attnx.runs.sweep import Sweep, SweepJob
from attnx.sweeps.live_table import best_job, best_text, format_duration
from attnx.sweeps.training_length import measured_steps

FILES = """\
## Files

| file | content |
|---|---|
| `0`, `1`, ... | one run folder a job, each with its own README and `log.txt`, the job's output |
| `sweep.json` | the command, and for each job its overrides, status, times and best value |
| `report.html`, `report.md`, `report.csv`, `report.tex` | ranking of the settings with tests, once a job has results |
"""
STUDY_ROW = f"| `{STUDY}` | the search's trials, for Optuna |\n"


def write_readme(sweep: Sweep) -> None:
    """Write the README.md of a sweep's folder."""
    files = FILES + (STUDY_ROW if (sweep.path / STUDY).is_file() else "")
    sections = [_overview(sweep), _jobs(sweep), _failures(sweep), files.rstrip(), _how_to_resume(sweep)]
    (sweep.path / EXPLANATION).write_text("\n\n".join(filter(None, sections)) + "\n", encoding="utf-8")


def _overview(sweep: Sweep) -> str:
    counts = Counter(job.status for job in sweep.jobs)
    statuses = ", ".join(f"{count} {status}" for status, count in counts.items())
    lines = [f"# {sweep.name}", "", f"A sweep of attnx, created {sweep.created}, {sweep.status}: {statuses}."]
    if steps := measured_steps(sweep):
        lines += ["", f"{steps}."]
    if best := best_job(sweep):
        lines += ["", f"Best in validation: job {best.index}, {best_text(best)} ({sweep.label(best)})."]
    return "\n".join([*lines, "", "```sh", sweep.command, "```"])


def _jobs(sweep: Sweep) -> str:
    keys = sweep.swept_keys
    header = ["job", *keys, "status", "best", "time"]
    rows = [_row(sweep, job, keys) for job in sweep.jobs]
    return "\n".join(["## Jobs", "", _line(header), "|" + "---|" * len(header), *rows])


def _row(sweep: Sweep, job: SweepJob, keys: list[str]) -> str:
    choices = [job.values.get(key, "") for key in keys]
    link = f"[{job.index}]({job.index})" if sweep.folder(job).is_dir() else str(job.index)
    return _line([link, *choices, job.status, best_text(job), format_duration(job.seconds) if job.seconds else ""])


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _failures(sweep: Sweep) -> str:
    lines = [
        f"- [{job.index}]({sweep.log(job).relative_to(sweep.path)}): {sweep.label(job)}: {job.error}"
        for job in sweep.jobs
        if job.status == "failed"
    ]
    return "\n".join(["## What failed", "", *lines]) if lines else ""


def _how_to_resume(sweep: Sweep) -> str:
    if sweep.status == "finished":
        return ""
    command = f"```sh\nattnx resume {shlex.quote(str(sweep.path))}\n```"
    return f"## Resume\n\nFinished jobs are skipped.\n\n{command}"
