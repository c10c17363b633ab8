"""Writes the README.md of a sweep's folder: what was asked, how each job stands, how to go on."""

from __future__ import annotations

import shlex
from collections import Counter

from attnx.runs.layout import EXPLANATION
from attnx.runs.sweep import Sweep, SweepJob
from attnx.sweeps.live_table import best, clock, winning
from attnx.sweeps.training_length import measured

FILES = """\
## Files

| file | holds |
|---|---|
| `0`, `1`, ... | a run folder a job, each with a README of its own and `log.txt`, what the job said |
| `sweep.json` | the command, and of each job what it was asked, how it stands, its times and best value |
| `report.html`, `report.md`, `report.csv`, `report.tex` | which won and how surely, once a job has been tested |
"""
STUDY = "| `study.db` | what the search has tried, for Optuna |\n"


def write_explanation(sweep: Sweep) -> None:
    """Write it."""
    files = FILES + (STUDY if (sweep.path / "study.db").is_file() else "")
    sections = [_opening(sweep), _jobs(sweep), _failures(sweep), files.rstrip(), _onward(sweep)]
    (sweep.path / EXPLANATION).write_text("\n\n".join(filter(None, sections)) + "\n", encoding="utf-8")


def _opening(sweep: Sweep) -> str:
    count = Counter(job.status for job in sweep.jobs)
    counted = ", ".join(f"{number} {status}" for status, number in count.items())
    lines = [f"# {sweep.name}", "", f"A sweep of attnx, created {sweep.created}, {sweep.status}: {counted}."]
    if steps := measured(sweep):
        lines += ["", f"{steps}."]
    if winner := winning(sweep):
        lines += ["", f"Best in validation: job {winner.index}, {best(winner)} ({sweep.label(winner)})."]
    return "\n".join([*lines, "", "```sh", sweep.command, "```"])


def _jobs(sweep: Sweep) -> str:
    varied = sweep.swept_keys
    head = ["job", *varied, "status", "best", "time"]
    rows = [_row(sweep, job, varied) for job in sweep.jobs]
    return "\n".join(["## Jobs", "", _line(head), "|" + "---|" * len(head), *rows])


def _row(sweep: Sweep, job: SweepJob, varied: list[str]) -> str:
    choices = [job.values.get(key, "") for key in varied]
    linked = f"[{job.index}]({job.index})" if sweep.folder(job).is_dir() else str(job.index)
    return _line([linked, *choices, job.status, best(job), clock(job.seconds) if job.seconds else ""])


def _line(fields: list[str]) -> str:
    return "| " + " | ".join(field.replace("|", "\\|") for field in fields) + " |"


def _failures(sweep: Sweep) -> str:
    lines = [
        f"- [{job.index}]({job.index}/log.txt): {sweep.label(job)}: {job.error}"
        for job in sweep.jobs
        if job.status == "failed"
    ]
    return "\n".join(["## What failed", "", *lines]) if lines else ""


def _onward(sweep: Sweep) -> str:
    if sweep.status == "finished":
        return ""
    again = f"```sh\nattnx resume {shlex.quote(str(sweep.path))}\n```"
    return f"## Go on\n\nWhat is finished is not done again.\n\n{again}"
