"""Says at the end of a sweep what became of it: in its folder, and to who asked."""

from __future__ import annotations

import shlex
import sys
import traceback
from collections import Counter
from contextlib import suppress
from typing import Literal

from attnx.files.printable import printable
from attnx.runs.layout import ERROR
from attnx.runs.status import RunStatus
from attnx.runs.sweep import Sweep
from attnx.sweeps.live_table import best, winning
from attnx.sweeps.readme import write_explanation
from attnx.sweeps.record import now, refresh, save
from attnx.sweeps.session import DONE
from attnx.sweeps.training_length import measured
from attnx.training.callbacks.stop_signal import StopSignal

FINISHED = "{}: finished; there is nothing left to do"


def conclude(sweep: Sweep, otherwise: Literal["interrupted", "failed"]) -> None:
    """Write how a sweep ended.

    Args:
        sweep: the sweep, some of whose jobs may have run where nobody kept its record.
        otherwise: how it ended, if not all jobs are done.
    """
    if not sweep.path.is_dir():
        return
    with StopSignal() as stopping:
        stopping.ignore()  # whoever presses Ctrl-C once more is not to leave a sweep that says it is running
        for job in sweep.jobs:
            if job.status in ("waiting", "running"):
                refresh(sweep, job)
        is_complete = bool(sweep.jobs) and all(job.status in DONE for job in sweep.jobs)
        sweep.status = RunStatus.FINISHED if is_complete else RunStatus(otherwise)
        sweep.ended = sweep.ended or now()
        save(sweep)
        write_explanation(sweep)


def is_done(sweep: Sweep) -> bool:
    """Whether a sweep has finished, and its jobs' folders say so too."""
    return sweep.status == "finished" and all(job.status in DONE for job in sweep.jobs)


def failure(sweep: Sweep, error: Exception) -> str:
    """Say in one line what ended a sweep; the traceback of what nobody foresaw is kept in its folder."""
    told = f"{type(error).__name__}: {' '.join(str(error).split())}"
    again = f"go on with: attnx resume {shlex.quote(str(sweep.path))}"
    with suppress(OSError):
        (sweep.path / ERROR).write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        again = f"the traceback is in {sweep.path / ERROR}; {again}"
    return f"{told}; {again}"


def write_comparison(sweep: Sweep) -> None:
    """Write the report that compares the runs, and tell where it is; what is wrong with it changes nothing else."""
    try:
        from attnx.reports.sweep.write import write_report

        page, *_ = write_report([sweep.path])
    except (Exception, KeyboardInterrupt) as error:  # whatever it is, the sweep is over, and its exit code is its own
        why = " ".join(str(error).split()) or type(error).__name__
        again = f"attnx report {shlex.quote(str(sweep.path))}"
        print(f"attnx: the report could not be written: {printable(why)}; write it with: {again}", file=sys.stderr)
    else:
        print(page, flush=True)


def report(sweep: Sweep) -> int:
    """Tell what failed, where its log is, and last of all where the report is; return the exit code."""
    count = Counter(job.status for job in sweep.jobs)
    said = ", ".join(f"{number} {status}" for status, number in count.items())
    winner = winning(sweep)
    leads = f"; best {best(winner)}: job {winner.index}, {sweep.label(winner)}" if winner else ""
    if steps := measured(sweep):
        print(steps, flush=True)
    print(printable(f"{sweep.path}: {len(sweep.jobs)} job(s), {said}{leads}"), flush=True)
    if count[RunStatus.FAILED]:
        again = f"attnx resume {shlex.quote(str(sweep.path))}"
        lines = [
            printable(f"{sweep.label(job)}: {job.error}; see {sweep.log(job)}")
            for job in sweep.jobs
            if job.status == "failed"
        ]
        failed = f"attnx: {count[RunStatus.FAILED]} job(s) failed; try them again with: {again}"
        print(failed, *lines, sep="\n  ", file=sys.stderr)
    write_comparison(sweep)
    return 0 if sweep.status == "finished" else 1
