"""Says at the end of a sweep what became of it: in its folder, and to who asked."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from typing import Literal

from attnx.read_sweep import Sweep
from attnx.sweeps.explain import write_explanation
from attnx.sweeps.record import now, refresh, save
from attnx.sweeps.running import DONE
from attnx.sweeps.screen import best, winning


def conclude(sweep: Sweep, otherwise: Literal["interrupted", "failed"]) -> None:
    """Write how a sweep ended.

    Args:
        sweep: the sweep, some of whose jobs may have run where nobody kept its record.
        otherwise: how it ended, if not all jobs are done.
    """
    for job in sweep.jobs:
        if job.status in ("waiting", "running"):
            refresh(sweep, job)
    sweep.status = "finished" if all(job.status in DONE for job in sweep.jobs) and sweep.jobs else otherwise
    sweep.ended = now()
    save(sweep)
    write_explanation(sweep)
    if otherwise == "interrupted":  # an exception is on its way, so nobody will ask for more
        write_comparison(sweep)


def write_comparison(sweep: Sweep) -> None:
    """Write the report that compares the runs, and tell where it is; what is wrong with it changes nothing else."""
    try:
        from attnx.reports.sweep.write import write_report

        page, *_ = write_report([sweep.path])
    except Exception as error:  # whatever it is, the sweep is over, and its exit code is its own
        print(f"attnx: the report could not be written: {' '.join(str(error).split())}", file=sys.stderr)
    else:
        print(page, flush=True)


def report(sweep: Sweep) -> int:
    """Tell what failed, where its log is, and last of all where the report is; return the exit code."""
    count = Counter(job.status for job in sweep.jobs)
    said = ", ".join(f"{number} {status}" for status, number in count.items())
    winner = winning(sweep)
    leads = f"; best {best(winner)}: job {winner.number}, {sweep.told(winner)}" if winner else ""
    print(f"{sweep.path}: {len(sweep.jobs)} job(s), {said}{leads}", flush=True)
    if count["failed"]:
        again = f"attnx resume {shlex.quote(str(sweep.path))}"
        lines = [
            f"{sweep.told(job)}: {job.error}; see {sweep.log(job)}" for job in sweep.jobs if job.status == "failed"
        ]
        print(
            f"attnx: {count['failed']} job(s) failed; try them again with: {again}", *lines, sep="\n  ", file=sys.stderr
        )
    write_comparison(sweep)
    return 0 if sweep.status == "finished" else 1
