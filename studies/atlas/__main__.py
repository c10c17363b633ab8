"""Train what is missing of the study, for some minutes, add what has ended to results.csv, and write the page.

    python -m studies.atlas --minutes 60 -j 2
    python -m studies.atlas g2p reverse            # only these tasks
    python -m studies.atlas --merge FILE
    python -m studies.atlas --check

It needs the data of design.yaml in $ATTNX_DATA (docs/data.md). Ctrl-C, or the end of the minutes, stops it cleanly:
runs that were under way go on from their checkpoints the next time. A run whose row is in results.csv is never trained
again, on whatever machine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import attnx
from attnx.errors import ExitCode, UserError
from attnx.runs.info import RunStatus
from studies.atlas.design import Task, jobs, read_design
from studies.atlas.page import DEFAULT_RATE, fill_tables
from studies.atlas.reverse import write_reverse
from studies.attnx_process import Deadline
from studies.job import Job, write_experiments
from studies.results import Results
from studies.study import Study, select_names, study_parser

NAME, HERE, BUILD = "atlas", Path(__file__).parent, Path("build/atlas")
PAGE = Path("docs/which-attention.md")
SHORT = ["trainer.max_steps=4", "trainer.num_validations=1", "trainer.valid_examples=8", "trainer.test_examples=4"]
SHORT += ["trainer.pictures=false"]


def main() -> int:
    """Parse the command line and train."""
    parser = study_parser(NAME, __doc__)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="a task to train; all of them, if none is named")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--merge", type=Path, metavar="FILE", help="add the runs of another table, and train none")
    modes.add_argument("--check", action="store_true", help="train a setting of each task for a few steps, add none")
    arguments = parser.parse_args()
    tasks, seeds = read_design(HERE / "design.yaml")
    deadline = Deadline(arguments.minutes)
    planned = list(jobs(tasks, seeds))
    try:
        selected = select_names(arguments.tasks, tasks, "design.yaml")
        if arguments.check:
            return check({name: tasks[name] for name in tasks if name in selected}, seeds[0], arguments.jobs, deadline)
        results = Results(HERE / "results.csv", planned)
        if arguments.merge:
            results.add_table(arguments.merge)
        else:
            _prepare(planned, tasks)
            Study(NAME, BUILD, planned, results, arguments.jobs, deadline).train_missing(
                lambda job: job.task in selected
            )
        report = attnx.report(results.path, [DEFAULT_RATE])
        page = fill_tables(PAGE.read_text(encoding="utf-8"), report, tasks, len(results.runs), len(planned))
        PAGE.write_text(page, encoding="utf-8")
    except UserError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return ExitCode.USER_ERROR
    missing = len(planned) - len(results.runs)
    print(f"{len(results.runs)} of {len(planned)} runs are in {results.path}, {missing} are missing; {PAGE}")
    return ExitCode.FINISHED


def check(tasks: Mapping[str, Task], seed: int, parallel: int, deadline: Deadline) -> int:
    """Train the last setting of each task for a few steps, in a temporary folder; whether all finish."""
    # Not for the steps of the design.
    planned = [task.job(task.settings[-1], seed)._replace(steps=None) for task in tasks.values()]
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        _prepare(planned, tasks)
        results = Results(Path("results.csv"), planned)
        Study(NAME, BUILD, planned, results, parallel, deadline).train(planned, SHORT)
        results = Results(Path("results.csv"), planned)
        failed = [run for run in results.runs.values() if run.status != RunStatus.FINISHED]
    for run in failed:
        print(f"failed: {run.label}: {run.error}", file=sys.stderr)
    print(f"{len(results.runs)} of {len(planned)} runs of the check are in the table, {len(failed)} failed")
    return ExitCode.FAILED if failed or len(results.runs) < len(planned) else ExitCode.FINISHED


def _prepare(planned: Sequence[Job], tasks: Mapping[str, Task]) -> None:
    """Write the generated data and the experiment files."""
    write_reverse(BUILD / "reverse")
    write_experiments(BUILD, planned, {name: task.config for name, task in tasks.items()})


if __name__ == "__main__":
    sys.exit(main())
