"""Train what is missing of the confirmation, for some minutes, and print the planned comparisons.

The tables of docs/which-attention.md follow.

    python -m studies.confirm --minutes 60 -j 2
    python -m studies.confirm recall tracking      # only these suites
    python -m studies.confirm --check              # each suite, short

Each file in suites/ is a suite (docs/suites.md). Its counted runs are kept in results/, and a setting that is whole in
there is not trained again, on whatever machine. Ctrl-C, or the end of the minutes, stops it cleanly. It needs the
data of `attnx data get sigmorphon2018 sigmorphon2020 multi30k etth1 etth2` in $ATTNX_DATA.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from attnx.config.suite_file import read_suite
from attnx.errors import ExitCode, UserError
from studies.atlas.reverse import write_reverse
from studies.attnx_process import Deadline, run_attnx
from studies.confirm.beyond import read_beyond
from studies.confirm.comparisons import check_names, compare, read_planned, read_runs
from studies.confirm.page import fill_page
from studies.confirm.repeats import read_repeated
from studies.study import select_names, study_parser

NAME, HERE = "confirm", Path(__file__).parent
SUITES, RESULTS, PROBLEMS, WORDS = HERE / "suites", HERE / "results", HERE / "problems.yaml", Path("build/reverse")
WRITTEN, PAGE = Path("multirun/suites"), HERE.parents[1] / "docs" / "which-attention.md"


def main() -> int:
    """Parse the command line, train, and compare."""
    parser = study_parser(NAME, __doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="a suite to train; all of them, if none is named")
    parser.add_argument("--check", action="store_true", help="train each suite short, and keep nothing")
    arguments = parser.parse_args()
    deadline, files = Deadline(arguments.minutes), sorted(SUITES.glob("*.yaml"))
    try:
        selected = select_names(arguments.suites, [file.stem for file in files], "suites/")
        suites = [read_suite(str(file)) for file in files]
        planned = read_planned(HERE / "comparisons.yaml")
        check_names(planned, suites)
    except UserError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return ExitCode.USER_ERROR
    write_reverse(WORDS)
    codes = [_train(file, arguments.jobs, deadline, arguments.check) for file in files if file.stem in selected]
    if arguments.check:
        return max(codes)
    runs = read_runs(sorted(RESULTS.glob("*.csv")), suites)
    answers = compare(planned, runs)
    for one in answers:
        print(one.sentence)
    uncounted = read_repeated(suites), read_beyond(suites)
    page = fill_page(PAGE.read_text(encoding="utf-8"), suites, answers, runs, uncounted, PROBLEMS)
    PAGE.write_text(page, encoding="utf-8")
    return ExitCode.FINISHED


def _train(file: Path, jobs: int, deadline: Deadline, is_check: bool) -> int:
    """Train what is missing of a suite, keep its table, and return the exit code."""
    if deadline.has_passed:
        return ExitCode.FINISHED
    table = RESULTS / f"{file.stem}.csv"
    tables = [str(table)] if table.exists() and not is_check else []
    code = run_attnx(["suite", str(file), *tables, "-j", str(jobs), *(["--check"] if is_check else [])], deadline)
    written = WRITTEN / file.stem / "baselines.runs.csv"
    if not is_check and written.exists():
        RESULTS.mkdir(exist_ok=True)
        shutil.copy(written, table)
    return code


if __name__ == "__main__":
    sys.exit(main())
