"""The README.md of a sweep's folder: the command, the status of each job, how to resume."""

from __future__ import annotations

from attnx.runs.layout import EXPLANATION, STUDY
from attnx.runs.status import RunStatus
from attnx.runs.sweep import Sweep
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
STUDY_ROW = f"| `{STUDY}` | the search's trials, for Optuna |"


def write_sweep_readme(sweep: Sweep) -> None:
    """Write the README.md of a sweep's folder."""
    sections = [f"# {sweep.name}", f"A sweep of attnx, created {sweep.created}, {sweep.status}: {sweep.status_counts}."]
    if steps := measured_steps(sweep):
        sections.append(f"{steps}.")
    if best := best_job(sweep):
        sections.append(f"Best in validation: job {best.index}, {best_text(best)} ({sweep.label(best)}).")
    sections += [f"```sh\n{sweep.command}\n```", _jobs_table(sweep)]
    failed = [job for job in sweep.jobs if job.status == RunStatus.FAILED]
    if failed:
        links = [f"- [{job.index}]({sweep.log(job).relative_to(sweep.path)})" for job in failed]
        lines = [f"{link}: {sweep.label(job)}: {job.error}" for link, job in zip(links, failed, strict=True)]
        sections.append("\n".join(["## What failed", "", *lines]))
    sections.append((FILES + (STUDY_ROW if (sweep.path / STUDY).is_file() else "")).rstrip())
    if sweep.status != RunStatus.FINISHED:
        sections.append(f"## Resume\n\nFinished jobs are skipped.\n\n```sh\n{sweep.resume_command}\n```")
    (sweep.path / EXPLANATION).write_text("\n\n".join(sections) + "\n", encoding="utf-8")


def _jobs_table(sweep: Sweep) -> str:
    keys = sweep.swept_keys
    header = ["job", *keys, "status", "best", "time"]
    rows = [header, ["---"] * len(header)]
    for job in sweep.jobs:
        link = f"[{job.index}]({job.index})" if sweep.folder(job).is_dir() else str(job.index)
        choices = [job.values.get(key, "") for key in keys]
        duration = format_duration(job.seconds) if job.seconds else ""
        rows.append([link, *choices, job.status, best_text(job), duration])
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(["## Jobs", "", *lines])
